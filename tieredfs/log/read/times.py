"""Find the offset of a time, as Kafka's ``offsetsForTimes`` does."""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import CorruptBatchError, CorruptIndexError
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.buffers import int64s
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.time import TimeIndex, TimestampOffset
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log.planning.errors import gap_error
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.table_tiles import late_rows
from tieredfs.log.planning.tiles import lineage_of
from tieredfs.log.read.pipeline import read_slice
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.model import IndexType, OffsetAndTimestamp, SegmentMetadata

__all__ = ["find_offset", "offset_of_time"]


def offset_of_time(
    reader: TieredReader,
    segments: Sequence[SegmentMetadata],
    timestamp: int,
    *,
    skip_gaps: bool = False,
) -> int:
    """Find the offset at which a scan from, or to, a time begins or ends.

    It is that of the record that ``find_offset`` finds; where every record is older, it
    is the end of the log as it was listed: records that are appended meanwhile come
    after it.

    Args:
        reader: Reader of the partition.
        segments: The partition's segments with their largest timestamps.
        timestamp: Milliseconds since 1970 UTC.
        skip_gaps: As in ``find_offset``.

    Raises:
        CorruptDataError: As in ``find_offset``.
    """
    found = find_offset(reader, segments, timestamp, skip_gaps=skip_gaps)
    return bounds_of(segments).end if found is None else found.offset


def find_offset(
    reader: TieredReader,
    segments: Sequence[SegmentMetadata],
    timestamp: int,
    *,
    skip_gaps: bool = False,
) -> OffsetAndTimestamp | None:
    """Find the first record whose timestamp is at or after a time.

    Control records count, as they do in Kafka. Timestamps need not increase along the
    log: the result is the first *offset*.

    Args:
        reader: Reader of the partition.
        segments: The partition's segments with their largest timestamps.
        timestamp: Milliseconds since 1970 UTC.
        skip_gaps: Whether to accept gaps and several states of the log.

    Returns:
        The record; None when every record is older.

    Raises:
        NotFoundError: A listed segment is gone.
        CorruptIndexError: A time index is malformed, or contradicts its log or its
            segment's largest timestamp.
        CorruptBatchError: A batch is malformed, or later than its segment.
        CorruptDataError: The segments are not one state of the log, or the time falls
            into a gap: the record would be the first one after the gap. Only if
            ``skip_gaps`` is false.
    """
    columns = ("offset", "timestamp")
    decoder = RecordDecoder("", 0, columns, reader.storage.store.options)
    lineage = lineage_of(segments)
    if skip_gaps:
        held = bounds_of(segments)
        tiles = reader.tiles(segments, held.beginning, held.end, skip_gaps=True)
    else:
        tiles = reader.served_tiles(segments)
    beginning = bounds_of(segments).beginning
    for row in late_rows(tiles, timestamp):
        segment, start, end = tiles[row]
        gap = tiles[row - 1].end if row else beginning, start
        times, offsets = _indexes(reader, segment)
        _check_claim(times, segment, reader.storage.name_of(segment))
        entry = times.lookup(timestamp)
        # After the previous entry no earlier batch may be as late, or it would have
        # been this entry. So a wrong entry is detected, and never leads to a wrong
        # result.
        begin = max(start, times.lookup(entry.timestamp - 1).offset)
        part = SegmentSlice(
            segment,
            begin,
            end,
            offsets.lookup(begin).position,
            _reach(times, offsets, timestamp) or segment.size or 0,
            lineage,
        )
        has_older = False
        for batch in chain.from_iterable(read_slice(reader.storage, part)):
            _check_entry(batch, entry)
            _check_latest(batch, segment)
            # Records before ``begin`` that share its batch are as late as it is.
            found, is_first = _first_at(batch, start, end, timestamp, decoder)
            if found is not None:
                if gap[0] < gap[1] and is_first and not (has_older or skip_gaps):
                    raise gap_error(reader.storage.store.url, segment, *gap)
                return found
            has_older |= batch.header.last_offset >= start
    return None


def _reach(times: TimeIndex, offsets: OffsetIndex, timestamp: int) -> int | None:
    """Return a position at or after the first record that is so late, if known."""
    late = times.upper_bound(timestamp)
    return None if late is None else offsets.end_position(late.offset + 1)


def _indexes(
    reader: TieredReader, segment: SegmentMetadata
) -> tuple[TimeIndex, OffsetIndex]:
    indexes = reader.storage.fetch_indexes(
        segment, [IndexType.OFFSET, IndexType.TIMESTAMP]
    )
    times = indexes.get(IndexType.TIMESTAMP, b"")
    offsets = indexes.get(IndexType.OFFSET, b"")
    base, end, name = (
        segment.start_offset,
        segment.end_offset,
        reader.storage.name_of(segment),
    )
    return (
        TimeIndex.parse(times, base, end_offset=end, name=f"{name}: time index"),
        OffsetIndex.parse(
            offsets,
            base,
            end_offset=end,
            log_size=segment.size,
            name=f"{name}: offset index",
        ),
    )


def _check_claim(times: TimeIndex, segment: SegmentMetadata, name: str) -> None:
    """Check that the time index has no time later than its segment's largest.

    A segment whose largest timestamp is too old is skipped, so a wrong one would hide
    records.
    """
    latest = segment.max_timestamp_ms
    if latest is not None and len(times) and times.entry(-1).timestamp > latest:
        msg = (
            f"{name}: its time index ends with {times.entry(-1).timestamp}, its "
            f"largest timestamp is stated as {latest}"
        )
        raise CorruptIndexError(msg)


def _check_latest(batch: LogBatch, segment: SegmentMetadata) -> None:
    """Check that no batch is later than its segment's largest timestamp."""
    latest = segment.max_timestamp_ms
    if latest is not None and batch.header.max_timestamp > latest:
        msg = (
            f"{batch.where}: its largest timestamp is {batch.header.max_timestamp}, "
            f"that of the segment is stated as {latest}"
        )
        raise CorruptBatchError(msg)


def _check_entry(batch: LogBatch, entry: TimestampOffset) -> None:
    """Check that the batch of an entry, and none before it, has its timestamp.

    Otherwise earlier batches may have later times than the entry.
    """
    header = batch.header
    if entry.timestamp < 0 or header.base_offset > entry.offset:
        return
    is_wrong = (
        header.max_timestamp != entry.timestamp
        if header.last_offset >= entry.offset
        else header.max_timestamp >= entry.timestamp
    )
    if is_wrong:
        msg = (
            f"{batch.where}: its largest timestamp is {header.max_timestamp}, the time "
            f"index has {entry.timestamp} at offset {entry.offset}"
        )
        raise CorruptIndexError(msg)


def _first_at(
    batch: LogBatch, start: int, end: int, timestamp: int, decoder: RecordDecoder
) -> tuple[OffsetAndTimestamp | None, bool]:
    """Return the first record of a batch at or after a time, within some offsets.

    Returns:
        The record, None if there is none, and whether it is the first of all.
    """
    header = batch.header
    if header.max_timestamp < timestamp:
        return None, False
    wanted = LogBatches.of(batch).within(start, end)
    epoch = None if header.leader_epoch == NO_EPOCH else header.leader_epoch
    is_first = True
    for records in decoder.decode([wanted]):
        stamps = int64s(records["timestamp"])
        late = np.flatnonzero(stamps >= timestamp)
        if late.size:
            row = int(late[0])
            offset = int64s(records["offset"]).item(row)
            found = OffsetAndTimestamp(offset, stamps.item(row), epoch)
            return found, is_first and row == 0
        is_first &= not len(stamps)
    return None, False
