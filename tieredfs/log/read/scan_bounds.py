"""Where a scan begins and ends: an offset, a time, or an offset for each partition."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import SupportsIndex, TypeAlias

from tieredfs.errors import InvalidArgumentError
from tieredfs.integers import is_integer, to_integer
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.times import offset_of_time
from tieredfs.model import SegmentMetadata

__all__ = [
    "ParsedPosition",
    "Position",
    "check_order",
    "is_time",
    "offset_of",
    "parse_position",
    "to_milliseconds",
]

Position: TypeAlias = (
    "SupportsIndex | datetime | str | Mapping[int, SupportsIndex] | None"
)
"""An offset, a time (a datetime, or ISO text; UTC when it has no zone), an offset for
each partition, or None for the beginning or the end of the log. An offset is a Python
or numpy integer."""

ParsedPosition: TypeAlias = int | datetime | str | Mapping[int, int] | None
"""A position with Python integers."""

_FINER = re.compile(r"[.,]\d{6}\d*[1-9]", re.ASCII)
"""A fraction of a second in more digits than a datetime has."""


def to_milliseconds(time: SupportsIndex | datetime | str) -> int:
    """Return a time as milliseconds since 1970 UTC, rounded up.

    Raises:
        InvalidArgumentError: It is not milliseconds, a datetime or ISO text.
    """
    if is_integer(time):
        return to_integer(time, "time")
    finer = getattr(time, "nanosecond", 0)  # a pandas.Timestamp has them
    if isinstance(time, str):
        finer = _FINER.search(time)
        try:
            time = datetime.fromisoformat(time)  # cuts off what is finer
        except ValueError as error:
            msg = (
                f"not a time: {time!r} (ISO text such as 2026-11-01T00:00:00Z; where a "
                "log begins and ends is None)"
            )
            raise InvalidArgumentError(msg) from error
    if not isinstance(time, datetime):
        msg = f"not a time: {time!r}"
        raise InvalidArgumentError(msg)
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    return -(-(micros + bool(finer)) // 1000)


def parse_position(position: Position, numbers: Collection[int]) -> ParsedPosition:
    """Return a position with Python integers.

    Raises:
        InvalidArgumentError: It is not a position, or names a partition that is not
            read.
    """
    if isinstance(position, Mapping):
        offsets = {
            to_integer(number, "partition"): to_integer(offset, "offset of a partition")
            for number, offset in position.items()
        }
        others = sorted(offsets.keys() - set(numbers))
        if others:
            msg = f"partition {others[0]} has an offset but is not scanned"
            raise InvalidArgumentError(msg)
        return offsets
    if is_integer(position):
        return to_integer(position, "offset")
    if position is None or isinstance(position, str | datetime):
        return position
    msg = f"not a position: {position!r} (an offset, a time, or offsets by partition)"
    raise InvalidArgumentError(msg)


def check_order(
    start: ParsedPosition, end: ParsedPosition, numbers: Iterable[int]
) -> None:
    """Check that no partition's end is before its start.

    An offset and a time cannot be compared. The offsets of two times may be in reverse
    order, because timestamps need not increase along the log.

    Raises:
        InvalidArgumentError: An end is before its start.
    """
    for number in numbers:
        first, last = _asked(start, number), _asked(end, number)
        if isinstance(first, int) and isinstance(last, int):
            is_after = first > last
        elif isinstance(first, str | datetime) and isinstance(last, str | datetime):
            is_after = to_milliseconds(first) > to_milliseconds(last)
        else:
            continue
        if is_after:
            msg = f"partition {number}: start {first} is after end {last}"
            raise InvalidArgumentError(msg)


def _asked(position: ParsedPosition, number: int) -> int | datetime | str | None:
    """Return the offset or time of a position in one partition."""
    return position.get(number) if isinstance(position, Mapping) else position


def is_time(position: ParsedPosition) -> bool:
    """Return whether a position has to be looked up by timestamps."""
    return isinstance(position, str | datetime)


def offset_of(
    reader: TieredReader,
    segments: Sequence[SegmentMetadata],
    position: ParsedPosition,
    *,
    skip_gaps: bool,
) -> int | None:
    """Convert a position to an offset of one partition; None stays None."""
    if isinstance(position, Mapping):
        return position.get(reader.partition.partition)
    if position is None or isinstance(position, int):
        return position
    timestamp = to_milliseconds(position)
    return offset_of_time(reader, segments, timestamp, skip_gaps=skip_gaps)
