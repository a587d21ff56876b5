"""Read the planned slices of a partition's segments."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import (
    CorruptBatchError,
    CorruptIndexError,
    OffsetOutOfRangeError,
)
from tieredfs.format.offset_index import OffsetIndex
from tieredfs.format.records import LogBatch, RecordDecoder
from tieredfs.log.catalog import SegmentCatalog
from tieredfs.log.plan import SegmentSlice, lineage_of, log_end, overlaps, tile
from tieredfs.model import IndexType, SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.log_stream import read_batches

__all__ = ["Bounds", "TieredReader", "slice_batches"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a partition holds: the offsets ``[beginning, end)``."""

    beginning: int
    end: int


class TieredReader:
    """Read one partition's log.

    Attributes:
        storage: Where the segments are.
        partition: Whose log it is.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        catalog: SegmentCatalog,
        partition: TopicIdPartition,
    ) -> None:
        """Ask nothing yet."""
        self.storage = storage
        self.partition = partition
        self._catalog = catalog

    def segments(self) -> list[SegmentMetadata]:
        """Return the segments with their ends, and their epochs where they overlap.

        Raises:
            NotFoundError: There is no such partition.
            CorruptDataError: A segment contradicts its own indexes.
        """
        found = self._catalog.segments(self.partition)
        if overlaps(found):
            return self._catalog.full_segments(self.partition)
        return found

    def full_segments(self) -> list[SegmentMetadata]:
        """Return the segments with every field told."""
        return self._catalog.full_segments(self.partition)

    def bounds(self) -> Bounds:
        """Return the first offset and the end (exclusive) of the log."""
        return bounds_of(self.segments())

    def slices(
        self, start: int | None, end: int | None, *, skip_gaps: bool = False
    ) -> list[SegmentSlice]:
        """Plan the reading of the offsets ``[start, end)``.

        Args:
            start: First offset; None for the beginning of the log.
            end: End (exclusive); None, or anything past it, for the end of the log.
            skip_gaps: Whether offsets that no segment holds are left out.

        Raises:
            OffsetOutOfRangeError: ``start`` lies outside the log.
            CorruptDataError: No segment holds an offset, and ``skip_gaps`` is false.
            CorruptIndexError: An index that is needed is malformed.
        """
        segments = self.segments()
        held = bounds_of(segments)
        first = held.beginning if start is None else start
        if not held.beginning <= first <= held.end:
            msg = (
                f"{self.partition}: offset {first} is outside the log, which holds "
                f"{held.beginning} to {held.end - 1}"
            )
            raise OffsetOutOfRangeError(msg)
        stop = held.end if end is None else min(end, held.end)
        lineage = lineage_of(segments)
        return [
            SegmentSlice(
                segment,
                begin,
                finish,
                *self._positions(segment, begin, finish),
                lineage,
            )
            for segment, begin, finish in tile(
                segments, first, stop, skip_gaps=skip_gaps
            )
        ]

    def read(self, offset: int, max_bytes: int) -> pa.Table:
        """Fetch as Kafka does: from ``offset`` on, about ``max_bytes``.

        Args:
            offset: First offset wanted; records below it are dropped.
            max_bytes: Stored bytes of the batches to return; the first batch with
                records comes whole, however large it is.

        Returns:
            The records, none at the end of the log.

        Raises:
            OffsetOutOfRangeError: ``offset`` lies outside the log.
        """
        decoder = RecordDecoder(self.partition.topic, self.partition.partition)
        batches = self._within(self.slices(offset, None), max_bytes)
        return pa.Table.from_batches(decoder.decode(batches), schema=decoder.schema)

    def _within(
        self, slices: Iterable[SegmentSlice], max_bytes: int
    ) -> Iterator[LogBatch]:
        taken = 0
        for part in slices:
            near = min(part.start_position + max_bytes - taken, part.end_position)
            for batch in slice_batches(self.storage, replace(part, end_position=near)):
                header = batch.header
                if header.is_control:
                    continue
                if taken and taken + header.size > max_bytes:
                    return
                taken += header.size if header.record_count else 0
                yield batch
                if taken >= max_bytes:
                    return

    def _positions(
        self, segment: SegmentMetadata, start: int, end: int
    ) -> tuple[int, int]:
        """Look up where in the log the offsets ``[start, end)`` lie."""
        size = segment.size or 0
        whole = segment.start_offset >= start and end > (segment.end_offset or 0)
        if whole:
            return 0, size
        found = self.storage.fetch_indexes(segment, [IndexType.OFFSET])
        index = OffsetIndex.parse(
            found.get(IndexType.OFFSET, b""),
            segment.start_offset,
            end_offset=segment.end_offset,
            log_size=size,
            name=f"{segment}: offset index",
        )
        position = index.end_position(end)
        return index.lookup(start).position, size if position is None else position


def bounds_of(segments: list[SegmentMetadata]) -> Bounds:
    """Return what segments, sorted by start and with their ends told, hold."""
    beginning = segments[0].start_offset if segments else 0
    return Bounds(beginning, max(beginning, log_end(segments)))


def slice_batches(
    storage: RemoteStorageManager, part: SegmentSlice
) -> Iterator[LogBatch]:
    """Yield the batches of a slice, control batches among them, checked.

    The first and the last may reach beyond the slice's offsets; they are marked so.

    Raises:
        CorruptBatchError: A batch is malformed, or not where its segment and lineage
            have it.
        CorruptIndexError: The offset index led past the slice's first offset.
        CorruptObjectError: The log is shorter than it was listed.
    """
    segment = part.segment
    first = True
    for batch in read_batches(
        lambda start, end: storage.fetch_log_segment(segment, start, end),
        segment.size or 0,
        name=str(segment),
        start=part.start_position,
        until=part.end_position,
    ):
        header = batch.header
        if first and part.start_position and header.base_offset > part.start_offset:
            msg = (
                f"{segment}: the offset index says that offset {part.start_offset} "
                f"is at position {header.position}, where {header.base_offset} is"
            )
            raise CorruptIndexError(msg)
        first = False
        if header.base_offset >= part.end_offset:
            return
        if (
            header.base_offset < segment.start_offset
            or segment.end_offset is None
            or header.last_offset > segment.end_offset
        ):
            msg = (
                f"{batch.where}: the offsets {header.base_offset} to "
                f"{header.last_offset} are not those of the segment"
            )
            raise CorruptBatchError(msg)
        if header.last_offset < part.start_offset:
            continue
        _check_epoch(batch, part)
        yield batch._replace(first_offset=part.start_offset, end_offset=part.end_offset)


def _check_epoch(batch: LogBatch, part: SegmentSlice) -> None:
    header = batch.header
    offset = max(header.base_offset, part.start_offset)
    if not part.lineage.accepts(header.leader_epoch, offset):
        expected = part.lineage.epoch_at(offset)
        msg = (
            f"{batch.where}: leader epoch {header.leader_epoch} at offset {offset}, "
            f"where the lineage has {'none' if expected == NO_EPOCH else expected}"
        )
        raise CorruptBatchError(msg)
