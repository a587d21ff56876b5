"""What is written anew from a real log, against what the broker wrote beside it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from golden import KAFKA, Golden, decode, goldens, log_batches, rows_of
from tieredfs.format.batch import scan_batches
from tieredfs.format.control import parse_control_record
from tieredfs.format.index_builder import IndexBuilder
from tieredfs.format.producer_snapshot import ProducerSnapshot
from tieredfs.format.producer_state import ProducerTracker
from tieredfs.format.txn_index import AbortedTransaction, TransactionIndex

_INTERVAL = 256  # `index.interval.bytes` of the topics in the sample data

_WHOLE = ["plain", "two-partitions", "txn"]
"""Whole partitions of brokers that never restarted, which forgets idle producers."""


def _logs() -> list[Path]:
    logs = sorted(KAFKA.glob("*/kafka-tiered-storage/*/*.log"))
    return [log for log in logs if not _was_restarted(log)]


def _was_restarted(log: Path) -> bool:
    """Tell whether a broker began anew in this segment to count its bytes."""
    epochs = {header.leader_epoch for header in scan_batches(log.read_bytes())}
    return log.parent.name.startswith("epochs-") and len(epochs) > 1


@pytest.mark.parametrize("log", _logs(), ids=lambda log: log.name)
def test_indexes_rebuilt_from_a_log_are_those_of_the_broker(log: Path) -> None:
    builder = IndexBuilder(int(log.name[:20]), interval_bytes=_INTERVAL)
    for header in scan_batches(log.read_bytes()):
        builder.add(header)
    assert builder.offset_index() == log.with_suffix(".index").read_bytes()
    assert builder.time_index() == log.with_suffix(".timeindex").read_bytes()


def _partitions() -> list[Path]:
    return [path for t in _WHOLE for path in sorted((KAFKA / t).glob("kafka-*/*"))]


def _follow(log: Path, producers: ProducerTracker) -> Iterator[AbortedTransaction]:
    for batch in log_batches(log.read_bytes()):
        if not batch.header.is_control:
            producers.add(batch.header)
            continue
        (row,) = rows_of(decode([batch]))
        marker = parse_control_record(row["key"], row["value"])
        aborted = producers.end_transaction(batch.header, marker)
        if aborted is not None:
            yield aborted


@pytest.mark.parametrize("partition", _partitions(), ids=lambda path: path.name)
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


@pytest.mark.parametrize("partition", _partitions(), ids=lambda path: path.name)
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
