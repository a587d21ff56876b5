"""A segment's log read once: what it holds, and whether its indexes are true to it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tieredfs.epochs import LeaderEpochs
from tieredfs.format.batch import HEADER_SIZE
from tieredfs.format.buffers import Buffer
from tieredfs.format.control import ControlRecord, parse_control_record
from tieredfs.format.index_builder import IndexBuilder
from tieredfs.format.index_truth import IndexTruth
from tieredfs.format.leader_epoch_checkpoint import format_leader_epochs
from tieredfs.format.producer_snapshot import ProducerSnapshot
from tieredfs.format.producer_state import ProducerTracker
from tieredfs.format.records import LogBatch, RecordDecoder
from tieredfs.format.txn_index import AbortedTransaction, TransactionIndex
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage.log_facts import LogFacts, facts_of

__all__ = ["Inspection", "inspect_segment"]


@dataclass(frozen=True, slots=True)
class Inspection:
    """What one reading of a log says.

    Attributes:
        facts: What the log holds.
        untrue: Which of the indexes are untrue to the log, and how.
        rebuilt: Every index, made anew from the log; TRANSACTION only where there are
            aborts.
        is_compacted: Whether offsets are missing: the cleaner has been here.
    """

    facts: LogFacts
    untrue: Mapping[IndexType, str]
    rebuilt: Mapping[IndexType, bytes]
    is_compacted: bool


def inspect_segment(
    batches: Iterable[LogBatch],
    metadata: SegmentMetadata,
    indexes: Mapping[IndexType, Buffer],
    before: ProducerSnapshot | None = None,
) -> Inspection:
    """Read a log once, judge the indexes beside it, and make them anew.

    Args:
        batches: All batches of the log, in order.
        metadata: The segment, with its end and size told.
        indexes: The bytes of each index there is.
        before: The producers where the segment begins; none when it is not known,
            which is what a broker takes when it rebuilds.

    Raises:
        CorruptBatchError: A batch is malformed, or lies outside the segment.
    """
    base = metadata.start_offset
    end = base - 1 if metadata.end_offset is None else metadata.end_offset
    truth = IndexTruth(indexes, base, end, metadata.size or 0)
    builder = IndexBuilder(base)
    producers = ProducerTracker.after(before or ProducerSnapshot())
    aborts: list[AbortedTransaction] = []

    def watched() -> Iterator[LogBatch]:
        for batch in batches:
            marker = _marker(batch)
            truth.add(batch.header, marker)
            builder.add(batch.header)
            if marker is not None:
                aborted = producers.end_transaction(batch.header, marker)
                aborts.extend([] if aborted is None else [aborted])
            elif batch.header.record_count:
                producers.add(batch.header)
            yield batch

    facts = facts_of(watched(), base, end)
    untrue = dict(truth.finish())
    made = TransactionIndex(tuple(aborts)).encode()
    known = before is not None and not truth.is_compacted
    if known and bytes(indexes.get(IndexType.TRANSACTION, made)) != made:
        untrue.setdefault(IndexType.TRANSACTION, "its aborts are not those of the log")
    rebuilt = {
        IndexType.OFFSET: builder.offset_index(),
        IndexType.TIMESTAMP: builder.time_index(),
        IndexType.PRODUCER_SNAPSHOT: producers.snapshot().encode(),
        IndexType.LEADER_EPOCH: format_leader_epochs(LeaderEpochs(facts.epochs)),
    }
    # The cleaner leaves markers behind whose transactions it has removed.
    if aborts and (IndexType.TRANSACTION in untrue or not truth.is_compacted):
        rebuilt[IndexType.TRANSACTION] = made
    return Inspection(facts, untrue, rebuilt, truth.is_compacted)


def _marker(batch: LogBatch) -> ControlRecord | None:
    """Return what a control batch says; None for records, and where it is empty."""
    header = batch.header
    if not header.is_control or not header.record_count or header.size <= HEADER_SIZE:
        return None
    decoder = RecordDecoder("", 0, ("key", "value"))
    row = next(decoder.decode([batch]))
    return parse_control_record(
        row["key"][0].as_py() or b"", row["value"][0].as_py(), name=batch.where
    )
