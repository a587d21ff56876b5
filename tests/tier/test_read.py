"""A loop of fetches gives what a scan gives, whatever a cleaner has left of the log."""

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import get_args

import hypothesis.strategies as st
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings

from support.damage import flipped
from support.kafka_data import KAFKA, LOCAL, REMOTE
from support.log_directories import ID, source_of, topic_of, write_log
from support.segments import records
from support.wire import CONTROL, WireRecord, encode_batch
from tieredfs import (
    CorruptBatchError,
    Fetched,
    IndexType,
    LogSegmentData,
    ObjectStore,
    RequestCounter,
    SegmentId,
    SegmentMetadata,
    Topic,
    TopicIdPartition,
    open_tier,
)
from tieredfs.log.planning import catalog
from tieredfs.log.read.reader import Bounds, bounds_of
from tieredfs.log.read.scan import Isolation
from tieredfs.storage import SegmentTable
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import scratch_store

SIZES = (1, 100, 512, 4096, 1 << 20)
PARTITION = TopicIdPartition("t", 0, ID)
COMMIT = b"\0\0\0\x01"
"""The key of a marker that ends a transaction."""
RECORDED = [
    *((name, LOCAL) for name in ("compacted", "epochs", "plain")),
    *(
        (name, REMOTE)
        for name in (
            "codecs-java",
            "codecs-rdkafka",
            "epochs",
            "leader-changes",
            "logappend",
            "plain",
            "two-partitions",
            "txn",
        )
    ),
]


@pytest.fixture(params=RECORDED, ids="-".join)
def recorded_topic(request: pytest.FixtureRequest) -> Topic:
    """Each topic that a broker wrote."""
    name, sub = request.param
    return open_tier(str(KAFKA / name / sub)).topic(name)


@dataclass(frozen=True)
class Batch:
    """A batch as a cleaner may leave it: some of its offsets have a record."""

    first: int
    last: int
    kept: tuple[int, ...]
    is_control: bool = False
    codec: str = "none"

    def encode(self) -> bytes:
        rows = [records(offset, 1, value="x" * 30)[0] for offset in self.kept]
        if self.is_control:
            rows = [replace(row, key=COMMIT, value=b"\0" * 6) for row in rows]
        return encode_batch(
            rows,
            codec=self.codec,
            attributes=CONTROL if self.is_control else 0,
            base_offset=self.first,
            last_offset=self.last,
            base_timestamp=1_700_000_000_000,
        )


@dataclass(frozen=True)
class Segment:
    """Batches with holes between them, and after the last one."""

    start: int
    end: int
    batches: tuple[Batch, ...]

    def log(self) -> bytes:
        return b"".join(batch.encode() for batch in self.batches)


@st.composite
def logs(draw: st.DrawFn) -> list[Segment]:
    """Logs of which a cleaner has left something in each segment."""
    offset = draw(st.integers(0, 3))
    found: list[Segment] = []
    for _ in range(draw(st.integers(1, 4))):
        start = offset
        batches: list[Batch] = []
        for _ in range(draw(st.integers(1, 5))):
            first = offset + draw(st.integers(0, 2))
            last = first + draw(st.integers(0, 5))
            offset = last + 1
            if draw(st.integers(0, 4)) == 0:
                batches.append(Batch(first, first, (first,), is_control=True))
                offset = first + 1
                continue
            kept = draw(st.sets(st.integers(first, last)))
            codec = draw(st.sampled_from(("none", "gzip"))) if kept else "none"
            batches.append(Batch(first, last, tuple(sorted(kept)), codec=codec))
        offset += draw(st.integers(0, 3))
        found.append(Segment(start, offset - 1, tuple(batches)))
    return found


def store_native(store: ObjectStore, segments: list[Segment]) -> Topic:
    """Store segments in the native layout, and open their topic."""
    storage = SingleObject(store)
    for segment in segments:
        made = SegmentId.from_bytes((segment.start + 1).to_bytes(16, "big"))
        metadata = SegmentMetadata(PARTITION, made, segment.start, segment.end)
        storage.copy_log_segment(metadata, LogSegmentData(segment.log(), {}))
    return topic_of(storage)


