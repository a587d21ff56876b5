"""One pass over a segment's log: its facts, and whether its indexes agree with it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptDataError,
    CorruptIndexError,
    InvalidArgumentError,
    UnsupportedFormatError,
)
from tieredfs.format.batch.table import LogBatch
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
from tieredfs.format.records.marker import marker_of
from tieredfs.model import IndexType, LogSegmentData, SegmentMetadata
from tieredfs.storage.segment_log.facts import LogFacts, facts_of
from tieredfs.storage.segment_log.source import LogSource, open_log
from tieredfs.storage.segment_log.stream import read_batches

__all__ = [
    "Inspection",
    "PriorState",
    "inspect_copy",
    "inspect_log_segment",
    "inspect_segment",
    "parse_producers",
    "prior_state",
]


@dataclass(frozen=True, slots=True)
class Inspection:
    """The result of one pass over a log.

    Attributes:
        facts: What the log holds.
        inconsistent: The indexes that are inconsistent with the log, and how.
        rebuilt: Every index, rebuilt from the log; TRANSACTION only where there are
            aborts.
        is_compacted: Whether offsets are missing because the cleaner removed records.
        last_offset: Last offset of the last batch; the segment's start offset minus 1
            where there is no batch.
        lost_from: The first offset that is missing at the end of a log that shows no
            trace of the cleaner; None if none is missing.
    """

    facts: LogFacts
    inconsistent: Mapping[IndexType, str]
    rebuilt: Mapping[IndexType, bytes]
    is_compacted: bool
    lost_from: int | None
    last_offset: int


@dataclass(frozen=True, slots=True)
class PriorState:
    """What is known of a partition where a segment begins.

    Attributes:
        producers: Its producers; None if they are not known.
        epochs: Its leader epochs so far.
    """

    producers: ProducerSnapshot | None = None
    epochs: LeaderEpochs = LeaderEpochs()  # noqa: RUF009 - immutable


def inspect_segment(
    batches: Iterable[LogBatch],
    metadata: SegmentMetadata,
    indexes: Mapping[IndexType, Buffer],
    prior: PriorState = PriorState(),
    *,
    interval_bytes: int = INTERVAL_BYTES,
) -> Inspection:
    """Read a log once, check its indexes, and rebuild them.

    Args:
        batches: All batches of the log, in order.
        metadata: The segment, whose end offset and size are known.
        indexes: The bytes of each index that exists.
        prior: What is known of the partition where the segment begins. If its producers
            are not known, it has none, as for a broker without a snapshot.
        interval_bytes: Minimum bytes of log between two entries of a rebuilt index: the
            topic's ``index.interval.bytes``.

    Raises:
        CorruptBatchError: A batch is malformed, or outside the segment.
    """
    base = metadata.start_offset
    end = base - 1 if metadata.end_offset is None else metadata.end_offset
    check = IndexCheck(indexes, base, end, metadata.size or 0)
    builder = IndexBuilder(base, interval_bytes=interval_bytes)
    producers = ProducerTracker.after(prior.producers or ProducerSnapshot())
    aborts: list[AbortedTransaction] = []
    following, cleaned = base, False

    def watched() -> Iterator[LogBatch]:
        nonlocal following, cleaned
        for batch in batches:
            header = batch.header
            written = header.last_offset - header.base_offset + 1
            cleaned |= (header.base_offset, header.record_count) != (following, written)
            following = header.last_offset + 1
            marker = marker_of(batch)
            check.add(header, marker)
            builder.add(header)
            if marker is not None:
                aborted = producers.end_transaction(header, marker)
                aborts.extend([] if aborted is None else [aborted])
            elif header.record_count:
                producers.add(header)
            yield batch

    facts = facts_of(watched(), base, end)
    epochs = prior.epochs.extended(facts.epochs)
    inconsistent = dict(check.finish())
    made = TransactionIndex(tuple(aborts)).encode()
    known = prior.producers is not None and not check.is_compacted
    if known and bytes(indexes.get(IndexType.TRANSACTION, made)) != made:
        inconsistent.setdefault(
            IndexType.TRANSACTION, "its aborts are not those of the log"
        )
    if known and IndexType.PRODUCER_SNAPSHOT in indexes.keys() - inconsistent.keys():
        stored = ProducerSnapshot.parse(indexes[IndexType.PRODUCER_SNAPSHOT])
        for detail in _inconsistent_transactions(stored, producers.producers):
            inconsistent[IndexType.PRODUCER_SNAPSHOT] = detail
    rebuilt = {
        IndexType.OFFSET: builder.offset_index(),
        IndexType.TIMESTAMP: builder.time_index(),
        IndexType.PRODUCER_SNAPSHOT: producers.snapshot().encode(),
        IndexType.LEADER_EPOCH: format_leader_epochs(epochs),
    }
    # The cleaner leaves markers whose transactions it has removed.
    if aborts and (IndexType.TRANSACTION in inconsistent or not check.is_compacted):
        rebuilt[IndexType.TRANSACTION] = made
    lost_from = following if following <= end and not cleaned else None
    return Inspection(
        facts, inconsistent, rebuilt, check.is_compacted, lost_from, following - 1
    )


def inspect_copy(
    source: LogSource,
    write: Callable[[memoryview], object],
    metadata: SegmentMetadata,
    indexes: Mapping[IndexType, Buffer],
) -> Inspection:
    """Read a log once as it is copied, and reject what no reader could read.

    Every layout that stores a segment calls this, so all of them reject the same: what
    ``verify`` would report in the copy. What real brokers write is accepted: empty
    indexes, logs and indexes that the cleaner rewrote, checkpoints that begin after the
    segment's start or extend past its end, snapshots without producers that expired.

    Args:
        source: The log.
        write: Takes each piece of the log, in order. The bytes it takes are the bytes
            that are checked, even if the source changes meanwhile.
        metadata: The segment, whose end offset and size are known.
        indexes: The bytes of each index that exists, without padding.

    Raises:
        CorruptBatchError: A batch is malformed, or outside the segment.
        CorruptIndexError: An index is malformed or inconsistent with the log, or the
            log has an abort and the transaction index is missing.
    """

    def fetch(start: int, end: int) -> memoryview:
        piece = source.fetch(start, end)
        write(piece)
        return piece

    batches = read_batches(replace(source, fetch=fetch))
    inspection = inspect_segment(batches, metadata, indexes)
    for kind, detail in inspection.inconsistent.items():
        raise CorruptIndexError(f"{source.name}: {kind} index: {detail}")
    return inspection


def inspect_log_segment(
    metadata: SegmentMetadata,
    data: LogSegmentData,
    write: Callable[[memoryview], object],
) -> Inspection:
    """Read what ``copy_log_segment`` is given, and reject what no reader could read.

    Args:
        metadata: The segment's partition, id, first and last offset.
        data: The log and its indexes.
        write: Takes each piece of the log, in order. Where the log is a file that
            changes meanwhile, store these and not the file: they are what was checked.

    Raises:
        InvalidArgumentError: ``metadata`` has no end offset.
        NotFoundError: The log's file does not exist.
        CorruptBatchError: A batch is malformed, or outside the segment.
        CorruptIndexError: An index is malformed or inconsistent with the log, or the
            log has an abort and the transaction index is missing.
    """
    if metadata.end_offset is None:
        raise InvalidArgumentError(f"{metadata}: the segment has no end offset")
    with open_log(data.log, str(metadata)) as log:
        measured = replace(metadata, size=log.size)
        return inspect_copy(log, write, measured, data.indexes)


def prior_state(indexes: Mapping[IndexType, Buffer]) -> PriorState:
    """Return what a segment's indexes contain about the partition at its end.

    Args:
        indexes: The bytes of each index that exists; malformed ones are ignored.
    """
    try:
        epochs = parse_leader_epochs(indexes.get(IndexType.LEADER_EPOCH, b""))
    except (CorruptDataError, UnsupportedFormatError):
        epochs = LeaderEpochs()
    return PriorState(parse_producers(indexes.get(IndexType.PRODUCER_SNAPSHOT)), epochs)


def parse_producers(data: Buffer | None) -> ProducerSnapshot | None:
    """Return the producers of a snapshot, if it exists and can be read."""
    try:
        return None if data is None else ProducerSnapshot.parse(data)
    except (CorruptDataError, UnsupportedFormatError):
        return None


def _inconsistent_transactions(
    stored: ProducerSnapshot, followed: Mapping[int, ProducerState]
) -> Iterator[str]:
    """Yield each difference between a snapshot and the open transactions."""
    for producer in stored.producers:
        mine = followed.get(producer.producer_id, producer)
        first = mine.transaction_first_offset
        if first != producer.transaction_first_offset:
            yield (
                f"producer {producer.producer_id} has a transaction open from {first}, "
                f"the snapshot has {producer.transaction_first_offset} (-1: none)"
            )
