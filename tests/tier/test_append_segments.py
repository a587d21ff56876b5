"""Records that are more than a segment holds become several, each of them once."""

import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.log_directories import ID
from tieredfs import (
    AlreadyExistsError,
    InvalidArgumentError,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    StorageUnavailableError,
    Tier,
    Topic,
    TopicIdPartition,
)
from tieredfs.log.verify.verify import Depth, verify
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import READS, WRITES, WatchedStore

_PARTITION = TopicIdPartition("t", 0, ID)
_ALL = READS | WRITES


def _topic(storage: SingleObject) -> Topic:
    tier = Tier(storage)
    try:
        return tier.topic("t", topic_id=ID)
    except NotFoundError:
        return tier.create_topic("t", topic_id=ID)


def _values(*values: bytes) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.binary())})


def _large(count: int, begin: int = 0) -> pa.Table:
    """Make records of which each is a batch of its own."""
    return _values(
        *(b"%06d" % n + b"x" * (1 << 20) for n in range(begin, begin + count))
    )


def _segments(storage: SingleObject) -> list[SegmentMetadata]:
    return [storage.describe(s) for s in storage.list_segments(_PARTITION)]


def _numbers(storage: SingleObject) -> list[int]:
    """Return what is there, by the number in front of each value."""
    table = _topic(storage).scan().to_table()
    assert table["offset"].to_pylist() == list(range(table.num_rows))
    (report,) = verify(storage, [_PARTITION], Depth.EVERYTHING)
    assert report.problems == ()
    return [int(value.as_py()[:6]) for value in table["value"]]


