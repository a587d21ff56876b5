"""A segment's log read once: what it holds, and whether its indexes are true to it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptDataError,
    CorruptIndexError,
    UnsupportedFormatError,
)
from tieredfs.format.batch.control import ControlRecord, parse_control_record
from tieredfs.format.batch.header import HEADER_SIZE
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.builder import INTERVAL_BYTES, IndexBuilder
from tieredfs.format.index.check import IndexCheck
from tieredfs.format.index.leader_epochs import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.format.index.producer_state import ProducerTracker
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage.segment_log.facts import LogFacts, facts_of
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.stream import read_batches

__all__ = [
    "Inspection",
    "PriorState",
    "inspect_copy",
    "inspect_segment",
    "parse_producers",
    "prior_state",
]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What one reading of a log says.

    Attributes:
        facts: What the log holds.
        untrue: Which of the indexes are untrue to the log, and how.
        rebuilt: Every index, made anew from the log; TRANSACTION only where there are
            aborts.
        is_compacted: Whether offsets are missing: the cleaner has been here.
        last_offset: Last offset of the last batch; one below the segment's first where
            there is no batch.
        lost_from: The first of the offsets that are missing at the end of a log which
            the cleaner has left no trace in; None when there is no such offset.
    """

    facts: LogFacts
    untrue: Mapping[IndexType, str]
    rebuilt: Mapping[IndexType, bytes]
    is_compacted: bool
    lost_from: int | None
    last_offset: int


@dataclass(frozen=True, slots=True)
class PriorState:
    """What is known of a partition where a segment begins.

    Attributes:
        producers: Its producers; None when they are not known.
        epochs: Its leader epochs so far.
    """

    producers: ProducerSnapshot | None = None
    epochs: LeaderEpochs = LeaderEpochs()  # noqa: RUF009 - immutable


def inspect_segment(
    batches: Iterable[LogBatch],
    metadata: SegmentMetadata,
    indexes: Mapping[IndexType, Buffer],
    lead: PriorState = PriorState(),
    *,
    interval_bytes: int = INTERVAL_BYTES,
) -> Inspection:
    """Read a log once, judge the indexes beside it, and make them anew.

    Args:
        batches: All batches of the log, in order.
        metadata: The segment, with its end and size told.
        indexes: The bytes of each index there is.
        lead: What is known of the partition where the segment begins. Producers that
            are not known are taken for none, as a broker does that has no snapshot.
        interval_bytes: Bytes of log between two entries of an index made anew, at
            least: the topic's ``index.interval.bytes``.

    Raises:
        CorruptBatchError: A batch is malformed, or lies outside the segment.
    """
    base = metadata.start_offset
    end = base - 1 if metadata.end_offset is None else metadata.end_offset
    truth = IndexCheck(indexes, base, end, metadata.size or 0)
    builder = IndexBuilder(base, interval_bytes=interval_bytes)
    producers = ProducerTracker.after(lead.producers or ProducerSnapshot())
    aborts: list[AbortedTransaction] = []
    following, cleaned = base, False

    def watched() -> Iterator[LogBatch]:
        nonlocal following, cleaned
        for batch in batches:
            header = batch.header
            written = header.last_offset - header.base_offset + 1
            cleaned |= (header.base_offset, header.record_count) != (following, written)
            following = header.last_offset + 1
            marker = _marker(batch)
            truth.add(header, marker)
            builder.add(header)
            if marker is not None:
                aborted = producers.end_transaction(header, marker)
                aborts.extend([] if aborted is None else [aborted])
            elif header.record_count:
                producers.add(header)
            yield batch

    facts = facts_of(watched(), base, end)
    epochs = lead.epochs.extended(facts.epochs)
    untrue = dict(truth.finish())
    made = TransactionIndex(tuple(aborts)).encode()
    known = lead.producers is not None and not truth.is_compacted
    if known and bytes(indexes.get(IndexType.TRANSACTION, made)) != made:
        untrue.setdefault(IndexType.TRANSACTION, "its aborts are not those of the log")
    if known and IndexType.PRODUCER_SNAPSHOT in indexes.keys() - untrue.keys():
        stored = ProducerSnapshot.parse(indexes[IndexType.PRODUCER_SNAPSHOT])
        for detail in _untrue_transactions(stored, producers.producers):
            untrue[IndexType.PRODUCER_SNAPSHOT] = detail
    rebuilt = {
        IndexType.OFFSET: builder.offset_index(),
        IndexType.TIMESTAMP: builder.time_index(),
        IndexType.PRODUCER_SNAPSHOT: producers.snapshot().encode(),
        IndexType.LEADER_EPOCH: format_leader_epochs(epochs),
    }
    # The cleaner leaves markers behind whose transactions it has removed.
    if aborts and (IndexType.TRANSACTION in untrue or not truth.is_compacted):
        rebuilt[IndexType.TRANSACTION] = made
    lost_from = following if following <= end and not cleaned else None
    return Inspection(
        facts, untrue, rebuilt, truth.is_compacted, lost_from, following - 1
    )


