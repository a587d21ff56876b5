"""What a key or a manifest claims of its segment, and its indexes or log contradict.

The segments are native ones, whose objects are written anew with other claims and right
checksums, as a faulty writer would.
"""

import uuid
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs import (
    CorruptDataError,
    CorruptObjectError,
    ObjectStore,
    SegmentId,
    SegmentMetadata,
    Tier,
    Topic,
    TopicIdPartition,
    open_storage,
)
from tieredfs.format.segment.key import SegmentKey
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.format.segment.tail import SegmentFacts, build_tail, parse_tail
from tieredfs.log.planning.tiles import deciding_ends
from tieredfs.log.verify.verify import Depth, verify

BEGIN = 1_700_000_000_000
SUFFIX = ".segment"
KEYS = NativeKeys()


def topic_of(store: ObjectStore) -> Topic:
    return Tier(open_storage(store, "single-object")).topic("t")


def append(store: ObjectStore, *segments: list[int]) -> None:
    """Append segments of one batch each, of records with some timestamps."""
    topic = Tier(open_storage(store, "single-object")).create_topic("t")
    for stamps in segments:
        times = pa.array(stamps, pa.int64()).cast(pa.timestamp("ms", "UTC"))
        values = pa.array([b"v"] * len(stamps), pa.binary())
        topic.append(pa.table({"value": values, "timestamp": times}))


def keys_of(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list("t/") if entry.key.endswith(SUFFIX)]


def parsed(path: str) -> SegmentKey:
    key = KEYS.parse_stem(path.rpartition("/")[2].removesuffix(SUFFIX))
    assert key is not None
    return key


def rewrite(
    store: ObjectStore,
    path: str,
    *,
    key: dict[str, Any] | None = None,
    manifest: dict[str, Any] | None = None,
) -> None:
    """Store an object with other claims in its key or in its manifest."""
    old = parsed(path)
    data = bytes(store.get(path))
    tail = parse_tail(data[old.log_length :], old.log_length, old.flags, name=path)
    facts: SegmentFacts = replace(tail.manifest.segment, **(manifest or {}))
    made = build_tail(facts, tail.manifest.log, tail.indexes, old.flags)
    new = replace(old, tail_length=len(made), **(key or {}))
    store.delete([path])
    place = path.rpartition("/")[0]
    whole = data[: old.log_length] + made
    store.put(f"{place}/{KEYS.stem(new)}{SUFFIX}", whole, overwrite=True)


def new_store() -> ObjectStore:
    return ObjectStore(f"memory://{uuid.uuid4().hex}")


@given(
    st.lists(
        st.lists(st.integers(0, 20), min_size=1, max_size=3), min_size=1, max_size=4
    ),
    st.data(),
)
def test_a_manifest_that_is_wrong_gives_the_truth_or_an_error(
    segments: list[list[int]], data: st.DataObject
) -> None:
    store = new_store()
    append(store, *segments)
    stamps = [stamp for segment in segments for stamp in segment]
    end = len(stamps)
    field = data.draw(
        st.sampled_from(["max_timestamp_ms", "end_offset", "start_offset"])
    )
    claim = data.draw(st.integers(-1, 25))
    rewrite(store, data.draw(st.sampled_from(keys_of(store))), manifest={field: claim})
    topic = topic_of(store)
    assert topic.end_offsets() == {0: end}
    for time in range(-1, 22):
        with suppress(CorruptDataError):
            found = topic.offsets_for_times({0: time})[0]
            late = [at for at, stamp in enumerate(stamps) if stamp >= time]
            assert (found and found.offset) == (late[0] if late else None)
    for start in range(end + 1):
        with suppress(CorruptDataError):
            table = topic.scan(start=start).to_table()
            assert table["offset"].to_pylist() == list(range(start, end))
    store.delete([entry.key for entry in store.list()])


def test_a_time_index_that_ends_later_than_its_segment_is_an_error(
    memory: ObjectStore,
) -> None:
    append(memory, [BEGIN, BEGIN + 9], [BEGIN + 20])
    claim = {"max_timestamp_ms": BEGIN + 5}
    rewrite(memory, keys_of(memory)[0], key=claim, manifest=claim)
    with pytest.raises(CorruptDataError, match=f"time index ends with {BEGIN + 9}"):
        topic_of(memory).offsets_for_times({0: BEGIN + 4})


@pytest.mark.parametrize("field", ["max_timestamp_ms", "end_offset", "start_offset"])
def test_verify_finds_a_key_that_is_not_what_its_manifest_says(
    memory: ObjectStore, field: str
) -> None:
    append(memory, [BEGIN, BEGIN + 9, BEGIN + 2], [BEGIN + 20])
    path = keys_of(memory)[0]
    rewrite(memory, path, key={field: getattr(parsed(path), field) + 1})
    storage = open_storage(memory, "single-object")
    (report,) = verify(storage, storage.list_partitions(), Depth.INDEXES)
    assert "its manifest belongs to another segment" in str(report.problems)


def test_a_largest_timestamp_that_key_and_manifest_claim_is_compared_with_the_log(
    memory: ObjectStore,
) -> None:
    append(memory, [BEGIN, BEGIN + 9], [BEGIN + 20])
    claim = {"max_timestamp_ms": BEGIN + 12}
    rewrite(memory, keys_of(memory)[0], key=claim, manifest=claim)
    storage = open_storage(memory, "single-object")
    (report,) = verify(storage, storage.list_partitions(), Depth.INDEXES)
    assert report.problems == ()
    (report,) = verify(storage, storage.list_partitions(), Depth.EVERYTHING)
    assert f"its largest timestamp is {BEGIN + 9}, not {BEGIN + 12}" in str(report)


def test_a_key_whose_epoch_is_not_the_log_s_is_found(memory: ObjectStore) -> None:
    append(memory, [BEGIN], [BEGIN + 1])
    first, second = keys_of(memory)
    epoch = parsed(first).epoch
    rewrite(memory, second, key={"epoch": epoch + 1})
    storage = open_storage(memory, "single-object")
    (partition,) = storage.list_partitions()
    right, wrong = storage.list_segments(partition)
    storage.check_key(right, epoch)
    with pytest.raises(CorruptObjectError, match=f"leader epoch {epoch + 1}"):
        storage.check_key(wrong, epoch)


def segment(start: int, end: int) -> SegmentMetadata:
    made = SegmentId.from_bytes(bytes([start]) * 16)
    return SegmentMetadata(TopicIdPartition("t", 0), made, start, end, leader_epochs=())


@pytest.mark.parametrize(
    ("spans", "deciding"),
    [
        ([], []),
        ([(0, 9)], [0]),
        ([(0, 9), (10, 19), (20, 29)], [20]),
        ([(0, 9), (10, 25), (20, 29), (30, 39)], [10, 20, 30]),
        ([(0, 30), (10, 19), (20, 29), (31, 39)], [0, 10, 20, 31]),
        ([(0, 99), (10, 19), (20, 29)], [0, 10, 20]),
    ],
)
def test_an_end_is_decided_by_the_last_segment_and_by_those_that_overlap(
    spans: list[tuple[int, int]], deciding: list[int]
) -> None:
    found = deciding_ends([segment(start, end) for start, end in spans])
    assert sorted(one.start_offset for one in found) == deciding
