"""Plan from what is there, although segments are deleted meanwhile."""

from collections.abc import Callable, Container
from typing import TypeVar

from tieredfs.errors import NotFoundError, OffsetOutOfRangeError
from tieredfs.log.planning.catalog import SegmentContent
from tieredfs.log.planning.tiles import SegmentSlice
from tieredfs.log.read.reader import TieredReader, bounds_of

__all__ = ["plan_despite_deletes", "plan_present"]

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
