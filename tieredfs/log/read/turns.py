"""Read several partitions in turn, and download what the next turns need meanwhile."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from tieredfs.fetch import LogRange, RemoteLogFetcher
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.partition_read import PartitionRead

__all__ = ["turns"]

_PLANNED_TURNS: Final = 5
"""Number of turns whose downloads may begin: that which is read, and a few after it."""

_Turn = tuple[PartitionRead, Iterator[SegmentSlice]]


def turns(reads: Sequence[PartitionRead], fetcher: RemoteLogFetcher) -> Iterator[_Turn]:
    """Yield each partition's turns, of about one request, until all have been read.

    What a turn asks for first is known when the partition's turn before it has ended:
    it is downloaded while others have theirs. What is downloaded is bounded by the
    fetcher, whatever the number of partitions. The last partition is read to its end.

    Args:
        reads: What to read of each partition.
        fetcher: Downloads what the turns need.

    Yields:
        A read, and the slices of its turn, which are to be read before the next turn.
    """
    if reads and reads[0].storage.store.is_local:
        yield from _without_downloads(reads)
        return
    if len(reads) == 1:
        yield reads[0], reads[0].slices()
        return
    upcoming, waiting = _Upcoming(), deque(reads)
    planned: deque[int] = deque()
    logs = fetcher.fetch(upcoming)
    while waiting:
        for read in islice(waiting, len(planned), _PLANNED_TURNS):
            ranges = read.turn_ranges()
            upcoming.ranges.extend(ranges)
            planned.append(len(ranges))
        read = waiting.popleft()
        mine = islice(logs, planned.popleft())
        yield read, read.turn(mine)
        for _ in mine:  # not needed after all: its segment was gone
            pass
        if waiting and not read.is_done:
            waiting.append(read)
        elif not read.is_done:
            yield read, read.slices()


def _without_downloads(reads: Iterable[PartitionRead]) -> Iterator[_Turn]:
    """Yield each partition's turns on this machine, where a thread costs too much."""
    left = list(reads)
    while left:
        for read in left:
            yield read, read.turn(iter(()))
        left = [read for read in left if not read.is_done]


class _Upcoming:
    """The parts of logs that the planned turns ask for first.

    Attributes:
        ranges: Those that the fetcher has not taken; more may be added at any time.
    """

    def __init__(self) -> None:
        self.ranges: deque[LogRange] = deque()

    def __iter__(self) -> Iterator[LogRange]:
        return self

    def __next__(self) -> LogRange:
        """Return the next one; there may be another one after there was none."""
        try:
            return self.ranges.popleft()
        except IndexError:
            raise StopIteration from None
