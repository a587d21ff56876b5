"""Read the planned slices of a partition's segments."""

from collections.abc import Container, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.errors import (
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    NotFoundError,
    OffsetOutOfRangeError,
    StorageUnavailableError,
)
from tieredfs.format.batch.header import CONTROL
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.compression.codecs import MAX_DECOMPRESSED
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.integers import to_integer
from tieredfs.log.planning.catalog import SegmentCatalog, SegmentContent
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.planning.positions import locate, offset_index
from tieredfs.log.planning.tiles import (
    SegmentSlice,
    check_one_state,
    check_served,
    deciding_ends,
    lineage_of,
    log_end,
    overlaps,
    tile,
)
from tieredfs.log.read.fetched import Fetched
from tieredfs.log.read.segment_fetch import SegmentFetch
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.stream import FETCH_SIZE, read_log

__all__ = ["Bounds", "TieredReader", "bounds_of", "changed_error", "read_slice"]


@dataclass(frozen=True, slots=True)
class Bounds:
    """The offsets ``[beginning, end)`` of a partition."""

    beginning: int
    end: int


class TieredReader:
    """Read one partition's log.

    Attributes:
        storage: Where the segments are.
        partition: The partition.
        max_batch_bytes: Most bytes that a compressed batch may decompress to.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        catalog: SegmentCatalog,
        partition: TopicIdPartition,
        max_batch_bytes: int = MAX_DECOMPRESSED,
    ) -> None:
        """Create a reader, without sending a request."""
        self.storage = storage
        self.partition = partition
        self.max_batch_bytes = max_batch_bytes
        self._catalog = catalog

    def segments(
        self, *, without: Container[SegmentContent] = frozenset()
    ) -> list[SegmentMetadata]:
        """Return the segments with their end offsets, and their epochs if they overlap.

        Args:
            without: Segments to leave out, as if they did not exist.

        Raises:
            NotFoundError: There is no such partition.
            CorruptDataError: A segment is inconsistent with its indexes.
        """
        found = self._catalog.segments(self.partition, without=without)
        if overlaps(found) or self._catalog.may_part(found):
            found = self._catalog.full_segments(self.partition, without=without)
        return self._with_checked_ends(found)

    def timed_segments(self) -> list[SegmentMetadata]:
        """Return the segments with their end offsets and largest timestamps as well."""
        found = self._catalog.timed_segments(self.partition)
        if overlaps(found) or self._catalog.may_part(found):
            found = self._catalog.full_segments(self.partition)
        return self._with_checked_ends(found)

    def bounds(self) -> Bounds:
        """Return the first offset and the end (exclusive) of the log."""
        return bounds_of(self.segments())

    def tiles(
        self,
        segments: Sequence[SegmentMetadata],
        start: int,
        end: int,
        *,
        skip_gaps: bool = False,
    ) -> list[Tile]:
        """Determine which segment serves which of the offsets ``[start, end)``.

        Args:
            segments: The partition's segments, as ``segments`` returned them.
            start: First offset.
            end: End (exclusive).
            skip_gaps: Whether to leave out offsets that no segment has, and to read
                several states of a compacted log.

        Raises:
            CorruptDataError: No segment has an offset, or the segments are not one
                state of the log, and ``skip_gaps`` is false.
        """
        place, compare = self.storage.store.url, self._catalog.compare
        tiles = tile(
            segments, start, end, skip_gaps=skip_gaps, compare=compare, place=place
        )
        if not skip_gaps and overlaps(segments):
            # Also against later offsets, which another call may read.
            last = log_end(segments)
            rest = tile(
                segments, end, last, skip_gaps=True, compare=compare, place=place
            )
            check_one_state(segments, [*tiles, *rest], compare=compare, place=place)
        return tiles

    def served_tiles(self, segments: Sequence[SegmentMetadata]) -> list[Tile]:
        """Determine which segment serves which offset of the whole log.

        Only offsets that no segment has are left out.

        Args:
            segments: The partition's segments, as ``segments`` returned them.

        Raises:
            CorruptDataError: A segment has an offset that no tile serves, or the
                segments are not one state of the log.
        """
        place, compare = self.storage.store.url, self._catalog.compare
        held = bounds_of(segments)
        tiles = self.tiles(segments, held.beginning, held.end, skip_gaps=True)
        check_served(segments, tiles, held.end, place=place)
        check_one_state(segments, tiles, compare=compare, place=place)
        return tiles

    def slices(
        self, start: int | None, end: int | None, *, skip_gaps: bool = False
    ) -> list[SegmentSlice]:
        """Plan the reading of the offsets ``[start, end)``.

        Args:
            start: First offset; None for the beginning of the log.
            end: End (exclusive); None, or anything past it, for the end of the log.
            skip_gaps: Whether offsets that no segment has are left out.

        Raises:
            OffsetOutOfRangeError: ``start`` is outside the log.
            CorruptDataError: No segment has an offset, and ``skip_gaps`` is false.
            CorruptIndexError: An index that is needed is malformed.
        """
        segments = self.segments()
        held = bounds_of(segments)
        first = held.beginning if start is None else start
        if not held.beginning <= first <= held.end:
            msg = (
                f"{self.storage.store.url}: {self.partition}: offset {first} is "
                f"out of range; the partition holds [{held.beginning}, {held.end})"
            )
            raise OffsetOutOfRangeError(msg)
        stop = held.end if end is None else min(end, held.end)
        return self.slices_of(segments, first, stop, skip_gaps=skip_gaps)

    def slices_of(
        self,
        segments: Sequence[SegmentMetadata],
        start: int,
        stop: int,
        *,
        skip_gaps: bool = False,
    ) -> list[SegmentSlice]:
        """Plan the reading of offsets ``[start, stop)`` that are inside the log.

        Args:
            segments: The partition's segments, as ``segments`` returned them.
            start: First offset.
            stop: End (exclusive).
            skip_gaps: Whether offsets that no segment has are left out.

        Raises:
            CorruptDataError: No segment has an offset, and ``skip_gaps`` is false.
            CorruptIndexError: An index that is needed is malformed.
        """
        lineage = lineage_of(segments)
        return [
            SegmentSlice(
                segment,
                begin,
                finish,
                *locate(self.storage, segment, begin, finish),
                lineage,
            )
            for segment, begin, finish in self.tiles(
                segments, start, stop, skip_gaps=skip_gaps
            )
        ]

    def _with_checked_ends(
        self, segments: list[SegmentMetadata]
    ) -> list[SegmentMetadata]:
        """Return the segments, after checking deciding end offsets in their logs."""
        self._catalog.confirm(
            [
                segment
                for segment in deciding_ends(segments)
                if not self.storage.is_end_checked(segment)
            ],
            self._check_end,
        )
        return segments

    def _check_end(self, segment: SegmentMetadata) -> None:
        """Check that the last batch of a segment's log ends at its end offset."""
        index = offset_index(self.storage, segment)
        last = index.entry(-1) if len(index) else index.lookup(segment.start_offset)
        end = (segment.end_offset or 0) + 1
        size = segment.size or 0
        part = SegmentSlice(
            segment, last.offset, end, last.position, size, LeaderEpochs()
        )
        for _ in read_slice(self.storage, part):
            pass

    def read(self, offset: SupportsIndex, max_bytes: SupportsIndex) -> Fetched:
        """Fetch as Kafka does: from ``offset`` on, about ``max_bytes``.

        Batches without a wanted record are skipped, however many there are, in requests
        of bounded size: the result is empty only at the end of the log.

        Args:
            offset: First offset wanted; records below it are dropped.
            max_bytes: Stored bytes of the batches to return; the first batch with a
                wanted record is returned whole, however large it is.

        Returns:
            The records, which are empty at the end of the log, and the next offset.

        Raises:
            OffsetOutOfRangeError: ``offset`` is outside the log.
            InvalidArgumentError: An argument is not an integer.
        """
        first, most = to_integer(offset, "offset"), to_integer(max_bytes, "max_bytes")
        near = self._read(self._slices_near(first), first, most)
        if len(near):
            return near
        first = near.next_offset
        return self._read(self.slices(first, None), first, most)

    def _read(
        self, slices: Iterable[SegmentSlice], offset: int, max_bytes: int
    ) -> Fetched:
        topic, number = self.partition.topic, self.partition.partition
        decoder = RecordDecoder(topic, number, None, self.max_batch_bytes)
        batches = _Within(self, slices, offset, max_bytes)
        decoded = decoder.decode(batches)
        records = pa.Table.from_batches(decoded, schema=decoder.schema)
        return Fetched(records, batches.next_offset)

    def _slices_near(self, offset: int) -> list[SegmentSlice]:
        """Plan from the first segments at an offset on; return nothing if unsure.

        For a long log it is enough: one request lists those segments.
        """
        try:
            segments = self._catalog.seek(self.partition, offset)
        except NotFoundError:
            return []
        if overlaps(segments) or not segments or segments[0].start_offset > offset:
            return []
        return self.slices_of(segments, offset, bounds_of(segments).end)


