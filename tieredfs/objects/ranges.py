"""Plan the requests that read several ranges of one object.

Two ranges that are close together cost less in one request than in two: the bytes
between them are moved for nothing, but in less time than a second request would wait.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tieredfs.model import ByteRange

__all__ = ["MAX_MERGED_BYTES", "RangePlan", "plan_ranges"]

MAX_MERGED_BYTES = 16 << 20
"""Maximum bytes of a merged request; a longer single range is one request."""


@dataclass(frozen=True, slots=True)
class RangePlan:
    """The requests to make, and the request that contains each range.

    Attributes:
        requests: Ranges to request, ordered by start, none empty.
        request_indexes: For each given range, the index of the request that contains
            it; None for an empty range.
    """

    requests: tuple[ByteRange, ...]
    request_indexes: tuple[int | None, ...]


def plan_ranges(
    ranges: Sequence[ByteRange],
    *,
    max_gap_bytes: int,
    max_bytes: int = MAX_MERGED_BYTES,
) -> RangePlan:
    """Merge ranges that overlap or are close to one another.

    Args:
        ranges: Ranges in any order; they may overlap, repeat and be empty.
        max_gap_bytes: Maximum bytes between two ranges that are merged.
        max_bytes: Maximum bytes of a merged request.
    """
    requests: list[ByteRange] = []
    request_indexes: list[int | None] = [None] * len(ranges)
    wanted = (number for number, span in enumerate(ranges) if span.end > span.start)
    for number in sorted(wanted, key=lambda number: ranges[number].start):
        span = ranges[number]
        if requests and _belongs(requests[-1], span, max_gap_bytes, max_bytes):
            last = requests.pop()
            span = ByteRange(last.start, max(last.end, span.end))
        requests.append(span)
        request_indexes[number] = len(requests) - 1
    return RangePlan(tuple(requests), tuple(request_indexes))


def _belongs(
    last: ByteRange, span: ByteRange, max_gap_bytes: int, max_bytes: int
) -> bool:
    """Return whether ``span`` is merged into the request before it."""
    if span.end <= last.end:
        return True  # that request contains it already
    is_near = span.start - last.end <= max_gap_bytes
    return is_near and span.end - last.start <= max_bytes
