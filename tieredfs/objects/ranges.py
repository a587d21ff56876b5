"""Which requests give several ranges of one object: a plan, nothing is read.

Two ranges that lie close together cost less in one request than in two: what lies
between them is moved for nothing, but it is moved while the other would wait.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tieredfs.model import ByteRange

__all__ = ["LONGEST", "RangePlan", "plan_ranges"]

LONGEST = 16 << 20
"""Bytes up to which ranges are put together; a longer one stays as it is."""


@dataclass(frozen=True, slots=True)
class RangePlan:
    """The requests, and where in them each range lies.

    Attributes:
        requests: Ranges to ask for, in the order of their starts, none empty.
        places: For each range as it was given, the number of the request that has it;
            None for an empty range, which is in none.
    """

    requests: tuple[ByteRange, ...]
    places: tuple[int | None, ...]


def plan_ranges(
    ranges: Sequence[ByteRange], *, gap: int, longest: int = LONGEST
) -> RangePlan:
    """Put together ranges that overlap or lie close to one another.

    Args:
        ranges: In any order; they may overlap, repeat and be empty.
        gap: Most bytes between two ranges that are still asked for at once.
        longest: Most bytes of a request that was put together.
    """
    requests: list[ByteRange] = []
    places: list[int | None] = [None] * len(ranges)
    wanted = (number for number, span in enumerate(ranges) if span.end > span.start)
    for number in sorted(wanted, key=lambda number: ranges[number].start):
        span = ranges[number]
        if requests and _belongs(requests[-1], span, gap, longest):
            last = requests.pop()
            span = ByteRange(last.start, max(last.end, span.end))
        requests.append(span)
        places[number] = len(requests) - 1
    return RangePlan(tuple(requests), tuple(places))


def _belongs(last: ByteRange, span: ByteRange, gap: int, longest: int) -> bool:
    """Tell whether ``span`` is asked for with the request before it."""
    if span.end <= last.end:
        return True  # it is in there anyway
    return span.start - last.end <= gap and span.end - last.start <= longest
