"""What is written anew from a real log, against what the broker wrote beside it."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.golden import (
    Golden,
    decode,
    goldens,
    header_of,
    headers_of,
    log_batches,
    rows_of,
)
from support.kafka_data import KAFKA
from tieredfs.format.batch.control import parse_control_record
from tieredfs.format.index.builder import IndexBuilder
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.padding import without_padding
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.producer_state import ProducerTracker
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex

_INTERVAL = 256  # `index.interval.bytes` of the topics in the sample data

_WHOLE = ["plain", "two-partitions", "txn"]
"""Whole partitions of brokers that never restarted, which forgets idle producers."""


def _name(log: Path) -> str:
    return "/".join(log.relative_to(KAFKA).parts[1:])


def _logs() -> list[Path]:
    logs = sorted(KAFKA.glob("*/kafka-tiered-storage/*/*.log"))
    return [log for log in logs if not _was_restarted(log)]


def _was_restarted(log: Path) -> bool:
    """Return whether a broker restarted its count of bytes in this segment."""
    epochs = {header.leader_epoch for header in headers_of(log.read_bytes())}
    return log.parent.name.startswith("epochs-") and len(epochs) > 1


@pytest.mark.parametrize("log", _logs(), ids=_name)
def test_indexes_rebuilt_from_a_log_are_those_of_the_broker(log: Path) -> None:
    builder = IndexBuilder(int(log.name[:20]), interval_bytes=_INTERVAL)
    for header in headers_of(log.read_bytes()):
        builder.add(header)
    assert builder.offset_index() == log.with_suffix(".index").read_bytes()
    assert builder.time_index() == log.with_suffix(".timeindex").read_bytes()


def _segments() -> list[Path]:
    """Find every log with indexes beside it, whatever happened to its broker."""
    logs = sorted(KAFKA.glob("*/*/*/*.log"))
    return [log for log in logs if log.with_suffix(".index").exists()]


class _Found(NamedTuple):
    """A segment, its records in order, and a pair of indexes to find them by."""

    records: list[tuple[int, int, int]]  # position of the batch, offset, timestamp
    offsets: OffsetIndex
    times: TimeIndex

    def by_offset(self, offset: int) -> int | None:
        """Return the first offset at or above one, reading from where it is led."""
        start = self.offsets.lookup(offset).position
        return next(
            (at for p, at, _ in self.records if p >= start and at >= offset), None
        )

    def by_time(self, stamp: int) -> tuple[int, int] | None:
        """Return the first record at or after a time, as Kafka looks for it."""
        start = self.offsets.lookup(self.times.lookup(stamp).offset).position
        later = (r[1:] for r in self.records if r[0] >= start and r[2] >= stamp)
        return next(later, None)


def _found(log: Path) -> tuple[_Found, _Found]:
    """Read a log: with the indexes of the broker, and with those made anew."""
    data, base = log.read_bytes(), int(log.name[:20])
    batches = list(log_batches(data))
    headers = [header_of(batch) for batch in batches]
    records = [
        (header_of(batch).position, row["offset"], row["timestamp"])
        for batch in batches
        for row in rows_of(decode([batch], ("offset", "timestamp")))
    ]
    builder = IndexBuilder(base, interval_bytes=_INTERVAL)
    for header in headers:
        builder.add(header)
    end = headers[-1].last_offset if headers else base - 1
    stored = [log.with_suffix(suffix) for suffix in (".index", ".timeindex")]
    pairs: list[tuple[bytes | memoryview, bytes | memoryview]] = [
        (
            without_padding(stored[0].read_bytes(), OffsetIndex.ENTRY_SIZE),
            without_padding(stored[1].read_bytes(), TimeIndex.ENTRY_SIZE),
        ),
        (builder.offset_index(), builder.time_index()),
    ]
    broker, anew = (
        _Found(
            records,
            OffsetIndex.parse(offsets, base, end_offset=end, log_size=len(data)),
            TimeIndex.parse(times, base, end_offset=end),
        )
        for offsets, times in pairs
    )
    return broker, anew


@pytest.mark.parametrize("log", _segments(), ids=_name)
def test_rebuilt_indexes_find_the_same_record_for_every_offset(log: Path) -> None:
    broker, anew = _found(log)
    base, end = int(log.name[:20]), max([r[1] for r in broker.records], default=0)
    for offset in range(base, end + 2):
        assert anew.by_offset(offset) == broker.by_offset(offset)


@pytest.mark.parametrize("log", _segments(), ids=_name)
def test_rebuilt_indexes_find_the_same_record_for_every_time(log: Path) -> None:
    broker, anew = _found(log)
    for stamp in sorted({r[2] + near for r in broker.records for near in (-1, 0, 1)}):
        assert anew.by_time(stamp) == broker.by_time(stamp)


def _partitions() -> list[Path]:
    return [path for t in _WHOLE for path in sorted((KAFKA / t).glob("kafka-*/*"))]


def _follow(log: Path, producers: ProducerTracker) -> Iterator[AbortedTransaction]:
    for batch in log_batches(log.read_bytes()):
        header = header_of(batch)
        if not header.is_control:
            producers.add(header)
            continue
        (row,) = rows_of(decode([batch]))
        marker = parse_control_record(row["key"], row["value"])
        aborted = producers.end_transaction(header, marker)
        if aborted is not None:
            yield aborted


@pytest.mark.parametrize("partition", _partitions(), ids=_name)
def test_producers_followed_through_a_partition_are_those_of_the_broker(
    partition: Path,
) -> None:
    producers = ProducerTracker({})
    for log in sorted(partition.glob("*.log")):
        aborted = list(_follow(log, producers))
        index = log.with_suffix(".txnindex")
        stored = index.read_bytes() if index.exists() else b""
        assert TransactionIndex(tuple(aborted)).encode() == stored
        snapshot = ProducerSnapshot.parse(log.with_suffix(".snapshot").read_bytes())
        assert set(producers.snapshot().producers) == set(snapshot.producers)


@pytest.mark.parametrize("partition", _partitions(), ids=_name)
def test_producers_can_be_followed_from_any_snapshot_on(partition: Path) -> None:
    snapshots = [
        ProducerSnapshot.parse(path.read_bytes())
        for path in sorted(partition.glob("*.snapshot"))
    ]
    logs = sorted(partition.glob("*.log"))[1:]
    for before, log, after in zip(snapshots, logs, snapshots[1:], strict=False):
        producers = ProducerTracker.after(before)
        list(_follow(log, producers))
        assert set(producers.snapshot().producers) == set(after.producers)


@pytest.mark.parametrize("golden", goldens(".snapshot.expected.json"), ids=str)
def test_a_snapshot_is_written_as_kafka_writes_it(golden: Golden) -> None:
    assert ProducerSnapshot.parse(golden.read()).encode() == golden.read()


@pytest.mark.parametrize("golden", goldens(".txnindex.expected.json"), ids=str)
def test_a_transaction_index_is_written_as_kafka_writes_it(golden: Golden) -> None:
    index = TransactionIndex.parse(golden.read(), golden.document()["baseOffset"])
    assert index.encode() == golden.read()
