"""Plan a read while segments are being deleted."""

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

from tieredfs.errors import NotFoundError, OffsetOutOfRangeError
from tieredfs.log.planning.catalog import SegmentContent
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.reader import TieredReader, bounds_of

__all__ = ["plan_all", "plan_despite_deletes", "plan_present", "plan_remaining"]

_T = TypeVar("_T")


def plan_despite_deletes(
    plan: Callable[[TieredReader], _T], reader: TieredReader
) -> _T:
    """Return the result of ``plan``; plan again if segments were deleted meanwhile.

    Args:
        plan: Lists the segments and fetches what the listing does not contain.
        reader: The partition that is planned.

    Raises:
        NotFoundError: There is no such partition, or a listed segment does not exist.
        OffsetOutOfRangeError: From ``plan``, as any other error.
    """
    before = None
    while True:
        try:
            return plan(reader)
        except OffsetOutOfRangeError:
            raise
        except NotFoundError:
            listed = reader.storage.list_segments(reader.partition)
            if listed == before:
                raise
            before = listed


def plan_all(
    plan: Callable[[TieredReader], _T], readers: Sequence[TieredReader]
) -> list[_T]:
    """Return the result of ``plan`` for each partition.

    They are planned concurrently, and again if segments were deleted meanwhile.

    Args:
        plan: Lists the segments and fetches what the listing does not contain.
        readers: The partitions, of one tier.

    Raises:
        TieredFSError: The error of the first partition that could not be planned.
    """
    each = partial(plan_despite_deletes, plan)
    return readers[0].calls.map(each, readers) if readers else []


def plan_remaining(
    plan: Callable[[TieredReader], _T], readers: Sequence[TieredReader]
) -> list[_T | None]:
    """Return what ``plan_all`` does, with None for partitions that were deleted.

    Args:
        plan: Lists the segments and fetches what the listing does not contain.
        readers: The partitions, of one tier.

    Raises:
        TieredFSError: The error of the first partition that is there, and could not be
            planned.
    """

    def each(reader: TieredReader) -> _T | None:
        try:
            return plan_despite_deletes(plan, reader)
        except OffsetOutOfRangeError:
            raise
        except NotFoundError:
            partition = reader.partition
            if partition in reader.storage.list_partitions(partition.topic):
                raise
            return None

    return readers[0].calls.map(each, readers) if readers else []


def plan_present(
    reader: TieredReader,
    start: int,
    end: int,
    *,
    without: Collection[SegmentContent] = frozenset(),
    skip_gaps: bool = True,
) -> Sequence[SegmentSlice]:
    """Plan the reading of those of the offsets ``[start, end)`` that exist.

    Args:
        reader: The partition.
        start: First offset; the log may begin after it.
        end: End (exclusive); the log may end before it.
        without: Segments that do not exist, although a listing may contain them.
        skip_gaps: Whether offsets that no segment has are left out.

    Raises:
        NotFoundError: There is no such partition, or a listed segment does not exist.
        CorruptIndexError: An index that is needed is malformed.
        CorruptDataError: No segment has an offset inside the log, or the segments are
            not one state of it, and ``skip_gaps`` is false.
        OffsetOutOfRangeError: The log does not have all of the offsets, and
            ``skip_gaps`` is false.
    """

    def plan(reader: TieredReader) -> Sequence[SegmentSlice]:
        segments = reader.segments(without=without)
        held = bounds_of(segments)
        if not skip_gaps:
            reader.check_inside(held, start)
            reader.check_inside(held, end)
        first, stop = max(start, held.beginning), min(end, held.end)
        if first >= stop:
            return []
        return reader.slices_between(segments, first, stop, skip_gaps=skip_gaps)

    return plan_despite_deletes(plan, reader)
