"""How many requests each question costs."""

from collections.abc import Callable

import pytest

from support.samples import KEYS, sample
from tieredfs import (
    IndexType,
    ObjectStore,
    RequestCounter,
    RequestEvent,
)
from tieredfs_aiven import Aiven

VARIANTS = ["plain", "zstd", "encrypted", "zstd-encrypted"]
every_variant = pytest.mark.parametrize("variant", VARIANTS)


class Events(list[RequestEvent]):
    """What an object store told, in order."""

    def on_request(self, event: RequestEvent) -> None:
        """Keep it."""
        self.append(event)

    def during(self, ask: Callable[[], object]) -> list[tuple[str, str]]:
        """Return verbs and suffixes of the requests that a question takes."""
        self.clear()
        ask()
        return [(event.verb, event.key.rpartition(".")[2]) for event in self]


def watched(variant: str, *, is_prefix_known: bool = True) -> tuple[Aiven, Events]:
    events = Events()
    one = sample(variant, "txn")
    store = ObjectStore(str(one.folder / "objects"), observer=events)
    prefix = one.stem[: one.stem.index("txn")] if is_prefix_known else None
    return Aiven(store, key_prefix=prefix, encryption_keys=KEYS), events


@every_variant
def test_all_indexes_take_the_manifest_and_one_range(variant: str) -> None:
    storage, events = watched(variant)
    segment = sample(variant, "txn").metadata
    wanted = [("get", "rsm-manifest"), ("get_range", "indexes")]
    assert events.during(lambda: storage.fetch_all_indexes(segment)) == wanted
    some = [IndexType.TIMESTAMP, IndexType.TRANSACTION]
    assert events.during(lambda: storage.fetch_indexes(segment, some)) == wanted
    one = IndexType.LEADER_EPOCH
    assert events.during(lambda: storage.fetch_index(segment, one)) == wanted


@every_variant
def test_a_range_takes_one_request_with_the_layout_and_two_without(
    variant: str,
) -> None:
    storage, events = watched(variant)
    segment = sample(variant, "txn").metadata
    layout = storage.fetch_all_indexes(segment).layout
    for start, end in ((0, None), (7, 100_000), (300_000, 308_070)):
        cold = events.during(lambda: storage.fetch_log_segment(segment, start, end))  # noqa: B023 - of this round
        assert cold == [("get", "rsm-manifest"), ("get_range", "log")]
        warm = events.during(
            lambda: storage.fetch_log_segment(segment, start, end, layout=layout)  # noqa: B023 - of this round
        )
        assert warm == [("get_range", "log")]


@every_variant
def test_only_the_chunks_of_a_range_are_fetched(variant: str) -> None:
    storage, events = watched(variant)
    segment = sample(variant, "txn").metadata
    layout = storage.fetch_all_indexes(segment).layout
    events.during(
        lambda: storage.fetch_log_segment(segment, 100_000, 100_010, layout=layout)
    )
    assert events[0].size <= 8192 + 28
    if variant == "plain":
        assert events[0].size == 10


@every_variant
def test_what_comes_with_the_last_chunk_of_a_range_is_not_fetched_again(
    variant: str,
) -> None:
    storage, events = watched(variant)
    segment = sample(variant, "txn").metadata
    layout = storage.fetch_all_indexes(segment).layout
    log = bytes(storage.fetch_log_segment(segment))
    stored = events[-1].size
    events.clear()
    position = 0
    while position < len(log):
        end = min(position + 5000, len(log))
        ahead = storage.fetch_log_ahead(segment, position, end, layout=layout)
        assert len(ahead) >= end - position
        assert log.startswith(bytes(ahead), position)
        position += len(ahead)
    assert position == len(log)
    assert sum(event.size for event in events) == stored


def test_an_empty_range_takes_none_with_the_layout() -> None:
    storage, events = watched("zstd")
    segment = sample("zstd", "txn").metadata
    layout = storage.fetch_all_indexes(segment).layout
    ask = lambda: storage.fetch_log_segment(segment, 9, 9, layout=layout)  # noqa: E731 - asked once
    assert events.during(ask) == []


def test_an_index_that_is_not_there_takes_the_manifest_only() -> None:
    storage, events = watched("zstd-encrypted")
    segment = sample("zstd-encrypted", "txn-0@0").metadata
    wanted = [IndexType.TRANSACTION]
    assert events.during(lambda: storage.fetch_indexes(segment, wanted)) == [
        ("get", "rsm-manifest")
    ]


def test_a_description_takes_the_manifest_and_the_epochs() -> None:
    storage, events = watched("encrypted")
    segment = sample("encrypted", "txn").metadata
    assert events.during(lambda: storage.describe(segment)) == [
        ("get", "rsm-manifest"),
        ("get_range", "indexes"),
    ]


def test_the_whole_log_takes_one_manifest() -> None:
    storage, events = watched("zstd")
    segment = sample("zstd", "txn").metadata
    asked = events.during(lambda: list(storage.stream_log(segment)))
    assert asked == [("get", "rsm-manifest"), ("get_range", "log")]


def test_partitions_take_a_listing_and_one_a_topic() -> None:
    storage, events = watched("zstd-encrypted")
    assert len(events.during(storage.list_partitions)) == 5
    (partition, *_) = storage.list_partitions()
    assert len(events.during(lambda: storage.list_partitions(partition.topic))) == 2
    assert {p.topic for p in storage.list_partitions(partition.topic)} == {
        partition.topic
    }
    assert len(events.during(lambda: storage.list_segments(partition))) == 1


def test_finding_out_the_prefix_takes_a_listing_and_a_manifest_once() -> None:
    storage, events = watched("encrypted", is_prefix_known=False)
    segment = sample("encrypted", "txn").metadata
    assert events.during(lambda: storage.fetch_all_indexes(segment)) == [
        ("list", ""),
        ("get", "rsm-manifest"),
        ("get", "rsm-manifest"),
        ("get_range", "indexes"),
    ]
    assert len(events.during(lambda: storage.fetch_all_indexes(segment))) == 2


def test_making_a_storage_takes_none() -> None:
    counter = RequestCounter()
    Aiven(ObjectStore("memory://nothing", observer=counter), encryption_keys=KEYS)
    assert counter.requests == 0