class _Within:
    """The batches of slices up to a size; at least one has a wanted record.

    Attributes:
        next_offset: One past the last offset that the batches so far cover.
    """

    def __init__(
        self,
        reader: TieredReader,
        slices: Iterable[SegmentSlice],
        offset: int,
        max_bytes: int,
    ) -> None:
        """Create the iterable, without sending a request."""
        self.next_offset = offset
        self._storage = reader.storage
        self._decoder = RecordDecoder("", 0, ("offset",), reader.max_batch_bytes)
        self._slices = slices
        self._max_bytes = max(max_bytes, 1)

    def __iter__(self) -> Iterator[LogBatches]:
        """Fetch the batches, control batches left out."""
        taken, most = 0, self._max_bytes
        for part in self._slices:
            near = min(part.start_position + most - taken, part.end_position)
            for batches in read_slice(self._storage, replace(part, end_position=near)):
                sizes = batches["size"] * _hold_wanted(batches, self._decoder)
                ends = taken + np.cumsum(sizes)
                # The first with a wanted record is returned, however large it is.
                count = int(np.count_nonzero((ends <= most) | (ends == sizes)))
                if count:
                    last = int(batches["last_offset"][count - 1])
                    self.next_offset = min(last + 1, part.end_offset)
                    taken = int(ends[count - 1])
                    yield batches.take(slice(count)).without_control()
                if taken >= most or count < len(batches):
                    return
            self.next_offset = part.end_offset


