"""Read the planned slices of a partition's segments."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import (
    CorruptBatchError,
    CorruptIndexError,
    NotFoundError,
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

    def timed_segments(self) -> list[SegmentMetadata]:
        """Return the segments with their ends and largest timestamps, likewise."""
        found = self._catalog.timed_segments(self.partition)
        if overlaps(found):
            return self._catalog.full_segments(self.partition)
        return found

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
                f"{self.storage.store.url}: {self.partition}: offset {first} is "
                f"outside the log, which holds {held.beginning} to {held.end - 1}"
            )
            raise OffsetOutOfRangeError(msg)
        stop = held.end if end is None else min(end, held.end)
        return self._slices(segments, first, stop, skip_gaps=skip_gaps)

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
        near = self._read(self._slices_near(offset), max_bytes)
        return near if len(near) else self._read(self.slices(offset, None), max_bytes)

    def _read(self, slices: Iterable[SegmentSlice], max_bytes: int) -> pa.Table:
        decoder = RecordDecoder(self.partition.topic, self.partition.partition)
        batches = self._within(slices, max_bytes)
        return pa.Table.from_batches(decoder.decode(batches), schema=decoder.schema)

    def _slices_near(self, offset: int) -> list[SegmentSlice]:
        """Plan from the first segments at an offset on; nothing where that is unsure.

        They do where the log is long: one request says which segments those are.
        """
        try:
            segments = self._catalog.seek(self.partition, offset)
        except NotFoundError:
            return []
        if overlaps(segments) or not segments or segments[0].start_offset > offset:
            return []
        return self._slices(segments, offset, bounds_of(segments).end, skip_gaps=False)

    def _slices(
        self,
        segments: Sequence[SegmentMetadata],
        start: int,
        stop: int,
        *,
        skip_gaps: bool,
    ) -> list[SegmentSlice]:
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
                segments,
                start,
                stop,
                skip_gaps=skip_gaps,
                place=self.storage.store.url,
            )
        ]

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
            name=f"{self.storage.name_of(segment)}: offset index",
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
            have it, or the log ends before the slice does.
        CorruptIndexError: The offset index led past the slice's first offset.
        CorruptObjectError: The log is shorter than it was listed.
    """
    reached = part.start_offset
    for batch in _segment_batches(
        storage, part.segment, part.start_position, part.end_position
    ):
        header = batch.header
        if header.position == part.start_position > 0:
            _check_index(storage, part, header.base_offset)
        _check_place(batch, part.segment)
        if header.base_offset >= part.end_offset:
            return
        reached = max(reached, header.last_offset + 1)
        if header.last_offset < part.start_offset:
            continue
        _check_epoch(batch, part)
        yield batch._replace(first_offset=part.start_offset, end_offset=part.end_offset)
    if reached < part.end_offset and not _is_cleaned(storage, part.segment):
        msg = (
            f"{storage.name_of(part.segment)}: the log ends before offset {reached}, "
            f"the segment at {part.segment.end_offset}"
        )
        raise CorruptBatchError(msg)


def _segment_batches(
    storage: RemoteStorageManager,
    segment: SegmentMetadata,
    start: int = 0,
    until: int | None = None,
) -> Iterator[LogBatch]:
    return read_batches(
        lambda begin, end: storage.fetch_log_segment(segment, begin, end),
        segment.size or 0,
        name=storage.name_of(segment),
        start=start,
        until=until,
    )


def _is_cleaned(storage: RemoteStorageManager, segment: SegmentMetadata) -> bool:
    """Tell whether a cleaner may have removed the last batches of a segment.

    Either the store says so, or the log shows it: a broker writes without holes.
    """
    if storage.is_compacted(segment.partition):
        return True
    following = segment.start_offset
    for batch in _segment_batches(storage, segment):
        header = batch.header
        written = header.last_offset - header.base_offset + 1
        if header.base_offset != following or header.record_count != written:
            return True
        following = header.last_offset + 1
    return False


def _check_index(
    storage: RemoteStorageManager, part: SegmentSlice, base_offset: int
) -> None:
    if base_offset > part.start_offset:
        msg = (
            f"{storage.name_of(part.segment)}: the offset index says that offset "
            f"{part.start_offset} is at position {part.start_position}, where "
            f"{base_offset} is"
        )
        raise CorruptIndexError(msg)


def _check_place(batch: LogBatch, segment: SegmentMetadata) -> None:
    header = batch.header
    if (
        header.base_offset < segment.start_offset
        or segment.end_offset is None
        or header.last_offset > segment.end_offset
    ):
        msg = (
            f"{batch.where}: the offsets {header.base_offset} to {header.last_offset} "
            "are not those of the segment"
        )
        raise CorruptBatchError(msg)


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
