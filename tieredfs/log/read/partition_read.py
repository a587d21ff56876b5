"""What is left to read of one partition, all of it or in turns.

Retention deletes segments at any time, compaction and another upload replace them, and
a plan may be hours old when it is read. The rest is then planned again from a new
listing: offsets that another segment has are read. The others are an error, or are left
out if gaps are skipped.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    DeadlineExceededError,
    NotFoundError,
    OffsetOutOfRangeError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.fetch import FetchedLog, LogRange, RemoteLogFetcher
from tieredfs.format.batch.reader import claimed_size
from tieredfs.format.batch.table import LogBatches
from tieredfs.log.planning.catalog import SegmentCatalog, SegmentContent, content_of
from tieredfs.log.planning.positions import offset_index
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.aborts import AbortedBatches
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.remaining_slices import RemainingSlices
from tieredfs.log.read.replan import plan_present
from tieredfs.log.read.slice_batches import (
    fetch_slice,
    first_request,
    is_cut_short,
)
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.stream import LogFetch, request_end

__all__ = [
    "MAX_WHOLE_SLICE_BYTES",
    "WIDENING",
    "HeldBytes",
    "PartitionRead",
    "max_kept_bytes",
]

MAX_WHOLE_SLICE_BYTES: Final = 1 << 20
"""Maximum bytes of a slice that is fetched whole instead of its index."""

WIDENING: Final = 4
"""By how much each fetch of ``read_gradually`` covers more offsets than the last."""

_NOTHING = memoryview(b"")


def max_kept_bytes(storage: RemoteStorageManager) -> int:
    """Return how many bytes all partitions together may keep between their turns."""
    return 2 * storage.store.options.fetch_bytes


class HeldBytes:
    """A limit on the bytes that several partitions may hold together."""

    def __init__(self, limit: int) -> None:
        """Start with no bytes held.

        Args:
            limit: Maximum number of bytes.
        """
        self._free = limit

    def take(self, count: int) -> bool:
        """Count some bytes as held; False if that would be too many."""
        if count > self._free:
            return False
        self._free -= count
        return True

    def release(self, count: int) -> None:
        """Count some bytes as no longer held."""
        self._free += count


class PartitionRead:
    """The slices of one partition that are left to read, in offset order.

    ``read_records`` takes the slices, fetches them through this object, and passes the
    batches through ``follow``, which notes how far they have been read. Between two
    turns only the next offset is held and, up to a limit for all partitions together,
    the rest of the last fetch. So any number of partitions can be read in turn in the
    memory of one.

    Attributes:
        storage: Where the segments are.
        partition: The partition.
        is_begun_small: Whether the first request was for few bytes.
    """

    def __init__(  # noqa: PLR0913 - what a scan was asked for, by keyword
        self,
        storage: RemoteStorageManager,
        slices: Sequence[SegmentSlice],
        *,
        fetch_size: int,
        skip_deleted: bool,
        committed: bool,
        held: HeldBytes,
        fetcher: RemoteLogFetcher,
    ) -> None:
        """Create a read, without sending a request.

        Args:
            storage: Where the segments are.
            slices: The slices to read; at least one.
            fetch_size: Bytes of each request.
            skip_deleted: Whether to read the rest when a segment is gone.
            committed: Whether to leave out the records of aborted transactions; the
                slices end at the last stable offset or before it.
            held: Limit of what may be kept between turns.
            fetcher: Downloads ahead; it downloads for one partition, or for the turns
                of all of them.
        """
        self.storage = storage
        self._left = RemainingSlices(slices)
        self.partition = self._left.first.segment.partition
        self._fetch_size = fetch_size
        self._skip_deleted = skip_deleted
        self._committed = committed
        self._aborts: AbortedBatches | None = None
        self._held = held
        self._gone: set[SegmentContent] = set()
        # The leader epoch and the offset of the last batch that was read.
        self._last_read: tuple[int, int] | None = None
        # What is downloaded ahead.
        self._fetcher = fetcher
        self._downloads: Iterator[FetchedLog] | None = None
        self._downloaded: FetchedLog | None = None
        self._is_begun = self.is_begun_small = False
        # The turn: where it ends, and what it has read.
        self._one_fetch = False
        self._until: int | None = None
        self._taken = 0
        self._is_paused = False
        # The last fetch, and what is kept of it between turns.
        self._pieces: LogFetch | None = None
        self._kept = _NOTHING
        self._kept_of: SegmentSlice | None = None

    @property
    def is_done(self) -> bool:
        """Whether everything has been read."""
        return not self._left

    def slices(self) -> Iterator[SegmentSlice]:
        """Yield what is left of each slice."""
        self._begin_turn(one_fetch=False)
        while self._left and not self._is_paused:
            self._downloaded = self._next_download()
            yield self._left.first

    def turn(self, logs: Iterator[FetchedLog]) -> Iterator[SegmentSlice]:
        """Yield what one request fetches.

        It ends before a second request, unless a batch needs it or the first one
        reached the end of a short segment.

        Args:
            logs: The parts of logs of ``turn_ranges``, which are downloaded ahead; or
                nothing.
        """
        self._begin_turn(one_fetch=True)
        self._is_begun = True
        while self._left and not self._is_paused:
            self._downloaded = log = next(logs, None)
            if log and log.wanted.segment.id != self._left.first.segment.id:
                self._downloaded = None
            yield self._left.first
            if self._taken >= self._fetch_size:
                return

    def turn_ranges(self) -> Sequence[LogRange]:
        """Return what the next turn asks for, as far as it is known before."""
        found: list[LogRange] = []
        size = 0
        for part in self._left:
            start = part.start_position + len(self._kept_for(part))
            if start < part.end_position:
                end = request_end(
                    start, part.end_position, part.segment.size or 0, self._fetch_size
                )
                found.append(LogRange(part.segment, start, end))
                if end < part.end_position:
                    break
            size += part.size
            if size >= self._fetch_size:
                break
        return found

    def _begin_turn(self, *, one_fetch: bool) -> None:
        self._one_fetch, self._until = one_fetch, None
        self._taken, self._is_paused = 0, False

    def _next_download(self) -> FetchedLog | None:
        """Return the first slice as it is downloaded; None if it is not worth it.

        On this machine a thread for each segment costs more than it saves.
        """
        if self.storage.store.is_local:
            return None
        if self._downloads is None:
            first = self._first_request()
            if first is None and self._is_one_request:
                return None  # it is needed now
            self._downloads = self._fetcher.fetch(self._ranges(first))
        return next(self._downloads, None)

    @property
    def _is_one_request(self) -> bool:
        return self._left.is_last and self._left.first.size <= self._fetch_size

    def _first_request(self) -> int | None:
        """Return the bytes of the first request, if it is to ask for few."""
        if self._is_begun:
            return None
        self._is_begun = True
        first = first_request(self.storage, self._left.first, self._fetch_size)
        self.is_begun_small = first is not None
        return first

    def _ranges(self, first_bytes: int | None) -> Iterator[LogRange]:
        """Yield what is to be downloaded; of the first log few bytes at first."""
        for part in self._left:
            start = part.start_position + len(self._kept_for(part))
            yield LogRange(part.segment, start, part.end_position, first_bytes)
            first_bytes = None

    def next_slice(self, offsets: int) -> Iterator[SegmentSlice]:
        """Yield a slice with the next offsets, of which little more is fetched.

        The offset index gives the position where they end; a small slice is read whole.

        Args:
            offsets: Number of offsets; fewer are read where their segment ends.
        """
        part = self._left.first
        self._one_fetch, self._downloaded = False, None
        self._until = min(part.start_offset + offsets, part.end_offset)
        try:
            cut = self._cut(part, self._until)
        except NotFoundError as error:
            self._plan_again(error)
        else:
            yield cut

    def fetch(self, part: SegmentSlice) -> LogFetch:
        """Fetch the log of a slice, beginning with what is kept of the last turn."""
        held = self._kept_for(part)
        self._drop()
        self._pieces = fetch_slice(
            self.storage, part, self._fetch_size, held, self._downloaded
        )
        return self._pieces

    def _kept_for(self, part: SegmentSlice) -> memoryview:
        """Return what is kept of the last turn, if a slice begins with it."""
        of = self._kept_of
        is_same = of and (of.segment, of.start_position) == (
            part.segment,
            part.start_position,
        )
        return self._kept if is_same else _NOTHING

    def follow(self, batches: Iterable[LogBatches]) -> Iterator[LogBatches]:
        """Yield the batches of the first slice up to the end of the turn.

        After each the rest begins behind it, whether or not the caller continues.

        Args:
            batches: The batches of the slice.

        Raises:
            NotFoundError: A segment is gone, no other one has replaced it, and what is
                gone is not skipped; or every segment is gone: this may not be the store
                that was planned.
            CorruptDataError: The stored data is corrupt.
            StorageUnavailableError: The store failed in all attempts of its policy. The
                message says where to go on, as that of the next one does.
            DeadlineExceededError: The store did not answer in time.
        """
        left = self._left.with_first()
        try:
            for found in batches:
                hidden = self._hidden(found)
                self._left = left.after(found)
                self._last_read = (
                    int(found["leader_epoch"][-1]),
                    int(found["last_offset"][-1]),
                )
                self._taken += int(found["size"].sum())
                yield from found.without(hidden)
                if self._ends_turn(found.name):
                    self._pause()
                    return
            self._left = left.after_first()
            self._drop()
        except NotFoundError as error:
            self._plan_again(error)
        except CorruptDataError:
            is_gap = self._skip_deleted and is_cut_short(self.storage, self._left.first)
            if not is_gap:
                raise
            self._left = self._left.after_first()
            self._drop()
        except (StorageUnavailableError, DeadlineExceededError) as error:
            raise type(error)(self._with_offset(error)) from error

    def _with_offset(self, error: TieredFSError) -> str:
        """Return the message of an error, and where to go on."""
        reached = self._left.first.start_offset
        return f"{error}; {self.partition} was read up to offset {reached}"

    def _has_expired(self) -> bool:
        """Return whether the log begins after what is to be read next."""
        try:
            return self._reader().beginning() > self._left.first.start_offset
        except TieredFSError:  # then the first error is the one to raise
            return False

    def _hidden(self, batches: LogBatches) -> npt.NDArray[np.bool_]:
        """Return for each batch whether it is left out."""
        if not self._committed:
            return batches.is_control
        if self._aborts is None:
            self._aborts = AbortedBatches(
                self.storage,
                self._left,
                self._reader().segments_from,
                skip_gaps=self._skip_deleted,
            )
        return batches.is_control | self._aborts.hidden(batches)

    def _reader(self) -> TieredReader:
        catalog = SegmentCatalog(self.storage)
        return TieredReader(self.storage, catalog, self.partition)

    def _cut(self, part: SegmentSlice, until: int) -> SegmentSlice:
        """Return a slice whose requests extend to an offset, and not much further."""
        if until == part.end_offset or part.size <= MAX_WHOLE_SLICE_BYTES:
            return part
        try:
            end = offset_index(self.storage, part.segment).end_position(until)
        except CorruptIndexError:
            if not self._skip_deleted:
                raise
            return part
        if end is None or end >= part.end_position:
            return part
        return replace(part, end_position=max(end, part.start_position))

    def _ends_turn(self, name: str) -> bool:
        """Return whether the turn ends here, inside a slice."""
        rest = self._left.first
        if rest.start_offset >= rest.end_offset:
            return False
        if self._until is not None:
            return rest.start_offset >= self._until
        return self._one_fetch and self._is_last_of_fetch(name)

    def _is_last_of_fetch(self, name: str) -> bool:
        """Return whether no whole batch is left in the last fetch."""
        rest = self._rest_of_fetch()
        try:
            size = claimed_size(rest, 0, name=name)
        except CorruptBatchError:  # raised when it is read
            return False
        return size is None or size > len(rest)

    def _rest_of_fetch(self) -> memoryview:
        position = self._left.first.start_position
        return self._pieces.rest(position) if self._pieces else _NOTHING

    def _pause(self) -> None:
        """End the turn; keep the rest of the last fetch if the limit allows."""
        rest, part = self._rest_of_fetch(), self._left.first
        self._drop()
        self._is_paused = True
        if self._held.take(len(rest)):
            self._kept = memoryview(bytes(rest))  # a slice would hold the whole fetch
            self._kept_of = part

    def _drop(self) -> None:
        """Release the last fetch and what is kept of it."""
        self._held.release(len(self._kept))
        self._pieces, self._kept, self._kept_of = None, _NOTHING, None

    def _plan_again(self, error: NotFoundError) -> None:
        """Plan the rest again when a segment is gone: another one may replace it.

        Raises:
            OffsetOutOfRangeError: The log begins later now, and what is gone is not
                skipped.
            NotFoundError: What is gone is in no other segment, and is not skipped; or
                all segments are gone.
        """
        first = self._left.first
        self._gone.add(content_of(first.segment))
        reader, self._aborts, self._downloads = self._reader(), None, None
        start, end = first.start_offset, self._left.end_offset
        try:
            present = plan_present(
                reader, start, end, without=self._gone, skip_gaps=self._skip_deleted
            )
            self._check_history(present)
            self._left = RemainingSlices(present)
        except (NotFoundError, CorruptDataError) as again:
            if not self._skip_deleted:
                kind = OffsetOutOfRangeError if self._has_expired() else NotFoundError
                raise kind(self._with_offset(error)) from error
            if not isinstance(again, NotFoundError):
                raise
            if not self.storage.list_partitions():
                raise error from None
            self._left = RemainingSlices(())  # the others exist: this one was deleted

    def _check_history(self, present: Sequence[SegmentSlice]) -> None:
        """Check that the rest follows what was read, as Kafka's followers do.

        Raises:
            CorruptDataError: Another leader has replaced what was read, and gaps are
                not skipped.
        """
        if self._skip_deleted or not present or self._last_read is None:
            return
        segment = present[0].segment
        if segment.leader_epochs is None:
            segment = self.storage.describe(segment)
        if not LeaderEpochs(segment.leader_epochs or ()).accepts(*self._last_read):
            raise CorruptDataError(f"{self.partition} has another history now")
