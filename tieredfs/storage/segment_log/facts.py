"""Facts about a segment, from the batches of its log."""

from collections.abc import Iterable
from dataclasses import dataclass

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.buffers import int64s
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.model import EpochEntry

__all__ = ["LogFacts", "facts_of", "timestamp_range"]


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What a log holds.

    Attributes:
        record_count: Records, control records among them.
        first_timestamp_ms: Of the first record; -1 for none.
        max_timestamp_ms: Largest; -1 for none.
        epoch: Highest leader epoch; -1 for none.
        epochs: The epochs with the first offset that the log has of each.
    """

    record_count: int
    first_timestamp_ms: int
    max_timestamp_ms: int
    epoch: int
    epochs: tuple[EpochEntry, ...]


def facts_of(
    batches: Iterable[LogBatch], start_offset: int, end_offset: int
) -> LogFacts:
    """Read all batches of a log, and return what they contain.

    Args:
        batches: All of them, in order.
        start_offset: First offset of the segment.
        end_offset: Last offset of the segment, inclusive.

    Raises:
        CorruptBatchError: A batch is malformed, or outside the segment.
    """
    records = 0
    first: int | None = None
    largest: int | None = None
    epochs: list[EpochEntry] = []
    for batch in batches:
        header = batch.header
        if header.base_offset < start_offset or header.last_offset > end_offset:
            msg = (
                f"{batch.where}: offsets {header.base_offset} to {header.last_offset} "
                f"are not within {start_offset} to {end_offset}"
            )
            raise CorruptBatchError(msg)
        if first is None and header.record_count:
            first = _first_timestamp(batch)
        records += header.record_count
        stamp = header.max_timestamp
        largest = stamp if largest is None else max(largest, stamp)
        known = epochs[-1].epoch if epochs else NO_EPOCH
        if header.leader_epoch > known:
            epochs.append(EpochEntry(header.leader_epoch, header.base_offset))
    return LogFacts(
        records,
        -1 if first is None else first,
        -1 if largest is None else largest,
        epochs[-1].epoch if epochs else NO_EPOCH,
        tuple(epochs),
    )


def timestamp_range(batches: Iterable[LogBatches]) -> tuple[int, int]:
    """Return the smallest and the largest timestamp of a log's records, in ms.

    Args:
        batches: Its batches, in any groups, without control batches.

    Returns:
        Both, or -1 and -1 for a log without records.
    """
    decoder = RecordDecoder("", 0, ("timestamp",))
    found = [
        int64s(records["timestamp"])
        for group in batches
        for records in decoder.decode([group])
        if records.num_rows
    ]
    if not found:
        return -1, -1
    return min(int(one.min()) for one in found), max(int(one.max()) for one in found)


def _first_timestamp(batch: LogBatch) -> int:
    decoder = RecordDecoder("", 0, ("timestamp",))
    first = next(decoder.decode([LogBatches.of(batch)]))
    return int64s(first["timestamp"]).item(0)