def fetches(
    topic: Topic, partition: int, offset: int, max_bytes: int
) -> Iterator[Fetched]:
    """Fetch as the how-to does, to the end of the log."""
    while len(fetched := topic.read(partition, offset, max_bytes)):
        yield fetched
        assert fetched.next_offset > offset
        offset = fetched.next_offset
    assert fetched.next_offset == topic.end_offsets()[partition]
    assert fetched.next_offset >= offset


def check_loop(
    topic: Topic, partition: int, whole: pa.Table, start: int, max_bytes: int
) -> None:
    """Check that fetches from an offset on give what a scan does from there."""
    offsets = whole["offset"].to_pylist()
    at = start
    tables = []
    for fetched in fetches(topic, partition, start, max_bytes):
        found = fetched["offset"].to_pylist()
        if at == start:
            check_exact(topic, partition, start, max_bytes, fetched)
        # Every record below the next offset is there, and no other.
        assert found == [o for o in offsets if at <= o < fetched.next_offset]
        tables.append(fetched.records)
        at = fetched.next_offset
    wanted = whole.slice(sum(o < start for o in offsets))
    assert pa.concat_tables([wanted.slice(0, 0), *tables]) == wanted


def check_exact(
    topic: Topic, partition: int, start: int, max_bytes: int, fetched: Fetched
) -> None:
    """Check that a fetch gives the same if it need not return a batch, or nothing."""
    exact = topic.read(partition, start, max_bytes, min_one_message=False)
    if len(exact):
        assert exact.records == fetched.records
        assert exact.next_offset == fetched.next_offset
    else:  # the first batch with a record is larger
        assert start <= exact.next_offset <= fetched["offset"][0].as_py()


def check_by_last_record(
    topic: Topic, partition: int, whole: pa.Table, max_bytes: int
) -> None:
    """Check a loop that goes on behind the last record instead."""
    found: list[int] = []
    at = topic.beginning_offsets()[partition]
    while rows := topic.read(partition, at, max_bytes)["offset"].to_pylist():
        found += rows
        at = rows[-1] + 1
    assert found == whole["offset"].to_pylist()