def inspect_copy(
    source: LogSource,
    write: Callable[[memoryview], object],
    metadata: SegmentMetadata,
    indexes: Mapping[IndexType, Buffer],
) -> Inspection:
    """Read a log once as it is copied, and refuse what no reader could read.

    Every layout that stores a segment asks this, so all of them refuse the same: what
    ``verify`` would find wrong in the copy. What real brokers write is accepted: empty
    indexes, logs and indexes that the cleaner rewrote, checkpoints that begin after the
    segment's start or go on behind its end, snapshots without producers that expired.

    Args:
        source: The log.
        write: Takes each piece of the log, in order; they are the bytes that are
            checked, whatever happens to the source meanwhile.
        metadata: The segment, with its end and size.
        indexes: The bytes of each index there is, without padding.

    Raises:
        CorruptBatchError: A batch is malformed, or lies outside the segment.
        CorruptIndexError: An index is malformed or inconsistent with the log, or the
            log has an abort and the transaction index is missing.
    """

    def fetch(start: int, end: int) -> memoryview:
        piece = source.fetch(start, end)
        write(piece)
        return piece

    batches = read_batches(fetch, source.size, name=source.name)
    inspection = inspect_segment(batches, metadata, indexes)
    for kind, detail in inspection.untrue.items():
        raise CorruptIndexError(f"{source.name}: {kind} index: {detail}")
    return inspection


def prior_state(indexes: Mapping[IndexType, Buffer]) -> PriorState:
    """Return what the indexes of a segment say of the partition where it ends.

    Args:
        indexes: The bytes of each index there is; what is malformed says nothing.
    """
    try:
        epochs = parse_leader_epochs(indexes.get(IndexType.LEADER_EPOCH, b""))
    except (CorruptDataError, UnsupportedFormatError):
        epochs = LeaderEpochs()
    return PriorState(parse_producers(indexes.get(IndexType.PRODUCER_SNAPSHOT)), epochs)


def parse_producers(data: Buffer | None) -> ProducerSnapshot | None:
    """Return the producers of a snapshot, if there is one that can be read."""
    try:
        return None if data is None else ProducerSnapshot.parse(data)
    except (CorruptDataError, UnsupportedFormatError):
        return None


def _untrue_transactions(
    stored: ProducerSnapshot, followed: Mapping[int, ProducerState]
) -> Iterator[str]:
    """Yield what a snapshot says wrongly of the transactions that are open."""
    for producer in stored.producers:
        mine = followed.get(producer.producer_id, producer)
        first = mine.transaction_first_offset
        if first != producer.transaction_first_offset:
            yield (
                f"producer {producer.producer_id} has a transaction open from {first}, "
                f"it says {producer.transaction_first_offset} (-1: none)"
            )


def _marker(batch: LogBatch) -> ControlRecord | None:
    """Return what a control batch says; None for records, and where it is empty."""
    header = batch.header
    if not header.is_control or not header.record_count or header.size <= HEADER_SIZE:
        return None
    decoder = RecordDecoder("", 0, ("key", "value"))
    row = next(decoder.decode([LogBatches.of(batch)]))
    return parse_control_record(
        row["key"][0].as_py() or b"", row["value"][0].as_py(), name=batch.where
    )
