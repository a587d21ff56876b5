"""One state of a partition, and its batches as they lie in the log.

A broker that serves a tier, and a server of Kafka's protocol, pass batches on as they
are: nothing is decoded. What they need besides is what a leader of Kafka's knows of its
log: where it begins and ends, up to where it is stable, which epochs it has, and which
transactions were aborted.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from tieredfs.errors import (
    CorruptDataError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.fetch.block_reader import BlockReader
from tieredfs.fetch.window import LogRange
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.index.txn import AbortedTransaction
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.tiles import lineage_of
from tieredfs.log.read.aborts import AbortedBatches
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.log.read.remaining_slices import RemainingSlices
from tieredfs.log.read.slice_batches import check_current, filter_slice
from tieredfs.model import EpochEntry, SegmentMetadata
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.storage.segment_log.stream import LogFetch, split_log

__all__ = ["PartitionView", "RawBatches"]

_MAX_PLACES: Final = 64
"""Offsets whose positions are known: where readers have stopped."""


@dataclass(frozen=True, slots=True)
class RawBatches:
    """Whole record batches, as they lie in the log.

    Attributes:
        parts: Their bytes, one after the other; each part has whole batches.
        next_offset: Where to read on. It is past every batch, and past offsets that the
            cleaner has emptied.
        is_transactional: Whether one of them was written in a transaction: only then
            may its records have been aborted.
    """

    parts: tuple[memoryview, ...]
    next_offset: int
    is_transactional: bool

    @property
    def size(self) -> int:
        """Bytes of the batches."""
        return sum(map(len, self.parts))


class PartitionView:
    """One state of a partition, as it was when it was listed.

    Attributes:
        lineage: The leader epochs, each with its first offset.
    """

    def __init__(
        self,
        reader: TieredReader,
        segments: Sequence[SegmentMetadata],
        blocks: BlockReader,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make a view of segments that were listed just now.

        Args:
            reader: Reads the partition.
            segments: Its segments, as ``reader.segments()`` returned them.
            blocks: Reads the logs, of the same storage.
            clock: Returns a time in seconds that only grows.
        """
        self._reader = reader.keeping_indexes()
        self._segments = segments
        self._blocks = blocks
        self._clock = clock
        self._listed_at = clock()
        self._bounds = bounds_of(segments)
        self.lineage = lineage_of(segments)
        self._stable_offset: int | None = None
        self._lock = make_lock()
        self._places: dict[int, RemainingSlices] = {}
        self._aborts_lock = make_lock()
        self._stable_lock = make_lock()

    def __repr__(self) -> str:
        """Show the partition and its offsets."""
        held = f"[{self.beginning}, {self.end})"
        return f"PartitionView({str(self._reader.partition)!r}, {held})"

    @property
    def beginning(self) -> int:
        """First offset."""
        return self._bounds.beginning

    @property
    def end(self) -> int:
        """End (exclusive), which Kafka calls the high watermark."""
        return self._bounds.end

    @property
    def age(self) -> float:
        """Seconds since the partition was listed."""
        return self._clock() - self._listed_at

    @property
    def stable_offset(self) -> int:
        """Offset up to which every transaction has ended; it is asked for once.

        Raises:
            NotFoundError: The last segment is gone.
            CorruptDataError: Its producer snapshot is corrupt.
        """
        with self._stable_lock:
            if self._stable_offset is None:
                self._stable_offset = self._reader.stable_offset(self._segments)
            return self._stable_offset

    def epoch_end(self, epoch: int) -> EpochEntry | None:
        """Return where an epoch ends: see ``LeaderEpochs.end_of``."""
        return self.lineage.end_of(epoch, self.end)

    def aborted(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that touch the offsets ``[start, end)``.

        Each index is fetched once, however often this is called.

        Raises:
            OffsetOutOfRangeError: ``start`` is outside the log.
            NotFoundError: A segment is gone.
            CorruptDataError: An index is corrupt, or a transaction may end in a gap.
        """
        self._reader.check_inside(self._bounds, start)
        stop = min(end, self.end)
        if start >= stop:
            return ()
        slices = self._reader.slices_to_gap(self._segments, start)
        aborts = AbortedBatches(
            self._reader.storage, slices, self._segments_from, skip_gaps=False
        )
        with self._aborts_lock:  # else two callers might fetch the same index
            return aborts.transactions(start, stop)

    def read(
        self,
        offset: int,
        max_bytes: int,
        *,
        min_one_message: bool = True,
        below: int | None = None,
    ) -> RawBatches:
        """Return the batches from an offset on, whole, and usually at least one.

        The first one contains the offset, and may begin before it. Control batches are
        among them. While these are waited for and used, the next blocks are fetched.

        Args:
            offset: First offset that is wanted.
            max_bytes: Maximum bytes of the batches.
            min_one_message: Whether the first one is returned, however large it is:
                without that a reader may not proceed. Kafka has it so for the first
                partition of a fetch that has anything.
            below: Offset from which on no batch may reach, such as the last stable one;
                None for the end of the log.

        Returns:
            The batches; none at the end of the log, or where the next one reaches
            ``below`` or is too large. They end before one that is damaged or cannot be
            fetched, which is an error if it is the first.

        Raises:
            OffsetOutOfRangeError: ``offset`` is outside the log.
            NotFoundError: A segment is gone.
            CorruptDataError: The first batch is corrupt, or ``offset`` is in a gap.
            UnsupportedFormatError: The first batch is of an unsupported format.
            StorageUnavailableError: The store failed until the deadline, too many
                fetches are waiting, or the broker has replaced the segment: this needs
                a new view.
            DeadlineExceededError: The batches did not come in time; another call has
                them when they come.
        """
        self._reader.check_inside(self._bounds, offset)
        stop = self.end if below is None else min(below, self.end)
        if offset >= stop:
            return RawBatches((), offset, is_transactional=False)
        found = _Collected(offset, max_bytes, stop, min_one_message=min_one_message)
        left = self._left_from(offset)
        is_whole = True
        try:
            while left and not found.is_full:
                left = found.add(self._batches(left), left)
        except TieredFSError as error:
            if isinstance(error, (CorruptDataError, UnsupportedFormatError)):
                self._blocks.forget(left.first.segment)
            if not found.parts:
                raise
            is_whole = False  # the next call meets the error first
        if left and is_whole:  # else the log has ended, or what follows is an error
            with self._lock:
                self._places[found.next_offset] = left
                if len(self._places) > _MAX_PLACES:
                    del self._places[next(iter(self._places))]
        return found.result()

    def _segments_from(self, offset: int) -> Iterator[SegmentMetadata]:
        return (segment for segment in self._segments if end_of(segment) > offset)

    def _left_from(self, offset: int) -> RemainingSlices:
        """Return what there is to read, from where a reader has stopped if it has."""
        with self._lock:
            known = self._places.get(offset)
        if known is not None:
            return known
        slices = self._reader.slices_to_gap(self._segments, offset)
        return RemainingSlices(slices)

    def _batches(self, left: RemainingSlices) -> Iterator[LogBatches]:
        """Yield the checked batches of the first slice left, from its blocks."""
        part = left.first
        segment, size = part.segment, part.segment.size or 0
        storage = self._reader.storage

        def rest_of_block(start: int, _: int) -> memoryview:
            # Before this block is waited for: else the window would be a block shorter.
            self._blocks.prefetch(_ranges(left, start))
            data = self._blocks.read(segment, start)
            check_current(storage, segment)
            return data

        pieces = LogFetch(
            rest_of_block,
            size,
            start=part.start_position,
            fetch_size=size,  # each piece is the rest of a block
        )
        name = storage.name_of(part.segment)
        batches = split_log(pieces, name=name, after=part.previous_offset)
        return filter_slice(batches, part, storage)


class _Collected:
    """The batches of a read, as far as they are wanted.

    Attributes:
        parts: Their bytes.
        next_offset: Where to read on.
        is_full: Whether no more are wanted.
    """

    def __init__(
        self, offset: int, max_bytes: int, stop: int, *, min_one_message: bool
    ) -> None:
        self.parts: list[memoryview] = []
        self.next_offset = offset
        self.is_full = False
        self._left = max_bytes
        self._stop = stop
        self._min_one_message = min_one_message
        self._is_transactional = False

    def add(
        self, batches: Iterable[LogBatches], left: RemainingSlices
    ) -> RemainingSlices:
        """Take batches of the first slice that is left, and return what is left."""
        rest = left
        for found in batches:
            count = self._fitting(found)
            taken = found.take(slice(count))
            valid = taken.count_valid()
            if valid:
                taken = taken.take(slice(valid))
                self._take(taken)
                rest = left.after(taken)
            if valid < count:
                found.take([valid]).check()  # raises the error
            if count < len(found):
                self.is_full = True
            if self.is_full:
                return rest
        self.next_offset = max(self.next_offset, left.first.end_offset)
        self.is_full = self.next_offset >= self._stop
        return left.after_first()

    def result(self) -> RawBatches:
        """Return what was taken."""
        return RawBatches(tuple(self.parts), self.next_offset, self._is_transactional)

    def _fitting(self, batches: LogBatches) -> int:
        """Return how many of the batches are wanted."""
        sizes = np.cumsum(batches["size"])
        fits = (sizes <= self._left) & (batches["last_offset"] < self._stop)
        if self._min_one_message and not self.parts:
            fits[0] = batches["last_offset"][0] < self._stop
        return len(fits) if fits.all() else int(fits.argmin())

    def _take(self, batches: LogBatches) -> None:
        first, last = batches.table[0], batches.table[-1]
        data = batches.buffer[int(first["end"] - first["size"]) : int(last["end"])]
        self.parts.append(data)
        self._left -= len(data)
        self.next_offset = int(last["last_offset"]) + 1
        self._is_transactional |= bool(batches.is_transactional.any())
        self.is_full = self._left <= 0 or self.next_offset >= self._stop


def _ranges(left: RemainingSlices, start: int) -> Iterator[LogRange]:
    """Yield what is left to read, from a position in the first slice on."""
    for part in left:
        yield LogRange(part.segment, start, max(start, part.end_position))
        break
    for part in islice(left, 1, None):
        yield LogRange(part.segment, part.start_position, part.end_position)