def _hold_wanted(batches: LogBatches, decoder: RecordDecoder) -> npt.NDArray[np.bool_]:
    """Return which batches have a wanted record other than control records.

    The header of a batch that extends beyond the wanted offsets does not show at which
    offsets the cleaner has left records: such a batch is decoded.
    """
    base, last = batches["base_offset"], batches["last_offset"]
    count = batches["record_count"]
    holding: npt.NDArray[np.bool_] = (count > 0) & (
        batches["attributes"] & CONTROL == 0
    )
    reaching = (base < batches.first_offset) | (last > batches.end_offset - 1)
    for row in np.flatnonzero(holding & reaching & (count <= last - base)):
        decoded = decoder.decode([batches.take([row])])
        holding[row] = any(records.num_rows for records in decoded)
    return holding


def bounds_of(segments: Sequence[SegmentMetadata]) -> Bounds:
    """Return the bounds of segments that are sorted and whose end offsets are known."""
    beginning = segments[0].start_offset if segments else 0
    return Bounds(beginning, max(beginning, log_end(segments)))


def read_slice(
    storage: RemoteStorageManager,
    part: SegmentSlice,
    fetch_size: int = FETCH_SIZE,
    source: SegmentFetch | None = None,
) -> Iterator[LogBatches]:
    """Yield the checked batches of a slice, including control batches.

    The first and the last may extend beyond the slice's offsets, as their offsets show.

    Args:
        storage: Where the segment is.
        part: The slice.
        fetch_size: Bytes of each request.
        source: Fetches the log, and may hold the beginning of the slice; None for a new
            one.

    Raises:
        CorruptBatchError: A batch is malformed, or inconsistent with its segment and
            lineage, or the log ends before the slice does.
        CorruptIndexError: The offset index led past the slice's first offset.
        CorruptObjectError: The log is shorter than it was listed.
        StorageUnavailableError: The broker has replaced the log since it was listed, or
            is replacing what follows it.
    """
    try:
        reached = yield from _read_checked(
            storage,
            part,
            fetch_size,
            SegmentFetch(storage) if source is None else source,
        )
    except CorruptDataError as error:
        if storage.is_current(part.segment):
            raise
        raise changed_error(storage, part.segment) from error
    is_whole = reached >= part.end_offset
    if not storage.is_current(part.segment, None if is_whole else reached - 1):
        raise changed_error(storage, part.segment)
    if not is_whole and not _is_cleaned(storage, part.segment):
        msg = (
            f"{storage.name_of(part.segment)}: the log ends before offset {reached}, "
            f"the segment at {part.segment.end_offset}"
        )
        raise CorruptBatchError(msg)


