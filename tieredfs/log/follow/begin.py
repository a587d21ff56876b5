"""Where each partition of a followed topic begins."""

from collections.abc import Callable
from dataclasses import replace

from tieredfs.errors import NotFoundError
from tieredfs.log.follow.followed import Followed
from tieredfs.log.follow.handover import Handover
from tieredfs.log.follow.last import first_of_last
from tieredfs.log.follow.live_log import LiveLog
from tieredfs.log.follow.start import start_offset
from tieredfs.log.read.last_records import LastRecords

__all__ = ["begin"]


def begin(
    followed: Followed,
    live: LiveLog,
    now: Callable[[], float],
    *,
    is_over: Callable[[], bool],
) -> dict[int, Handover]:
    """Return where each partition begins.

    Args:
        followed: What is followed.
        live: What the brokers have.
        now: Returns a time in seconds that only grows.
        is_over: Returns whether it is not wanted any more.

    Raises:
        NotFoundError: The brokers do not have a partition.
        TieredFSError: As reading does.
    """
    there = set(live.partitions())
    numbers = followed.partitions
    if numbers is None:
        numbers = tuple(sorted({*followed.tiered, *there}))
    missing = [number for number in numbers if number not in there]
    if missing:
        listed = ", ".join(map(str, sorted(there)))
        msg = (
            f"not found: partition {missing[0]} of {followed.topic!r} at "
            f"{followed.broker}; the brokers have {listed}"
        )
        raise NotFoundError(msg)
    start = followed.start
    if isinstance(start, LastRecords):
        offsets = first_of_last(
            replace(followed, columns=("offset",)),
            live,
            numbers,
            start.count,
            now=now,
            is_over=is_over,
        )
    else:
        offsets = {n: start_offset(followed.reader(n), start, live) for n in numbers}
    return {number: followed.at(number, offset) for number, offset in offsets.items()}