class _Meanwhile(SingleObject):
    """Something happens before the segment of a number is appended."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.appended = 0
        self.act: Callable[[int], object] = lambda _: None

    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        self.appended += 1
        self.act(self.appended)
        return super().append_log_segment(metadata, data)


def test_more_than_a_segment_holds_becomes_several(memory: ObjectStore) -> None:
    storage = SingleObject(memory)
    _topic(storage).append(_large(1))
    assert _topic(storage).append(_large(5, 1), segment_bytes=2_200_000) == range(1, 6)
    found = _segments(storage)
    assert [(s.start_offset, s.end_offset) for s in found] == [
        (0, 0),
        (1, 2),
        (3, 4),
        (5, 5),
    ]
    assert all(s.size is not None and s.size <= 2_200_000 for s in found)
    assert _numbers(storage) == list(range(6))


def test_a_batch_larger_than_a_segment_may_be_is_a_segment(memory: ObjectStore) -> None:
    storage = SingleObject(memory)
    assert _topic(storage).append(_large(3), segment_bytes=1) == range(3)
    assert len(_segments(storage)) == 3
    assert _numbers(storage) == [0, 1, 2]


@st.composite
def _tables(draw: st.DrawFn) -> pa.Table:
    """Draw records in chunks, with or without each column, of any size."""
    sizes = draw(st.lists(st.integers(0, 400_000), min_size=1, max_size=12))
    key = draw(st.sampled_from([pa.binary(), pa.string(), pa.large_binary(), None]))
    rows: dict[str, Any] = {
        "value": pa.array([b"%06d" % n + b"v" * s for n, s in enumerate(sizes)])
    }
    if key is not None:
        rows["key"] = pa.array([None, "a"] * len(sizes), pa.string()).cast(key)[
            : len(sizes)
        ]
    if draw(st.booleans()):
        rows["headers"] = pa.array(
            [[("h", b"x")]] * len(sizes), pa.map_(pa.string(), pa.binary())
        )
    table = pa.table(rows)
    cuts = sorted(
        draw(st.sets(st.integers(0, len(sizes)), max_size=4)) | {0, len(sizes)}
    )
    return pa.concat_tables(table.slice(a, b - a) for a, b in pairwise(cuts))


@settings(max_examples=25, deadline=None)
@given(
    tables=st.lists(_tables(), min_size=1, max_size=3),
    segment_bytes=st.integers(1, 3_000_000),
    compression=st.sampled_from(["none", "lz4"]),
)
def test_any_records_come_back_whatever_a_segment_holds(
    tables: Sequence[pa.Table],
    segment_bytes: int,
    compression: Literal["none", "lz4"],
) -> None:
    store = ObjectStore("memory://segments-any")
    store.delete([entry.key for entry in store.list()])
    storage = SingleObject(store)
    topic = _topic(storage)
    end = 0
    for table in tables:
        found = topic.append(
            table, compression=compression, segment_bytes=segment_bytes
        )
        assert found == range(end, end + table.num_rows)
        end = found.stop
    expected = [v for table in tables for v in table["value"].to_pylist()]
    assert _topic(storage).scan().to_table()["value"].to_pylist() == expected
    for each in _segments(storage):
        assert each.size is not None
        assert each.size <= max(segment_bytes, 1_200_000)  # a single batch
    (report,) = verify(storage, [_PARTITION], Depth.EVERYTHING)
    assert report.problems == ()


def test_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    storage = SingleObject(ObjectStore(str(tmp_path)))
    value = pa.array([b"x" * (1 << 20)])
    peaks = []
    for count in (4, 24):
        records = pa.table({"value": pa.chunked_array([value] * count)})
        tracemalloc.start()
        _topic(storage).append(records, segment_bytes=3 << 20)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize("is_landed", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("limit", range(0, 30, 2))
def test_an_append_that_failed_in_the_middle_is_finished_by_the_same_records(
    memory: ObjectStore, limit: int, *, is_landed: bool
) -> None:
    watched = WatchedStore.over(memory, _ALL)
    topic = _topic(SingleObject(watched))
    watched.calls, watched.limit, watched.is_landed = 0, limit, is_landed
    try:
        topic.append(_large(4), segment_bytes=1)
    except StorageUnavailableError:
        watched.limit = None
        assert topic.append(_large(4), segment_bytes=1) == range(4)
    assert _numbers(SingleObject(memory)) == [0, 1, 2, 3]


def test_a_writer_overtaken_between_segments_is_told_and_writes_the_rest(
    memory: ObjectStore,
) -> None:
    storage = _Meanwhile(memory)
    topic, other = _topic(storage), _topic(SingleObject(memory))
    storage.act = lambda n: n == 3 and other.append(_large(1, 9))
    with pytest.raises(
        AlreadyExistsError, match=r"after the first 2 of 4 records.*to offset 1:"
    ):
        topic.append(_large(4), segment_bytes=1)
    assert topic.append(_large(4), segment_bytes=1) == range(3, 5)
    assert _numbers(storage) == [0, 1, 9, 2, 3]
    # It has ended: the same records are another append now.
    assert topic.append(_large(4)) == range(5, 9)


def test_a_writer_that_finds_another_one_behind_its_segment_is_told(
    memory: ObjectStore,
) -> None:
    storage = SingleObject(memory)
    other = _topic(SingleObject(memory))
    topic = _topic(storage)

    class After(_Meanwhile):
        def append_log_segment(
            self, metadata: SegmentMetadata, data: LogSegmentData
        ) -> bytes:
            found = super().append_log_segment(metadata, data)
            if self.appended == 1:
                other.append(_large(1, 9))
            return found

    topic = _topic(After(memory))
    with pytest.raises(AlreadyExistsError, match="after the first 1 of 3 records"):
        topic.append(_large(3), segment_bytes=1)
    assert topic.append(_large(3), segment_bytes=1) == range(2, 4)
    assert _numbers(storage) == [0, 9, 1, 2]


def test_other_records_are_not_taken_for_the_rest_of_an_append(
    memory: ObjectStore,
) -> None:
    watched = WatchedStore.over(memory, _ALL)
    topic = _topic(SingleObject(watched))
    watched.calls, watched.limit = 0, 19
    with pytest.raises(StorageUnavailableError):
        topic.append(_large(3), segment_bytes=1)
    watched.limit = None
    assert topic.end_offsets() == {0: 2}
    assert topic.append(_large(2)) == range(2, 4)  # as many as are written
    assert topic.append(_large(3, 5)) == range(4, 7)
    assert topic.append(_large(3), segment_bytes=1) == range(7, 8)  # the rest
    assert _numbers(SingleObject(memory)) == [0, 1, 0, 1, 5, 6, 7, 2]


def test_nothing_is_written_when_one_of_the_last_records_cannot_be(
    memory: ObjectStore,
) -> None:
    storage = SingleObject(memory)
    stamps = pa.array([1_000, 2_000, 2_001], pa.timestamp("us", tz="UTC"))
    records = _large(3).append_column("timestamp", stamps)
    with pytest.raises(InvalidArgumentError, match="timestamp"):
        _topic(storage).append(records, segment_bytes=1)
    assert not list(memory.list())


@pytest.mark.parametrize("segment_bytes", [0, -1, 1 << 31, True, 1.5, "1"])
def test_a_size_that_no_segment_can_have_is_refused(
    memory: ObjectStore,
    segment_bytes: Any,  # noqa: ANN401 - any wrong thing
) -> None:
    with pytest.raises(InvalidArgumentError, match="segment_bytes"):
        _topic(SingleObject(memory)).append(_values(b"a"), segment_bytes=segment_bytes)


def test_a_size_may_be_a_numpy_integer(memory: ObjectStore) -> None:
    storage = SingleObject(memory)
    _topic(storage).append(_large(2), segment_bytes=np.int32(1))
    assert len(_segments(storage)) == 2