def _read_checked(
    storage: RemoteStorageManager,
    part: SegmentSlice,
    fetch_size: int,
    source: SegmentFetch,
) -> Generator[LogBatches, None, int]:
    """Yield the batches of a slice, and return the offset at which the log ends."""
    reached, segment_end = part.start_offset, part.segment.end_offset
    for batches in read_log(
        source.fetch,
        part.segment.size or 0,
        name=storage.name_of(part.segment),
        start=part.start_position,
        until=part.end_position,
        fetch_size=fetch_size,
        after=part.previous_offset,
        held=source.begin(part.segment, part.start_position),
    ):
        is_first = batches["position"][0] == part.start_position > 0
        if is_first and part.previous_offset < 0:
            _check_index(storage, part, int(batches["base_offset"][0]))
        # The batch after the slice is checked as well.
        last = part.end_offset - 1  # an end may exceed int64
        inside = int(np.searchsorted(batches["base_offset"], last, side="right"))
        strays = np.flatnonzero(_strays(batches.take(slice(inside + 1)), part.segment))
        held = batches.take(slice(inside))
        skipped = int(np.searchsorted(held["last_offset"], part.start_offset))
        held.take(slice(skipped)).check()
        wanted = held.take(slice(skipped, int(strays[0]) if strays.size else inside))
        wanted = wanted.within(part.start_offset, part.end_offset)
        others = np.flatnonzero(~_of_lineage(wanted, part))
        if others.size:
            yield wanted.take(slice(int(others[0])))
            raise _wrong_epoch(wanted, int(others[0]), part)
        if len(wanted):
            yield wanted
        if strays.size:
            batches.take([strays[0]]).check()
            raise _stray(batches, int(strays[0]), part.segment)
        if inside < len(batches):
            return part.end_offset
        reached = max(reached, int(batches["last_offset"][-1]) + 1)
        # After the end of the segment there must be no batch, which is checked.
        if reached >= part.end_offset and part.end_offset <= (segment_end or 0):
            return reached
    return reached


def changed_error(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> StorageUnavailableError:
    """Return the error for a segment whose end may have changed since it was listed."""
    return StorageUnavailableError(
        f"{storage.name_of(segment)}: the broker is replacing this segment or the next "
        "one: read again"
    )


def _is_cleaned(storage: RemoteStorageManager, segment: SegmentMetadata) -> bool:
    """Return whether a cleaner may have removed the last batches of a segment.

    Either the store states it, or the log shows it: a broker writes without holes.
    """
    if storage.is_compacted(segment.partition):
        return True
    following = segment.start_offset
    for batches in read_log(
        lambda begin, end: storage.fetch_log_ahead(segment, begin, end),
        segment.size or 0,
        name=storage.name_of(segment),
    ):
        batches.check()
        base, last = batches["base_offset"], batches["last_offset"]
        whole = batches["record_count"] == last - base + 1
        tiled = base == np.concatenate([[following], last[:-1] + 1])
        if not (whole & tiled).all():
            return True
        following = int(last[-1]) + 1
    return False


def _check_index(
    storage: RemoteStorageManager, part: SegmentSlice, base_offset: int
) -> None:
    if base_offset > part.start_offset:
        msg = (
            f"{storage.name_of(part.segment)}: the offset index has offset "
            f"{part.start_offset} at position {part.start_position}, but the log has "
            f"{base_offset} there"
        )
        raise CorruptIndexError(msg)


def _strays(batches: LogBatches, segment: SegmentMetadata) -> npt.NDArray[np.bool_]:
    """Return which batches have offsets outside their segment."""
    end = -1 if segment.end_offset is None else segment.end_offset
    strays: npt.NDArray[np.bool_] = (batches["base_offset"] < segment.start_offset) | (
        batches["last_offset"] > end
    )
    return strays


def _stray(
    batches: LogBatches, row: int, segment: SegmentMetadata
) -> CorruptBatchError:
    first, last = batches["base_offset"][row], batches["last_offset"][row]
    return CorruptBatchError(
        f"{batches.where(row)}: the offsets {first} to {last} are outside the "
        f"segment, {segment.start_offset} to {segment.end_offset}"
    )


def _of_lineage(batches: LogBatches, part: SegmentSlice) -> npt.NDArray[np.bool_]:
    """Return which batches were written under the lineage's epoch at their offset."""
    offsets = np.maximum(batches["base_offset"], part.start_offset)
    return part.lineage.accepts_each(batches["leader_epoch"], offsets)


def _wrong_epoch(
    batches: LogBatches, row: int, part: SegmentSlice
) -> CorruptBatchError:
    offset = max(int(batches["base_offset"][row]), part.start_offset)
    expected = part.lineage.epoch_at(offset)
    return CorruptBatchError(
        f"{batches.where(row)}: leader epoch {batches['leader_epoch'][row]} at offset "
        f"{offset}, where the lineage has "
        f"{'none' if expected == NO_EPOCH else expected}"
    )
