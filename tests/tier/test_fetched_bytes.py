"""What reading fetches, counted by the store: nothing twice, for a little a little."""

from dataclasses import replace
from hashlib import shake_128
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from support.log_directories import push_all, source_of, topic_of, write_log
from support.wire import WireRecord, encode_batch
from tier.large_logs import pushed
from tieredfs import CorruptDataError, ObjectStore, RequestCounter, Tier, Topic
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.layouts.single_object.stored_log import CHUNK_SIZE

_MIB = 1 << 20
_VALUE = 50_000
_PARTITIONS = 3
_RECORDS = 280
"""Records of each partition: 14 MB, in batches that meet no border of a chunk."""

_SMALL = 2000
"""Batches of one record: more than are scanned at once, in several chunks."""


def _write(store: ObjectStore, compression: Literal["zstd"] | None) -> None:
    tier = Tier(SingleObject(store, compression=compression))
    topic = tier.create_topic("t", partitions=_PARTITIONS)
    for partition in range(_PARTITIONS):
        # Nothing compresses them.
        names = (b"%d %d" % (partition, n) for n in range(_RECORDS))
        values = [shake_128(name).digest(_VALUE) for name in names]
        topic.append(pa.table({"value": values}), partition)


def _open(store: ObjectStore) -> tuple[Topic, RequestCounter]:
    counter = RequestCounter()
    watched = ObjectStore(store.url, observer=counter)
    return Tier(SingleObject(watched)).topic("t"), counter


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("order", ["partition", "fair"])
@pytest.mark.parametrize("start", [0, 30])
def test_a_scan_fetches_no_byte_of_a_log_twice(
    memory: ObjectStore,
    compression: Literal["zstd"] | None,
    order: Literal["partition", "fair"],
    start: int,
) -> None:
    _write(memory, compression)
    stored = sum(entry.size or 0 for entry in memory.list())
    topic, counter = _open(memory)
    scan = topic.scan(start=start, order=order)
    assert sum(len(batch) for batch in scan) == _PARTITIONS * (_RECORDS - start)
    # Manifests are asked for as well, for nothing keeps them here.
    assert counter.size < stored + _PARTITIONS * 10_000


def test_turns_of_any_size_decode_a_chunk_once(memory: ObjectStore) -> None:
    _write(memory, "zstd")
    stored = sum(entry.size or 0 for entry in memory.list())
    topic, counter = _open(memory)
    scan = topic.scan(order="fair")
    for size in (1, 700_000, CHUNK_SIZE + 1, 7 * _MIB):
        before = counter.size
        turns = replace(scan, plan=replace(scan.plan, fetch_size=size))
        assert sum(len(batch) for batch in turns) == _PARTITIONS * _RECORDS
        assert counter.size - before < stored + _PARTITIONS * 10_000


def test_a_large_scan_takes_as_many_requests_as_it_plans(memory: ObjectStore) -> None:
    _write(memory, None)
    topic, counter = _open(memory)
    list(topic.scan())  # compares each object with its key, once
    for order, size in (("partition", 8 * _MIB), ("fair", 4 * _MIB)):
        scan = topic.scan(order=order)  # type: ignore[arg-type] # the two that are
        assert scan.plan.fetch_size == size
        before = counter.requests
        list(scan)
        assert counter.requests - before == scan.plan.requests


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("size", [40, 950, None])
def test_small_batches_are_all_read_in_steps_and_in_turns(
    tmp_path: Path,
    memory: ObjectStore,
    compression: Literal["zstd"] | None,
    size: int | None,
) -> None:
    values = [
        shake_128(b"%d" % n).digest(size or n * 7919 % 2000) for n in range(_SMALL)
    ]
    log = b"".join(
        encode_batch([WireRecord(n, 1, None, value)]) for n, value in enumerate(values)
    )
    source = source_of(write_log(tmp_path, {0: log, _SMALL: b""}).parent)
    push_all(source, SingleObject(memory, compression=compression))
    scan = topic_of(SingleObject(memory)).scan()
    for needed in (1, 100, 513, 600, 1500):
        found = pa.Table.from_batches(scan.read_gradually(needed), scan.schema)
        assert found["value"].to_pylist() == values
    for turn in (7_000, 70_000, _MIB):
        turns = replace(scan, plan=replace(scan.plan, fetch_size=turn), order="fair")
        assert turns.to_table()["value"].to_pylist() == values


