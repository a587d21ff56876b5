"""Read what is there of a plan although segments are deleted meanwhile.

Retention deletes segments at any time: between a listing and the requests that plan
from it, and between a plan and the reading of it, which in Spark may be hours. What is
left of a partition's plan is then made again from a new listing, so records are read
that another segment holds, and left out only where none does.
"""

from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TypeVar

from tieredfs.errors import NotFoundError, OffsetOutOfRangeError
from tieredfs.format.log_batches import LogBatches
from tieredfs.log.catalog import SegmentCatalog, SegmentContent, content_of
from tieredfs.log.plan import SegmentSlice
from tieredfs.log.reader import TieredReader, bounds_of, read_slice
from tieredfs.model import TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["plan_despite_deletes", "plan_present", "read_present"]

_T = TypeVar("_T")


def plan_despite_deletes(reader: TieredReader, plan: Callable[[], _T]) -> _T:
    """Return what ``plan`` gives; plan again if segments were deleted meanwhile.

    Args:
        reader: The partition that is planned.
        plan: Lists the segments and asks for what the listing does not say.

    Raises:
        NotFoundError: There is no such partition, or what is listed is not there.
        OffsetOutOfRangeError: From ``plan``, as any other error.
    """
    before = None
    while True:
        try:
            return plan()
        except OffsetOutOfRangeError:
            raise
        except NotFoundError:
            listed = reader.storage.list_segments(reader.partition)
            if listed == before:
                raise
            before = listed


def plan_present(
    reader: TieredReader,
    start: int,
    end: int,
    *,
    without: Container[SegmentContent] = frozenset(),
) -> list[SegmentSlice]:
    """Plan the reading of those of the offsets ``[start, end)`` that are there.

    Args:
        reader: The partition.
        start: First offset; the log may begin after it.
        end: End (exclusive); the log may end before it.
        without: Segments that are not there, though a listing may have them.

    Raises:
        NotFoundError: There is no such partition, or what is listed is not there.
        CorruptIndexError: An index that is needed is malformed.
    """

    def plan() -> list[SegmentSlice]:
        segments = reader.segments(without=without)
        held = bounds_of(segments)
        first, stop = max(start, held.beginning), min(end, held.end)
        if first >= stop:
            return []
        return reader.slices_of(segments, first, stop, skip_gaps=True)

    return plan_despite_deletes(reader, plan)


def read_present(
    storage: RemoteStorageManager, slices: Sequence[SegmentSlice]
) -> Iterator[LogBatches]:
    """Yield the batches of slices as ``read_slice`` does, without those that are gone.

    Args:
        storage: Where the segments are.
        slices: Of one partition, in offset order.

    Raises:
        NotFoundError: A segment is gone, and so is everything else: this may not be the
            store that the plan was made from.
        CorruptDataError: What is there is not what it should be.
    """
    left = deque(slices)
    gone: set[SegmentContent] = set()
    while left:
        part = left[0]
        reached, end = part.start_offset, left[-1].end_offset
        try:
            for batches in read_slice(storage, part):
                reached = min(int(batches["last_offset"][-1]) + 1, part.end_offset)
                yield batches
        except NotFoundError as error:
            gone.add(content_of(part.segment))
            partition = part.segment.partition
            left = deque(_plan_rest(storage, partition, reached, end, gone, error))
        else:
            left.popleft()


def _plan_rest(
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    start: int,
    end: int,
    gone: Container[SegmentContent],
    error: NotFoundError,
) -> list[SegmentSlice]:
    """Plan again what was not read when a segment turned out to be gone."""
    reader = TieredReader(storage, SegmentCatalog(storage), partition)
    try:
        return plan_present(reader, start, end, without=gone)
    except NotFoundError:
        if storage.list_partitions():  # the others are there: this one is deleted
            return []
        raise error from None
