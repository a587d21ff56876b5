"""The batches of one partition in a plan, read to the end or in turns.

Retention deletes segments at any time, and a plan may be hours old when it is read. If
gaps are skipped, the rest is then planned again from a new listing: offsets that
another segment has are read, and the others are left out.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tieredfs.errors import CorruptBatchError, NotFoundError
from tieredfs.format.batch.reader import claimed_size
from tieredfs.format.batch.table import LogBatches
from tieredfs.log.planning.catalog import SegmentCatalog, SegmentContent, content_of
from tieredfs.log.planning.positions import offset_index
from tieredfs.log.planning.tiles import SegmentSlice
from tieredfs.log.read.reader import TieredReader, read_slice
from tieredfs.log.read.replan import plan_present
from tieredfs.log.read.segment_fetch import HeldBytes, SegmentFetch
from tieredfs.storage import RemoteStorageManager

__all__ = ["PartitionRead"]

_SMALL = 1 << 20
"""Bytes of a slice up to which it is fetched whole instead of its index."""


class PartitionRead:
    """Read the slices of one partition in offset order.

    Between two turns only the next offset is held and, up to a limit for all partitions
    together, the rest of the last fetch. So any number of partitions can be read in
    turn in the memory of one.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        slices: Iterable[SegmentSlice],
        *,
        fetch_size: int,
        skip_deleted: bool,
        max_batch_bytes: int,
        held: HeldBytes,
    ) -> None:
        """Create a read, without sending a request.

        Args:
            storage: Where the segments are.
            slices: The slices to read; at least one.
            fetch_size: Bytes of each request.
            skip_deleted: Whether to read the rest when a segment is gone.
            max_batch_bytes: Most bytes that a compressed batch may decompress to.
            held: Limit of what may be kept between turns.
        """
        self._storage = storage
        self._left = deque(slices)
        self.partition = self._left[0].segment.partition
        self._fetch_size = fetch_size
        self._skip_deleted = skip_deleted
        self._max_batch_bytes = max_batch_bytes
        self._source = SegmentFetch(storage, held)
        self._gone: set[SegmentContent] = set()

    @property
    def is_done(self) -> bool:
        """Whether everything has been read."""
        return not self._left

    def next_batches(self, offsets: int) -> Iterator[LogBatches]:
        """Yield the batches that contain the next offsets, fetching little more.

        The offset index gives the position where they end; a small slice is read whole.

        Args:
            offsets: Number of offsets; fewer are read where their segment ends.

        Raises:
            NotFoundError: As in ``batches``.
            CorruptDataError: As in ``batches``.
        """
        part = self._left[0]
        until = min(part.start_offset + offsets, part.end_offset)
        try:
            for found in self._read(self._cut(part, until)):
                yield found
                if until <= self._left[0].start_offset < part.end_offset:
                    self._source.keep(self._left[0].start_position)
                    return
        except NotFoundError as error:
            self._plan_again(error)

    def batches(self, *, one_turn: bool = False) -> Iterator[LogBatches]:
        """Yield the remaining batches, or those that one request fetches.

        Args:
            one_turn: Whether to end before a second request, unless a batch needs it or
                the first one reached the end of a short segment.

        Raises:
            NotFoundError: A segment is gone and deleted segments are not skipped; or
                every segment is gone: this may not be the store that was planned.
            CorruptDataError: The stored data is corrupt.
        """
        taken = 0
        while self._left:
            part = self._left[0]
            try:
                for found in self._read(part):
                    taken += int(found["size"].sum())
                    yield found
                    has_more = self._left[0].start_offset < part.end_offset
                    if one_turn and has_more and self._is_last_of_fetch(found.name):
                        self._source.keep(self._left[0].start_position)
                        return
            except NotFoundError as error:
                self._plan_again(error)
            if one_turn and taken >= self._fetch_size:
                return

    def _read(self, part: SegmentSlice) -> Iterator[LogBatches]:
        """Yield the batches of the first slice; store the next offset after each."""
        whole = self._left[0]
        for found in read_slice(self._storage, part, self._fetch_size, self._source):
            if len(found):  # an error follows an empty one
                self._left[0] = whole.remaining_after(found)
                yield found
        self._left.popleft()
        self._source.drop()

    def _cut(self, part: SegmentSlice, until: int) -> SegmentSlice:
        """Return a slice whose requests extend to an offset, and not much further."""
        if until == part.end_offset or part.size <= _SMALL:
            return part
        end = offset_index(self._storage, part.segment).end_position(until)
        if end is None or end >= part.end_position:
            return part
        return replace(part, end_position=max(end, part.start_position))

    def _is_last_of_fetch(self, name: str) -> bool:
        """Return whether no whole batch is left in the last fetch."""
        rest = self._source.rest(self._left[0].start_position)
        try:
            size = claimed_size(rest, 0, name=name)
        except CorruptBatchError:  # raised when it is read
            return False
        return size is None or size > len(rest)

    def _plan_again(self, error: NotFoundError) -> None:
        """Plan the rest again when a segment is gone.

        Raises:
            NotFoundError: Deleted segments are not skipped, or all segments are gone.
        """
        if not self._skip_deleted:
            raise error
        first = self._left[0]
        self._gone.add(content_of(first.segment))
        catalog = SegmentCatalog(self._storage, self._max_batch_bytes)
        reader = TieredReader(self._storage, catalog, self.partition)
        start, end = first.start_offset, self._left[-1].end_offset
        try:
            self._left = deque(plan_present(reader, start, end, without=self._gone))
        except NotFoundError:
            if not self._storage.list_partitions():
                raise error from None
            self._left.clear()  # the others exist: this one was deleted
