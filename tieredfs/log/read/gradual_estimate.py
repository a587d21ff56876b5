"""Predict the requests of a read for about the first few records, in growing steps.

How many records a step brings is known only once it is read: compaction leaves holes,
and control records are hidden. So there are two predictions: what is sent if every
offset has a record, and what is sent at most, if the read goes on to the end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import accumulate, islice, repeat
from typing import Final

from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.positions import offset_index
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.estimate import count_check, estimate_check, estimate_reads
from tieredfs.log.read.partition_read import (
    MAX_WHOLE_SLICE_BYTES,
    WIDENING,
    max_kept_bytes,
)
from tieredfs.log.read.planning_storage import PlanningStorage
from tieredfs.log.read.slice_batches import fetch_slice
from tieredfs.objects import RequestCounter, RequestCounts
from tieredfs.storage import RemoteStorageManager

__all__ = ["are_all", "estimate_first", "estimate_steps"]

_MAX_SLACK_BYTES: Final = 1 << 20
"""How far the position of an offset in the index may be past its batch."""

_MAX_REFETCHES: Final = 2
"""Fetches of what is left of a step's last fetch, which is less than one and a chunk,
where it is not kept.
"""


def are_all(records: int, slices: Iterable[SegmentSlice]) -> bool:
    """Return whether slices have fewer offsets than some number of records.

    Each step then reads a slice whole, and the read goes on to the end.
    """
    offsets = 0
    for part in slices:
        offsets += part.end_offset - part.start_offset
        if offsets >= records:
            return False
    return True


def estimate_first(
    storage: RemoteStorageManager,
    slices: Iterable[SegmentSlice],
    records: int,
    fetch_size: int,
) -> RequestCounts:
    """Predict the requests for the first records, if every offset has a record.

    All steps but the last one then read a slice whole, because each is for more records
    than are needed.

    Args:
        storage: Where the segments are.
        slices: The slices, in the order in which they are read; taken twice, and only
            those of the first records.
        records: Number of records; at least 1.
        fetch_size: Bytes of each request.

    Raises:
        TieredFSError: As in ``estimate_reads``.
    """
    found, whole, left = RequestCounts(), 0, records
    for part, offsets in zip(slices, _steps(records), strict=False):
        count = part.end_offset - part.start_offset
        if offsets < count:
            found = _estimate_step(storage, part, offsets, fetch_size)
            break
        whole, left = whole + 1, left - count
        if left <= 0:
            break
    for one in estimate_reads(storage, islice(slices, whole), fetch_size):
        found += one.planned
    return found


def estimate_steps(
    storage: RemoteStorageManager, slices: Iterable[SegmentSlice], fetch_size: int
) -> RequestCounts:
    """Return at most what reading in steps sends besides reading slices whole.

    It is that of the smallest steps, for one record: larger ones send less, but no
    caller should find that more records cost less.

    A step ends inside a slice only while it has fewer offsets than the slice. There are
    few such steps, each in one of as many first slices: each step grows, and none goes
    beyond its slice.

    Args:
        storage: Where the segments are.
        slices: The slices, in the order in which they are read; taken are the first.
        fetch_size: Bytes of each request.

    Raises:
        TieredFSError: As in ``estimate_reads``.
    """
    found, longest, step = RequestCounts(), 0, RequestCounts()
    rest = iter(slices)
    for offsets in _steps(1):
        part = next(rest, None)
        count = 0 if part is None else part.end_offset - part.start_offset
        if part is not None and offsets < count:
            cost = _estimate_end(storage, part, fetch_size)
            if cost is not None:
                longest, step = max(longest, count), step | cost.each
                found += cost.once
        if offsets < longest:
            found += step
    return found


def _steps(records: int) -> Iterator[int]:
    """Yield the number of offsets of each step, up to those of any slice."""
    for offsets in accumulate(repeat(WIDENING), int.__mul__, initial=records):
        yield offsets
        if offsets > MAX_INT64:
            return


def _estimate_step(
    storage: RemoteStorageManager, part: SegmentSlice, offsets: int, fetch_size: int
) -> RequestCounts:
    """Predict the requests of a step for the first offsets of a slice.

    Where the index is not asked for, the log's bytes are assumed to be spread evenly
    over the offsets: to ask for it might spare the read a request.
    """
    counter = RequestCounter()
    cut, needed = part, part.end_position
    if part.size > MAX_WHOLE_SLICE_BYTES:
        index = offset_index(storage.with_observer(counter), part.segment)
        end = index.end_position(part.start_offset + offsets)
        if end is not None and end < part.end_position:
            cut = replace(part, end_position=max(end, part.start_position))
            needed = cut.end_position
    else:
        count = part.end_offset - part.start_offset
        needed = part.start_position - (-part.size * offsets // count)
    planning = PlanningStorage(storage)
    planned = planning.plan(fetch_slice(planning, cut, fetch_size), needed)
    found = counter.counts + planned.requests
    if planned.end >= part.end_position:
        check = count_check(storage, part.segment)
        found += estimate_check(planning, part, check, pauses=True)[0]
    return found


@dataclass(frozen=True, slots=True)
class _EndCost:
    """What it costs that steps end inside a slice.

    Attributes:
        each: The requests that each of them adds.
        once: What is added once: the bytes that the last fetch may bring besides, and
            a request to check the segment, which a read does not send after one for
            the index, as here.
    """

    each: RequestCounts
    once: RequestCounts


def _estimate_end(
    storage: RemoteStorageManager, part: SegmentSlice, fetch_size: int
) -> _EndCost | None:
    """Return at most what it costs that steps end inside a slice; None for nothing.

    A step begins with what is left of the last fetch before it, so no byte of the log
    is fetched twice, and all that a step adds is that its last fetch is a short one,
    where the index has cut the slice, and that the next one asks whether the log is
    still the same. Only what is too much to keep is fetched again.
    """
    is_cut = part.size > MAX_WHOLE_SLICE_BYTES
    planning = PlanningStorage(storage)
    planned = planning.plan(fetch_slice(planning, part, fetch_size), part.end_position)
    cost = planning.fetch_cost(part.segment)
    max_kept = max_kept_bytes(storage)
    is_kept = _max_left(part, cost.chunk, fetch_size) <= max_kept
    if is_kept and not is_cut:
        return None
    # A step that ends where the index has cut the slice ends with a batch.
    each = cost.requests + count_check(storage, part.segment)
    once = planning.overshoot(part.segment)
    if is_cut:
        asked = _count_index(storage, part)
        each, once = each + asked, once + asked
    if not is_kept:
        again = RequestCounts(size=planned.max_size)
        each += (cost.requests + again) * min(planned.count, _MAX_REFETCHES)
    return _EndCost(each, once)


def _max_left(part: SegmentSlice, chunk: int, fetch_size: int) -> int:
    """Return the most bytes that a step may leave of its last fetch."""
    most = fetch_size
    if chunk > 1:  # a fetch begins and ends with a chunk
        most = max(most, 2 * chunk + _MAX_SLACK_BYTES)
    return min(most, part.segment.size or 0)


def _count_index(storage: RemoteStorageManager, part: SegmentSlice) -> RequestCounts:
    """Return what a read sends for an index: nothing if it is now cached."""
    sent = RequestCounts()
    for _ in range(2):
        counter = RequestCounter()
        offset_index(storage.with_observer(counter), part.segment)
        sent = counter.counts
        if not sent.requests:
            break
    return sent
