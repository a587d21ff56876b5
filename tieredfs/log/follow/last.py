"""Where the last records of followed partitions begin, of what both places hold."""

from collections import deque
from collections.abc import Callable, Collection
from contextlib import closing
from typing import Final

from tieredfs.log.follow.followed import Followed
from tieredfs.log.follow.live_log import LiveLog
from tieredfs.log.follow.reading import Reading
from tieredfs.log.follow.start import start_offset

__all__ = ["first_of_last"]

_WIDENING: Final = 4


def first_of_last(
    followed: Followed,
    live: LiveLog,
    numbers: Collection[int],
    count: int,
    *,
    now: Callable[[], float],
    is_over: Callable[[], bool],
) -> dict[int, int]:
    """Return the offset of the first of the last records of each partition.

    Not every offset has a record, so what is read for that goes further back, in
    growing steps, until there are enough.

    Args:
        followed: What is followed.
        live: What the brokers have.
        numbers: The partitions.
        count: How many records; 0 for where the broker's log ends.
        now: Returns a time in seconds that only grows.
        is_over: Returns whether it is not wanted any more.

    Raises:
        TieredFSError: As reading does.
    """
    ends = live.ends(numbers)
    if not count:
        return ends
    begins = {n: start_offset(followed.reader(n), None, live) for n in ends}
    found: dict[int, int] = {}
    span = count
    while found.keys() != ends.keys() and not is_over():
        starts = {
            number: max(begins[number], end - span)
            for number, end in ends.items()
            if number not in found
        }
        seen = _read(followed, live, starts, ends, count, now=now, is_over=is_over)
        for number, last in seen.items():
            if len(last) == count:
                found[number] = last[0]
            elif starts[number] == begins[number]:
                found[number] = begins[number]
        span *= _WIDENING
    return found


def _read(  # noqa: PLR0913 - what is asked for, by keyword
    followed: Followed,
    live: LiveLog,
    starts: dict[int, int],
    ends: dict[int, int],
    count: int,
    *,
    now: Callable[[], float],
    is_over: Callable[[], bool],
) -> dict[int, deque[int]]:
    """Return the offsets of the last records of partitions, as many as are wanted."""
    seen: dict[int, deque[int]] = {number: deque(maxlen=count) for number in starts}
    reached = {number: followed.at(number, start) for number, start in starts.items()}
    with closing(Reading(followed, live, reached, now)) as reading:
        while not is_over() and any(
            one.position < ends[number] for number, one in reached.items()
        ):
            for new in reading.turn():
                end, offsets = ends[new.partition], new.records["offset"].to_pylist()
                seen[new.partition].extend(one for one in offsets if one < end)
    return seen