@pytest.mark.parametrize("end", [511, 512, 513, 1024])
def test_what_lies_behind_the_end_of_a_segment_is_seen(
    tmp_path: Path, end: int
) -> None:
    def log(start: int, stop: int) -> bytes:
        # Of so many batches 512 are looked at together.
        return b"".join(
            encode_batch([WireRecord(n, 1, None, b"v")]) for n in range(start, stop)
        )

    logs = {0: log(0, end + 90), end: log(end, end + 100), end + 100: b""}
    topic = topic_of(source_of(write_log(tmp_path, logs).parent))
    with pytest.raises(CorruptDataError):
        topic.scan().to_table()


class TestALittle:
    """A plain log of one segment; its batches are of 1 MiB, each in the index."""

    @pytest.fixture
    def topic(self, memory: ObjectStore) -> tuple[Topic, RequestCounter]:
        """Write it, and count what is asked from then on."""
        _write(memory, None)
        return _open(memory)

    def test_a_slice_that_ends_inside_a_segment_fetches_what_the_index_says(
        self, topic: tuple[Topic, RequestCounter]
    ) -> None:
        opened, counter = topic
        (part,) = opened.scan([0], 5, 6).plan.slices
        assert part.size < 2 * _MIB
        before = counter.size
        assert opened.scan([0], 5, 6).to_table()["offset"].to_pylist() == [5]
        tail = 2 * 10_000  # once for the index, once to know the object
        assert counter.size - before <= part.size + tail

    def test_a_batch_behind_the_slice_is_not_fetched(
        self, topic: tuple[Topic, RequestCounter]
    ) -> None:
        opened, counter = topic
        offsets = [b["offset"][-1].as_py() + 1 for b in opened.scan([0])]
        for end in {1, *range(1, offsets[-1], 7)}:
            (part,) = opened.scan([0], 0, end).plan.slices
            before = counter.size
            assert len(opened.scan([0], 0, end).to_table()) == end
            assert counter.size - before <= part.size + 20_000

    @pytest.mark.parametrize("needed", [1, 20, 279])
    def test_the_first_records_of_a_scan_take_little_more_than_they_are(
        self, topic: tuple[Topic, RequestCounter], needed: int
    ) -> None:
        opened, counter = topic
        scan = opened.scan([0], start=1)
        found = 0
        for batch in scan.read_gradually(needed):
            found += len(batch)
            if found >= needed:
                break
        assert counter.size <= needed * _VALUE + 4 * _MIB

    @pytest.mark.parametrize("needed", [0, 1, 30, 2000])
    def test_the_head_of_a_scan_is_its_first_records_and_takes_little_more(
        self, topic: tuple[Topic, RequestCounter], needed: int
    ) -> None:
        opened, counter = topic
        scan = opened.scan(start=3)
        before = counter.size
        found = scan.head(needed)
        assert counter.size - before <= needed * (_VALUE + 4 * _MIB)
        assert found.equals(scan.to_table().slice(0, needed))

    @pytest.mark.parametrize("needed", [0, 1, 30, 1000])
    def test_a_scan_that_is_read_gradually_gives_every_record_once(
        self, topic: tuple[Topic, RequestCounter], needed: int
    ) -> None:
        opened, counter = topic
        scan = opened.scan(start=3)
        before = counter.size
        found = pa.Table.from_batches(scan.read_gradually(needed), scan.schema)
        assert counter.size - before <= scan.plan.size + _PARTITIONS * 60_000
        assert found.equals(scan.to_table())

    def test_a_time_is_looked_up_in_what_the_indexes_say(
        self, topic: tuple[Topic, RequestCounter]
    ) -> None:
        opened, counter = topic
        stamp = opened.read(0, 0)["timestamp"][0].as_py()
        before = counter.size
        found = opened.offsets_for_times({0: stamp})[0]
        assert found is not None
        assert found.offset == 0
        assert counter.size - before < 3 * _MIB


def test_the_first_record_of_a_long_segment_takes_its_index_and_little_more(
    tmp_path: Path, memory: ObjectStore
) -> None:
    pushed(tmp_path, memory, [1000] * 6000)
    topic, counter = _open(memory)
    scan = topic.scan()
    before = counter.counts
    assert next(iter(scan.read_gradually(1))).num_rows
    assert counter.requests - before.requests == 2
    assert counter.size - before.size < 200 << 10