class TestEverythingComesOnce:
    @pytest.mark.parametrize("max_bytes", SIZES)
    def test_of_what_brokers_wrote(self, recorded_topic: Topic, max_bytes: int) -> None:
        for partition, begin in recorded_topic.beginning_offsets().items():
            whole = recorded_topic.scan([partition]).to_table()
            check_loop(recorded_topic, partition, whole, begin, max_bytes)
            check_by_last_record(recorded_topic, partition, whole, max_bytes)

    @pytest.mark.parametrize("name", ["compacted", "txn", "leader-changes"])
    def test_from_every_offset_without_a_record_and_beside_one(self, name: str) -> None:
        sub = LOCAL if name == "compacted" else REMOTE
        topic = open_tier(str(KAFKA / name / sub)).topic(name)
        offsets = topic.scan().to_table()["offset"].to_pylist()
        begin, end = topic.beginning_offsets()[0], topic.end_offsets()[0]
        hidden = set(range(begin, end + 1)).difference(offsets)
        beside = {one + step for one in hidden for step in (-1, 0, 1)}
        for start in sorted(beside.intersection(range(begin, end + 1))):
            fetched = topic.read(0, start, 1)
            found = fetched["offset"].to_pylist()
            assert found == [o for o in offsets if start <= o < fetched.next_offset]
            assert found or fetched.next_offset == end

    @settings(max_examples=15)
    @given(segments=logs(), max_bytes=st.sampled_from(SIZES))
    def test_of_whatever_a_cleaner_left(
        self, segments: list[Segment], max_bytes: int
    ) -> None:
        with scratch_store() as store:
            topic = store_native(store, segments)
            whole = topic.scan().to_table()
            assert whole["offset"].to_pylist() == [
                offset
                for segment in segments
                for batch in segment.batches
                if not batch.is_control
                for offset in batch.kept
            ]
            check_by_last_record(topic, 0, whole, max_bytes)
            for start in range(segments[0].start, segments[-1].end + 2):
                check_loop(topic, 0, whole, start, max_bytes)

    def test_of_a_log_directory_that_was_cleaned(
        self, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        root = tmp_path_factory.mktemp("log")
        batches = [
            Batch(0, 9, (0, 1)),
            Batch(20, 29, ()),
            Batch(30, 30, (30,), is_control=True),
            Batch(40, 49, (45,)),
            Batch(50, 59, ()),
        ]
        logs = {0: batches[:2], 30: batches[2:3], 35: batches[3:]}
        write_log(root, {s: b"".join(b.encode() for b in bs) for s, bs in logs.items()})
        (root / "cleaner-offset-checkpoint").write_text("0\n1\nt 0 60\n")
        topic = topic_of(source_of(root))
        whole = topic.scan().to_table()
        assert whole["offset"].to_pylist() == [0, 1, 45]
        for max_bytes in SIZES:
            for start in range(61):
                check_loop(topic, 0, whole, start, max_bytes)


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_an_offset_in_the_hole_at_a_batchs_end_gives_the_next_record(
    codec: str, memory: ObjectStore
) -> None:
    holed = [Batch(n, n + 9, (n, n + 1), codec=codec) for n in range(0, 100, 10)]
    topic = store_native(memory, [Segment(0, 99, tuple(holed))])
    for offset in range(92):
        after = [one for one in range(offset, 100) if one % 10 in {0, 1}]
        assert topic.read(0, offset, 1)["offset"].to_pylist()[0] == after[0]
    for offset in range(92, 101):
        end = topic.read(0, offset, 1)
        assert (len(end), end.next_offset) == (0, 100)


def test_every_record_of_a_compacted_topic_comes_with_small_fetches() -> None:
    topic = open_tier(str(KAFKA / "compacted" / LOCAL)).topic("compacted")
    found = sum(map(len, fetches(topic, 0, 0, 512)))
    assert found == topic.scan().to_table().num_rows == 353


def test_the_first_time_of_a_log_that_begins_with_a_hole_is_known(
    memory: ObjectStore,
) -> None:
    first = Segment(0, 19, (Batch(0, 9, ()), Batch(10, 19, (12,))))
    topic = store_native(memory, [first])
    (row,) = topic.read(0, 0, 1)["offset"].to_pylist()
    assert row == 12


class TestSteppingOver:
    """A long stretch of nothing is read in few requests, and nothing of it is kept."""

    EMPTY = 30_000

    @pytest.fixture
    def stretch(self, memory: ObjectStore) -> ObjectStore:
        """A record, 1.8 MB of batches without any, and a record."""
        log = [Batch(0, 0, (0,)).encode()]
        log += [Batch(n, n, ()).encode() for n in range(1, self.EMPTY)]
        log.append(Batch(self.EMPTY, self.EMPTY, (self.EMPTY,)).encode())
        made = SegmentId.from_bytes(bytes(15) + b"\1")
        SingleObject(memory).copy_log_segment(
            SegmentMetadata(PARTITION, made, 0, self.EMPTY),
            LogSegmentData(b"".join(log), {}),
        )
        return memory

    def test_requests_grow_and_stay_bounded(self, stretch: ObjectStore) -> None:
        counter = RequestCounter()
        store = ObjectStore(stretch.url, observer=counter)
        fetched = topic_of(SingleObject(store)).read(0, 1, 1)
        assert fetched["offset"].to_pylist() == [self.EMPTY]
        assert fetched.next_offset == self.EMPTY + 1
        assert counter.by_verb()["get_range"] <= 8

    def test_what_is_stepped_over_does_not_count(self, stretch: ObjectStore) -> None:
        topic = topic_of(SingleObject(stretch))
        assert topic.read(0, 0, 1 << 10)["offset"].to_pylist() == [0, self.EMPTY]


@pytest.mark.parametrize("isolation", get_args(Isolation))
def test_a_batch_that_is_too_large_is_left_if_it_need_not_be_returned(
    memory: ObjectStore, isolation: Isolation
) -> None:
    batches = tuple(Batch(at, at + 1, (at, at + 1)) for at in (0, 2, 4))
    topic = store_native(memory, [Segment(0, 5, batches)])
    size = len(batches[0].encode())

    def read(offset: int, max_bytes: int) -> tuple[int, int]:
        found = topic.read(
            0, offset, max_bytes, isolation=isolation, min_one_message=False
        )
        return len(found), found.next_offset

    assert read(0, 0) == read(0, size - 1) == (0, 0)
    assert read(0, size) == read(0, 2 * size - 1) == (2, 2)
    assert read(2, size - 1) == (0, 2)
    assert read(0, 3 * size) == (6, 6)
    assert read(6, 0) == (0, 6)


class TestFetched:
    @pytest.fixture
    def fetched(self) -> Fetched:
        """Some records of a topic."""
        return open_tier(str(KAFKA / "txn" / REMOTE)).topic("txn").read(0, 40, 1)

    def test_it_is_used_as_the_table_of_its_records(self, fetched: Fetched) -> None:
        table = fetched.records
        assert len(fetched) == fetched.num_rows == table.num_rows > 0
        assert fetched["offset"] == table["offset"]
        with pytest.raises(KeyError, match="nosuch"):
            fetched["nosuch"]

    def test_any_arrow_library_takes_it(self, fetched: Fetched) -> None:
        assert pa.table(fetched) == fetched.records
        frame = pl.DataFrame(fetched)
        assert frame["offset"].to_list() == fetched["offset"].to_pylist()

    def test_it_says_where_it_ends(self, fetched: Fetched) -> None:
        expected = f"Fetched(num_rows={len(fetched)}, next_offset="
        assert repr(fetched).startswith(expected)


@pytest.mark.parametrize("max_bytes", [1, 500, 1 << 20])
def test_records_before_a_corrupt_batch_are_returned_before_the_error(
    memory: ObjectStore, max_bytes: int
) -> None:
    batches = [encode_batch(records(start, 5)) for start in range(0, 50, 5)]
    partition, name = TopicIdPartition("t", 0, ID), SegmentId("A" * 22)
    copied = SegmentMetadata(partition, name, 0, 49)
    SingleObject(memory).copy_log_segment(copied, LogSegmentData(b"".join(batches), {}))
    (entry,) = memory.list()
    damaged = flipped(bytes(memory.get(entry.key)), len(b"".join(batches[:8])) + 30)
    memory.put(entry.key, damaged, overwrite=True)
    topic = topic_of(SingleObject(memory))
    offset, found = 0, []
    while offset < 40:
        fetched = topic.read(0, offset, max_bytes)
        found += fetched["offset"].to_pylist()
        offset = fetched.next_offset
    assert found == list(range(40))
    with pytest.raises(CorruptBatchError):
        topic.read(0, 40, max_bytes)


def test_a_time_may_lead_to_a_control_record(memory: ObjectStore) -> None:
    later = 1_700_000_000_010
    commit = encode_batch(
        [WireRecord(2, later, COMMIT, b"\0" * 6)],
        attributes=CONTROL,
        base_offset=2,
        last_offset=2,
        base_timestamp=later,
    )
    storage = SingleObject(memory)
    metadata = SegmentMetadata(PARTITION, SegmentId.from_bytes(b"1" * 16), 0, 2)
    log = encode_batch(records(0, 2)) + commit
    storage.copy_log_segment(metadata, LogSegmentData(log, {}))
    topic = topic_of(storage)
    found = topic.offsets_for_times({0: later})[0]
    assert found is not None
    assert found.offset == 2
    assert topic.scan().to_table()["offset"].to_pylist() == [0, 1]


def test_segments_that_hold_an_offset_are_all_later_ones_or_the_whole_log(
    tmp_path: Path,
) -> None:
    topic = open_tier(tmp_path, plugin="single-object").create_topic("t")
    for _ in range(5):
        topic.append(pa.table({"value": [b"v"] * 2}))
    reader = open_tier(tmp_path).topic("t").reader(0)

    def starts(offset: int) -> list[int]:
        return sorted(one.start_offset for one in reader.segments_holding(offset))

    assert starts(0) == starts(10) == [0, 2, 4, 6, 8]  # of 10 the log has nothing
    assert starts(5) == [4, 6, 8]
    assert starts(9) == [8]


def put_native(
    store: ObjectStore, start: int, end: int, epochs: Sequence[tuple[int, int]]
) -> None:
    """Store a segment of the last of some leader epochs."""
    log = encode_batch(records(start, end - start), leader_epoch=epochs[-1][0])
    entries = "".join(f"{epoch} {first}\n" for epoch, first in epochs)
    checkpoint = f"0\n{len(epochs)}\n{entries}".encode()
    name = SegmentId.from_bytes(struct.pack(">4i", start, end, *epochs[-1]))
    SingleObject(store).copy_log_segment(
        SegmentMetadata(PARTITION, name, start, end - 1),
        LogSegmentData(log, {IndexType.LEADER_EPOCH: checkpoint}),
    )


@settings(max_examples=40)
@given(
    old=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    extra=st.lists(st.tuples(st.integers(0, 20), st.integers(1, 9)), max_size=2),
    later=st.none() | st.tuples(st.integers(1, 25), st.integers(1, 5)),
)
def test_the_segments_that_hold_an_offset_serve_what_all_serve_from_there(
    old: list[int], extra: list[tuple[int, int]], later: tuple[int, int] | None
) -> None:
    """Several uploads of one history; another leader may have begun before its end."""
    bounds = [sum(old[:count]) for count in range(len(old) + 1)]
    end = bounds[-1]
    uploads = {*pairwise(bounds)}
    uploads |= {(at, min(at + size, end)) for at, size in extra if at < end}
    with scratch_store() as store:
        for first, stop in uploads:
            put_native(store, first, stop, [(1, 0)])
        if later is not None and later[0] <= end:
            first = later[0]
            put_native(store, first, first + later[1], [(1, 0), (2, first)])
        reader = topic_of(SingleObject(store)).reader(0)

        def served(segments: Sequence[SegmentMetadata], start: int) -> object:
            held = bounds_of(segments)
            slices = reader.slices_between(
                segments, start, held.end, skip_gaps=True, located=False
            )
            parts = [
                (one.segment.id, one.start_offset, one.end_offset) for one in slices
            ]
            return held.end, parts

        whole = reader.segments()
        for offset in (0, *range(end + 6)):
            found = reader.segments_holding(offset)
            assert served(found, offset + 1) == served(whole, offset + 1)


def test_a_later_history_that_ends_before_an_offset_is_held_against_it(
    tmp_path: Path,
) -> None:
    store = ObjectStore(str(tmp_path))
    for start in (0, 10, 20):
        put_native(store, start, start + 10, [(1, 0)])
    put_native(store, 10, 15, [(1, 0), (2, 10)])
    reader = open_tier(tmp_path).topic("t").reader(0)
    found = reader.segments_holding(25)
    assert bounds_of(found) == reader.bounds() == Bounds(0, 15)


def test_where_segments_overlap_those_that_hold_an_offset_are_all(
    tmp_path: Path,
) -> None:
    store = ObjectStore(str(tmp_path))
    for start in range(0, 100, 10):
        put_native(store, start, start + 10, [(1, 0)])
    reader = open_tier(tmp_path).topic("t").reader(0)
    reader.segments_holding(0)
    put_native(store, 35, 120, [(1, 0)])
    found = reader.segments_holding(39)
    assert list(found) == list(reader.segments())


def test_of_a_long_rest_of_a_log_all_is_listed_in_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "MAX_PAGE_KEYS", 2)
    store = ObjectStore(str(tmp_path))
    for start in range(0, 90, 10):
        put_native(store, start, start + 10, [(1, 0)])
    reader = open_tier(tmp_path).topic("t").reader(0)
    reader.segments_holding(0)
    assert isinstance(reader.segments_holding(59), SegmentTable)
    assert [one.start_offset for one in reader.segments_holding(60)] == [60, 70, 80]
