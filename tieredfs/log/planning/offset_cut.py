"""Cut the slices of a partition at offsets, and look up their positions later.

A plan for other machines needs no position: a slice that begins inside a segment reads
it from its beginning, until ``locate_edges`` has looked up where its offsets are.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tieredfs.errors import CorruptIndexError, NotFoundError
from tieredfs.format.buffers import Int64Array
from tieredfs.log.planning.positions import locate
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.slice_run import SliceRun
from tieredfs.storage import RemoteStorageManager

__all__ = ["cut_each", "cut_slices", "late_slices", "locate_edges"]


def cut_slices(
    slices: Sequence[SegmentSlice], start: int, end: int
) -> Sequence[SegmentSlice]:
    """Return what some slices have of the offsets ``[start, end)``.

    Args:
        slices: The slices of one partition, in offset order.
        start: First offset.
        end: End (exclusive).
    """
    (cut,) = cut_each(slices, [(start, end)])
    return cut


def cut_each(
    slices: Sequence[SegmentSlice], ranges: Iterable[tuple[int, int]]
) -> Iterator[Sequence[SegmentSlice]]:
    """Yield what some slices have of each of several ranges of offsets.

    Args:
        slices: The slices of one partition, in offset order.
        ranges: The first offset of each range, and its end (exclusive).
    """
    starts, ends = _bounds_of(slices)
    for start, end in ranges:
        first = int(np.searchsorted(ends, start, side="right"))
        stop = int(np.searchsorted(starts, end, side="left"))
        if start >= end or first >= stop:
            yield ()
        else:
            yield _with_edges(slices[first:stop], partial(_within, start, end))


def _within(start: int, end: int, part: SegmentSlice) -> SegmentSlice:
    return replace(
        part,
        start_offset=max(part.start_offset, start),
        end_offset=min(part.end_offset, end),
    )


def locate_edges(
    storage: RemoteStorageManager, slices: Sequence[SegmentSlice], *, skip_gaps: bool
) -> Sequence[SegmentSlice]:
    """Look up where slices begin and end in the logs of which they are a part.

    Args:
        storage: Where the segments are.
        slices: The slices of one partition, of whole segments but for the first and the
            last.
        skip_gaps: Whether a segment whose index is malformed is read whole.

    Returns:
        The slices; one whose segment is gone is as it was, since its reader finds what
        has replaced it.

    Raises:
        CorruptIndexError: An index is malformed, and ``skip_gaps`` is false.
    """

    def located(part: SegmentSlice) -> SegmentSlice:
        segment, start, end = part.segment, part.start_offset, part.end_offset
        try:
            first, last = locate(storage, segment, start, end)
        except NotFoundError:
            return part
        except CorruptIndexError:
            if not skip_gaps:
                raise
            return part
        return replace(part, start_position=first, end_position=last)

    return _with_edges(slices, located)


def late_slices(
    slices: Sequence[SegmentSlice], timestamp: int
) -> list[Sequence[SegmentSlice]]:
    """Return the runs of neighbouring slices that may have a record so late.

    Args:
        slices: The slices of one partition, in offset order; a segment whose largest
            timestamp is not known is kept.
        timestamp: Milliseconds since 1970 UTC.
    """
    if isinstance(slices, SliceRun):
        late = slices.table.max_timestamps_ms >= timestamp
    else:
        latest = (part.segment.max_timestamp_ms for part in slices)
        late = np.array([at is None or at >= timestamp for at in latest], np.bool_)
    changes = np.flatnonzero(np.diff(late, prepend=False, append=False))
    bounds = changes.reshape(-1, 2).tolist()
    return [slices[first:stop] for first, stop in bounds]


def _bounds_of(slices: Sequence[SegmentSlice]) -> tuple[Int64Array, Int64Array]:
    """Return the first offset and the end of each slice."""
    if isinstance(slices, SliceRun):
        starts, ends = slices.table.start_offsets.copy(), slices.table.end_offsets + 1
        starts[0], ends[-1] = slices.start_offset, slices.end_offset
        return starts, ends
    count = len(slices)
    return (
        np.fromiter((part.start_offset for part in slices), np.int64, count),
        np.fromiter((part.end_offset for part in slices), np.int64, count),
    )


def _with_edges(
    slices: Sequence[SegmentSlice], change: Callable[[SegmentSlice], SegmentSlice]
) -> Sequence[SegmentSlice]:
    """Return slices, at least one, of which the first and the last are changed."""
    if not isinstance(slices, SliceRun):
        edges = {0, len(slices) - 1}
        return tuple(
            change(part) if row in edges else part for row, part in enumerate(slices)
        )
    first = change(slices[0])
    last = first if len(slices) == 1 else change(slices[-1])
    return replace(
        slices,
        start_offset=first.start_offset,
        start_position=first.start_position,
        end_offset=last.end_offset,
        end_position=last.end_position,
    )
