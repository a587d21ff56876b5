"""What the index cache saves of the requests that this layout takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import s3fs

from support.distant_s3 import DistantS3
from support.samples import DATA, KEYS, fill, sample
from tieredfs import ObjectStore, RequestCounter, RequestEvent, SegmentMetadata, Tier
from tieredfs.cache import IndexCachedStorage, RemoteIndexCache, with_index_cache
from tieredfs.storage import open_log
from tieredfs.testing.samples import PARTITIONS
from tieredfs.testing.samples import sample as made
from tieredfs.testing.segment_plan import (
    BatchPlan,
    PlannedRecord,
    SegmentPlan,
    build_segment,
)
from tieredfs_aiven import Aiven


class Suffixes(list[str]):
    """How the keys of requests end."""

    def on_request(self, event: RequestEvent) -> None:
        """Keep it."""
        self.append(event.key.rpartition("/")[2].rpartition(".")[2])


VARIANTS = ["plain", "zstd", "encrypted", "zstd-encrypted"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_indexes_and_layout_are_asked_for_once_across_restarts(
    variant: str, tmp_path: Path
) -> None:
    one = sample(variant, "txn")
    segment = one.metadata
    prefix = one.stem[: one.stem.index("txn")]

    def opened() -> tuple[IndexCachedStorage, RequestCounter]:
        counter = RequestCounter()
        store = ObjectStore(str(one.folder / "objects"), observer=counter)
        aiven = Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
        return IndexCachedStorage(aiven, RemoteIndexCache(aiven, tmp_path)), counter

    storage, counter = opened()
    expected = dict(storage.inner.fetch_all_indexes(segment))
    whole = bytes(storage.inner.fetch_log_segment(segment, 0, 1000))
    asked = counter.requests
    assert dict(storage.fetch_all_indexes(segment)) == expected
    assert counter.requests - asked == 2  # cold: the manifest, and one range
    assert dict(storage.fetch_all_indexes(segment)) == expected
    assert counter.requests - asked == 2  # warm
    assert storage.fetch_log_segment(segment, 0, 1000) == whole
    assert counter.requests - asked == 3  # no manifest any more

    storage, counter = opened()  # a restart
    assert dict(storage.fetch_all_indexes(segment)) == expected
    assert counter.requests == 0
    assert storage.fetch_log_segment(segment, 0, 1000) == whole
    assert counter.requests == 1

    (entry,) = tmp_path.glob("*.indexes")
    entry.write_bytes(entry.read_bytes()[:-1])
    storage, counter = opened()
    assert dict(storage.fetch_all_indexes(segment)) == expected
    assert counter.requests == 2  # repaired in one operation


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_topic_is_described_by_what_is_kept(variant: str, tmp_path: Path) -> None:
    one = sample(variant, "txn")
    prefix = one.stem[: one.stem.index("txn")]

    def asked() -> tuple[list[str], dict[int, int], dict[int, int]]:
        counter = Suffixes()
        store = ObjectStore(str(one.folder / "objects"), observer=counter)
        aiven = Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
        with Tier(with_index_cache(aiven, tmp_path)) as tier:
            topic = tier.topic("plain")
            counter.clear()
            found = topic.beginning_offsets(), topic.end_offsets()
        return [suffix for suffix in counter if suffix], *found

    cold, *expected = asked()
    assert {"rsm-manifest", "indexes"} <= set(cold)
    warm, *found = asked()
    assert found == expected
    assert warm == []  # nor an end, which was seen in the log


def test_two_tiers_of_the_same_segments_in_one_store_are_not_mixed_up(
    tmp_path: Path,
) -> None:
    store = ObjectStore(str(DATA / "txn-index" / "objects"))
    plain, encrypted = (
        Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
        for prefix in ("", "encrypted/")
    )
    (partition,) = encrypted.list_partitions()
    for storage in (plain, encrypted):
        segment = storage.list_segments(partition)[0]
        assert segment == encrypted.list_segments(partition)[0]
        kept = with_index_cache(storage, tmp_path)
        assert isinstance(kept, IndexCachedStorage)
        assert dict(kept.fetch_all_indexes(segment)) == dict(
            storage.fetch_all_indexes(segment)
        )
        assert kept.fetch_log_segment(segment) == storage.fetch_log_segment(segment)
        assert kept.cache.stats.loads == 1


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_bucket_30_ms_away_is_asked_twice_when_cold_and_never_when_warm(
    variant: str, tmp_path: Path
) -> None:
    one = sample(variant, "txn")
    with DistantS3() as server:
        bucket = f"s3://{variant}"
        s3fs.S3FileSystem(skip_instance_cache=True, **server.options).mkdir(variant)
        keys = {f"{one.stem}.{suffix}": data for suffix, data in one.objects.items()}
        fill(ObjectStore(bucket, server.options), keys)
        prefix = one.stem[: one.stem.index("txn")]
        server.latency = 0.03

        def asked(cache: RemoteIndexCache) -> list[str]:
            server.requests.clear()
            cache.lookup_offset(one.metadata, one.metadata.start_offset + 1)
            return [request.rpartition(".")[2] for request in server.requests]

        def opened() -> RemoteIndexCache:
            store = ObjectStore(bucket, server.options)
            aiven = Aiven(store, key_prefix=prefix, encryption_keys=KEYS)
            return RemoteIndexCache(aiven, tmp_path)

        cache = opened()
        assert asked(cache) == ["rsm-manifest", "indexes"]
        assert asked(cache) == []
        cache.close()
        assert asked(opened()) == []
        (entry,) = tmp_path.glob("*.indexes")
        entry.write_bytes(entry.read_bytes()[:-1])
        assert asked(opened()) == ["rsm-manifest", "indexes"]


ONE = made(PARTITIONS[0], 1)
ENCRYPTED: dict[str, Any] = {"encryption_keys": KEYS, "encryption_key_id": "k1"}


def copied(storage: Aiven) -> None:
    storage.copy_log_segment(ONE.metadata, ONE.data)


def copied_again(storage: Aiven) -> None:
    storage.delete_log_segment(ONE.metadata)
    copied(storage)


def replaced(storage: Aiven) -> None:
    with open_log(ONE.data.log, "a log") as log:
        storage.replace_log_segment(ONE.metadata, log, ONE.data.indexes)


def listed(storage: Aiven) -> SegmentMetadata:
    (segment,) = storage.list_segments(PARTITIONS[0])
    return segment


@pytest.mark.parametrize("change", [copied_again, replaced])
@pytest.mark.parametrize("options", [ENCRYPTED, {"encryption_keys": KEYS}])
def test_a_segment_that_another_process_stores_again_stays_readable(
    memory: ObjectStore,
    tmp_path: Path,
    change: Callable[[Aiven], None],
    options: dict[str, Any],
) -> None:
    mine = Aiven(memory, key_prefix="", **ENCRYPTED)
    with with_index_cache(mine, tmp_path) as storage:
        storage.copy_log_segment(ONE.metadata, ONE.data)
        before = listed(mine)
        assert storage.fetch_log_segment(before) == ONE.log
        change(Aiven(memory, key_prefix="", **options))
        for segment in (before, listed(mine), before):
            assert storage.fetch_log_segment(segment) == ONE.log
            assert dict(storage.fetch_all_indexes(segment)) == dict(ONE.data.indexes)
    with with_index_cache(mine, tmp_path) as storage:  # after a restart
        counter = RequestCounter()
        asked = storage.with_observer(counter)
        assert asked.fetch_log_segment(listed(mine)) == ONE.log
        assert counter.requests == 1


def test_a_plain_log_is_not_read_as_long_as_an_earlier_copy_was(
    memory: ObjectStore, tmp_path: Path
) -> None:
    """Nothing but its size shows that the cached manifest is an old one."""
    short, long = (
        build_segment(
            PARTITIONS[0],
            ONE.metadata.id,
            0,
            SegmentPlan(
                (BatchPlan((PlannedRecord(1_760_000_000_000, b"k", bytes(size)),)),)
            ),
        )
        for size in (40, 60)
    )
    mine = Aiven(memory, key_prefix="")
    with with_index_cache(mine, tmp_path) as storage:
        storage.copy_log_segment(short.metadata, short.data)
        other = Aiven(memory, key_prefix="")
        other.delete_log_segment(short.metadata)
        other.copy_log_segment(long.metadata, long.data)
        segment = listed(mine)
        assert storage.fetch_log_segment(segment) == long.log
        assert storage.describe(segment).size == len(long.log)
        assert storage.fetch_log_segment(segment) == long.log


def test_a_listing_shows_what_the_manifest_states_of_sizes(memory: ObjectStore) -> None:
    storage = Aiven(memory, key_prefix="", **ENCRYPTED)
    copied(storage)
    segment = listed(storage)
    assert segment.stored_size == sum(entry.size or 0 for entry in memory.list())
    layout = storage.fetch_all_indexes(segment).layout
    assert storage.is_layout_current(segment, layout)
    assert storage.is_layout_current(ONE.metadata, layout)
    assert not storage.is_layout_current(segment, layout + b" ")
    assert not storage.is_layout_current(segment, b"not a manifest")
