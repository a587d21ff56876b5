"""Plan the reads of a partition, and fetch as Kafka's consumer does."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import SupportsIndex

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import CorruptIndexError, NotFoundError, OffsetOutOfRangeError
from tieredfs.integers import to_integer
from tieredfs.log.planning.catalog import Known, SegmentCatalog, SegmentContent
from tieredfs.log.planning.columns import end_of, overlaps
from tieredfs.log.planning.index_keeper import IndexKeeper
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.planning.positions import locate, offset_index
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.slice_run import slice_tiles
from tieredfs.log.planning.stable_offset import stable_offset
from tieredfs.log.planning.tiles import (
    check_one_state,
    check_served,
    deciding_ends,
    gaps,
    lineage_of,
    log_end,
    tile,
)
from tieredfs.log.planning.unlisted_ends import describe_last
from tieredfs.log.read.aborts import AbortedBatches
from tieredfs.log.read.fetch import Fetched, fetch_records
from tieredfs.log.read.pipeline import read_slice
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.nested_calls import NestedCalls
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = ["Bounds", "TieredReader", "bounds_of"]


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
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        catalog: SegmentCatalog,
        partition: TopicIdPartition,
    ) -> None:
        """Create a reader, without sending a request."""
        self.storage = storage
        self.partition = partition
        self._catalog = catalog

    @property
    def calls(self) -> NestedCalls:
        """Makes the requests of all partitions of a tier, a few at a time."""
        return self._catalog.calls

    def keeping_indexes(self) -> "TieredReader":
        """Return a reader that fetches no index twice, to make one plan with."""
        storage = IndexKeeper(self.storage)
        return TieredReader(storage, self._catalog, self.partition)

    def __repr__(self) -> str:
        """Show the partition and its storage, without secrets."""
        return f"TieredReader({str(self.partition)!r}, {self.storage!r})"

    def segments(
        self,
        *,
        timed: bool = False,
        without: Collection[SegmentContent] = frozenset(),
    ) -> Sequence[SegmentMetadata]:
        """Return the segments with their end offsets, and their epochs if they overlap.

        They are listed once.

        Args:
            timed: Whether their largest timestamps are needed as well.
            without: Segments to leave out, as if they did not exist.

        Raises:
            NotFoundError: There is no such partition, or a listed segment is gone.
            CorruptDataError: A segment is inconsistent with its indexes.
        """
        listed = self._catalog.listed(self.partition, without=without)
        return self._completed(listed, Known.TIMES if timed else Known.ENDS)

    def _completed(
        self, listed: Sequence[SegmentMetadata], known: Known
    ) -> Sequence[SegmentMetadata]:
        found = self._catalog.complete(listed, known)
        if overlaps(found) or self._catalog.may_diverge(found):
            found = self._catalog.complete(found, Known.ALL)
        return self._with_checked_ends(found)

    def stored_sizes(
        self, segments: Sequence[SegmentMetadata]
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes that segments take in the store, with their indexes.

        They are listed again only if their listing did not contain that.

        Args:
            segments: The partition's segments, as ``segments`` returned them.

        Returns:
            Bytes by start offset and id; segments whose size is not known are left out.

        Raises:
            NotFoundError: There is no such partition.
        """
        sizes: dict[tuple[int, SegmentId], int] = {}
        for one in segments:
            if one.stored_size is None:
                return self.storage.stored_sizes(self.partition)
            sizes[one.start_offset, one.id] = one.stored_size
        return sizes

    def beginning(self) -> int:
        """Return the first offset of the log; 0 if it is empty.

        Of a long log one page is listed, and what follows is taken to begin later.

        Raises:
            NotFoundError: There is no such partition.
        """
        return self._catalog.first_offset(self.partition)

    def end(self) -> int:
        """Return the end (exclusive) of the log; 0 if it is empty.

        Of a long log the last page is listed, where the layout can search for it. Where
        a listing does not contain ends, of a long log only those segments are described
        that may end last: see ``unlisted_ends``.

        Raises:
            NotFoundError: As in ``segments``.
            CorruptDataError: As in ``segments``.
        """
        return bounds_of(self._last_segments()).end

    def stable_offset(self, segments: Sequence[SegmentMetadata] | None = None) -> int:
        """Return the offset up to which every transaction has ended: KIP-98.

        It is the end of the log if no transaction is open there, and may be before the
        beginning of the log. Of a long log the last page is listed, as by ``end``.

        Args:
            segments: The partition's segments, as ``segments`` returned them, where
                they are known; otherwise they are listed.

        Raises:
            NotFoundError: As in ``segments``.
            CorruptDataError: As in ``segments``, or a producer snapshot is corrupt.
        """
        last = self._last_segments() if segments is None else segments
        return stable_offset(self.storage, last)

    def _last_segments(self) -> Sequence[SegmentMetadata]:
        """Return at least the segments in which the log ends."""
        last = self._catalog.last(self.partition)
        if last is not None:
            return self._with_checked_ends(last)
        listed = self._catalog.listed(self.partition)
        catalog = self._catalog
        last = describe_last(listed, catalog.describe_all, catalog.histories)
        return last or self._completed(listed, Known.ENDS)

    def segments_from(self, offset: int) -> Iterator[SegmentMetadata]:
        """Yield the segments that end at ``offset`` or later, a page at a time.

        Their end offsets are known and, where those of a page overlap, their epochs.

        Raises:
            NotFoundError: A listed segment is gone.
            CorruptDataError: A segment is inconsistent with its indexes.
        """
        pages = Capability.PLAN_FROM_LISTING in self.storage.capabilities
        while True:
            try:
                listed = self.storage.seek(self.partition, offset)
            except NotFoundError:
                return
            found = self._catalog.complete(listed, Known.ENDS)
            if overlaps(found) or self._catalog.may_diverge(found):
                found = self._catalog.complete(found, Known.ALL)
            following = [one for one in found if end_of(one) > offset]
            yield from following
            if not (pages and following):
                return
            offset = max(map(end_of, following))

    def segments_holding(self, offset: int) -> Sequence[SegmentMetadata]:
        """Return at least the segments that have an offset, or later ones.

        Only those are listed where the layout can search for them, as long as the
        segments were of one history when all were last listed: another one may end
        before the offset. All are, if the log has no such offset.

        Raises:
            NotFoundError: There is no such partition, or a listed segment is gone.
            CorruptDataError: A segment is inconsistent with its indexes.
        """
        listed = self._catalog.listed_holding(self.partition, offset)
        return self._completed(listed, Known.ENDS)

    def bounds(self) -> Bounds:
        """Return the first offset and the end (exclusive) of the log.

        Raises:
            NotFoundError: As in ``segments``.
            CorruptDataError: As in ``segments``.
        """
        return bounds_of(self.segments())

    def tiles(
        self,
        segments: Sequence[SegmentMetadata],
        start: int,
        end: int,
        *,
        skip_gaps: bool = False,
    ) -> Sequence[Tile]:
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
        url, compare = self.storage.store.url, self._catalog.compare
        tiles = tile(
            segments, start, end, skip_gaps=skip_gaps, compare=compare, url=url
        )
        if not skip_gaps and overlaps(segments):
            # Also against later offsets, which another call may read.
            last = log_end(segments)
            rest = tile(segments, end, last, skip_gaps=True, compare=compare, url=url)
            check_one_state(segments, [*tiles, *rest], compare=compare, url=url)
        return tiles

    def served_tiles(self, segments: Sequence[SegmentMetadata]) -> Sequence[Tile]:
        """Determine which segment serves which offset of the whole log.

        Only offsets that no segment has are left out.

        Args:
            segments: The partition's segments, as ``segments`` returned them.

        Raises:
            CorruptDataError: A segment has an offset that no tile serves, or the
                segments are not one state of the log.
        """
        url, compare = self.storage.store.url, self._catalog.compare
        held = bounds_of(segments)
        tiles = self.tiles(segments, held.beginning, held.end, skip_gaps=True)
        check_served(segments, tiles, held.end, url=url)
        check_one_state(segments, tiles, compare=compare, url=url)
        return tiles

    def slices(
        self, start: int | None, end: int | None, *, skip_gaps: bool = False
    ) -> Sequence[SegmentSlice]:
        """List the segments, and plan the reading of the offsets ``[start, end)``.

        Args:
            start: First offset; None for the beginning of the log.
            end: End (exclusive); None, or anything past it, for the end of the log.
            skip_gaps: Whether offsets that no segment has are left out.

        Raises:
            NotFoundError: There is no such partition, or a listed segment is gone.
            OffsetOutOfRangeError: ``start`` is outside the log, or ``end`` is negative.
            CorruptDataError: No segment has an offset, and ``skip_gaps`` is false.
            CorruptIndexError: An index that is needed is malformed.
        """
        return self.checked_slices(self.segments(), start, end, skip_gaps=skip_gaps)

    def checked_slices(
        self,
        segments: Sequence[SegmentMetadata],
        start: int | None,
        end: int | None,
        *,
        skip_gaps: bool = False,
        below: int | None = None,
    ) -> Sequence[SegmentSlice]:
        """Plan the reading of the offsets ``[start, end)``, which may end too late.

        Args:
            segments: The partition's segments, as ``segments`` returned them.
            start: First offset; None for the beginning of the log.
            end: End (exclusive); None, or anything past it, for the end of the log.
            skip_gaps: Whether offsets that no segment has are left out.
            below: The last stable offset, if only committed records are read: what
                begins at it or later is empty.

        Raises:
            NotFoundError: A listed segment is gone.
            OffsetOutOfRangeError: ``start`` is outside the log, or ``end`` is negative.
            CorruptDataError: No segment has an offset, and ``skip_gaps`` is false.
            CorruptIndexError: An index that is needed is malformed.
        """
        held = bounds_of(segments)
        first = held.beginning if start is None else start
        self.check_inside(held, first)
        if end is not None and end < 0:
            self.check_inside(held, end)
        stop = held.end if end is None else min(end, held.end)
        if below is not None and below < stop:
            stop = below
            if stop <= first:
                return ()
        return self.slices_between(segments, first, stop, skip_gaps=skip_gaps)

    def check_inside(self, held: Bounds, offset: int) -> None:
        """Raise OffsetOutOfRangeError if an offset is outside the log, end included."""
        if not held.beginning <= offset <= held.end:
            msg = (
                f"{self.storage.store.url}: {self.partition}: offset {offset} is "
                f"out of range; the partition holds [{held.beginning}, {held.end})"
            )
            raise OffsetOutOfRangeError(msg)

    def slices_between(
        self,
        segments: Sequence[SegmentMetadata],
        start: int,
        stop: int,
        *,
        skip_gaps: bool = False,
        located: bool = True,
    ) -> Sequence[SegmentSlice]:
        """Plan the reading of offsets ``[start, stop)`` that are inside the log.

        Args:
            segments: The partition's segments, as ``segments`` returned them.
            start: First offset.
            stop: End (exclusive).
            skip_gaps: Whether offsets that no segment has are left out. A segment
                whose index goes on behind the end of its log is read whole then.
            located: Whether to look up the positions of ``start`` and ``stop``: without
                them no index is fetched, and ``locate_edges`` does it later.

        Raises:
            CorruptDataError: No segment has an offset, and ``skip_gaps`` is false.
            CorruptIndexError: An index that is needed is malformed, and ``skip_gaps``
                is false.
        """

        def place(tile: Tile) -> tuple[int, int]:
            whole = 0, tile.segment.size or 0
            if not located:
                return whole
            try:
                return locate(self.storage, *tile)
            except CorruptIndexError:
                if not skip_gaps:
                    raise
                return whole

        lineage = lineage_of(segments)
        tiles = self.tiles(segments, start, stop, skip_gaps=skip_gaps)
        return slice_tiles(tiles, place, lineage)

    def _with_checked_ends(
        self, segments: Sequence[SegmentMetadata]
    ) -> Sequence[SegmentMetadata]:
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
        self.storage.note_checked_end(segment)

    def read(
        self,
        offset: SupportsIndex,
        max_bytes: SupportsIndex,
        *,
        min_one_message: bool = True,
        committed: bool = False,
        segments: Sequence[SegmentMetadata] | None = None,
    ) -> Fetched:
        """Fetch as Kafka does: from ``offset`` on, about ``max_bytes``.

        Batches without a wanted record are skipped, however many there are, in requests
        of bounded size: the result is empty only at the end of the log, or because the
        first wanted batch is too large.

        Args:
            offset: First offset wanted; records below it are dropped.
            max_bytes: Stored bytes of the batches to return.
            min_one_message: Whether the first batch with a wanted record is returned,
                however large it is: a consumer that fetches several partitions together
                asks that of one of them.
            committed: Whether to return only records below the last stable offset, and
                none of an aborted transaction.
            segments: The partition's segments, as ``segments`` returned them, where
                they are known; otherwise they are listed.

        Returns:
            The records, which may be empty, and the next offset.

        Raises:
            OffsetOutOfRangeError: ``offset`` is outside the log.
            CorruptDataError: The next record may be in a gap, or the log is corrupt.
            InvalidArgumentError: An argument is not an integer, or ``max_bytes`` is
                negative.
        """
        first = to_integer(offset, "offset")
        most = to_integer(max_bytes, "max_bytes", minimum=0)
        below = self.stable_offset(segments) if committed else None

        def fetch(slices: Sequence[SegmentSlice]) -> Fetched:
            return self._fetch(
                slices, first, most, below, min_one_message=min_one_message
            )

        if segments is None:
            near = self._slices_near(first, most)
            found = fetch(near)
            if len(found) or _is_before(found.next_offset, near, below):
                return found
            first, segments = found.next_offset, self.segments()
        held = bounds_of(segments)
        self.check_inside(held, first)
        slices = self.slices_to_gap(segments, first)
        found = fetch(slices)
        end = held.end if below is None else min(held.end, below)
        if (
            not len(found)
            and slices
            and slices[-1].end_offset < end
            and not _is_before(found.next_offset, slices, below)
        ):
            self.tiles(segments, found.next_offset, end)  # raises for the gap
        return found

    def _fetch(
        self,
        slices: Sequence[SegmentSlice],
        offset: int,
        max_bytes: int,
        below: int | None,
        *,
        min_one_message: bool,
    ) -> Fetched:
        """Fetch records of slices; of those below an offset, only committed ones."""
        aborts = None
        if below is not None:
            slices = [
                replace(part, end_offset=min(part.end_offset, below))
                for part in slices
                if part.start_offset < below
            ]
            if slices:
                aborts = AbortedBatches(
                    self.storage, slices, self.segments_from, skip_gaps=False
                )
        return fetch_records(
            self.storage,
            self.partition,
            slices,
            offset,
            max_bytes,
            aborts,
            min_one_message=min_one_message,
        )

    def _slices_near(self, offset: int, max_bytes: int) -> Sequence[SegmentSlice]:
        """Plan from the first segments at an offset on; return nothing if unsure.

        For a long log it is enough: one request lists those segments.
        """
        try:
            segments = self._catalog.seek(self.partition, offset, max_bytes)
        except NotFoundError:
            return []
        if overlaps(segments) or not segments or segments[0].start_offset > offset:
            return []
        return self.slices_to_gap(segments, offset)

    def slices_to_gap(
        self, segments: Sequence[SegmentMetadata], start: int
    ) -> Sequence[SegmentSlice]:
        """Plan from an offset to the next gap, or to the end of the log.

        Args:
            segments: The partition's segments, as ``segments`` returned them.
            start: First offset, inside the log.

        Raises:
            CorruptDataError: ``start`` is in a gap.
        """
        end = bounds_of(segments).end
        found = gaps(self.tiles(segments, start, end, skip_gaps=True), start)
        reached = found[0][0] if found else end
        return self.slices_between(
            segments, start, end if reached == start else reached
        )


def bounds_of(segments: Sequence[SegmentMetadata]) -> Bounds:
    """Return the bounds of segments that are sorted and whose end offsets are known."""
    beginning = segments[0].start_offset if segments else 0
    return Bounds(beginning, max(beginning, log_end(segments)))


def _is_before(offset: int, slices: Sequence[SegmentSlice], below: int | None) -> bool:
    """Return whether slices, of which those below an offset are read, go on there."""
    if not slices:
        return False
    end = slices[-1].end_offset
    return offset < (end if below is None else min(end, below))
