"""Where ``cat`` begins and ends, as given on the command line."""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import click

from tieredfs.errors import InvalidArgumentError, OffsetOutOfRangeError
from tieredfs.log.read.reader import Bounds
from tieredfs.log.read.scan import Isolation, OnGap
from tieredfs.log.read.scan_bounds import Position, to_milliseconds
from tieredfs.topic import Topic

__all__ = [
    "End",
    "LastRecords",
    "Place",
    "PositionType",
    "check_order",
    "range_of",
    "time_hints",
]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A number that is too large is out of range, not a time; Python parses no more digits.
_OFFSET: Final = re.compile(r"[0-9]{1,4300}")
_LAST: Final = re.compile(r"-[0-9]{1,4300}")
_MILLISECONDS: Final = re.compile(r"@-?[0-9]{1,19}")
_WIDENING: Final = 4
_LOOKS_LIKE_MILLISECONDS: Final = range(10**12, 10**13)
"""Times from 2001 to 2286, which few offsets reach."""


@dataclass(frozen=True, slots=True)
class LastRecords:
    """A position some records before the end of each partition.

    Attributes:
        count: Number of records; 0 for the end itself.
    """

    count: int


End: TypeAlias = int | datetime | None
"""An offset, a time, or None for the end of the log."""

Place: TypeAlias = int | datetime | LastRecords | None
"""An offset, a time, the last records, or None for the log's own beginning or end."""


class PositionType(click.ParamType[Place]):
    """An offset, a time as ISO text or as ``@`` and milliseconds, or a word."""

    name = "position"

    def __init__(self, words: Mapping[str, Place], *, takes_last: bool = False) -> None:
        """Take the words and what they mean.

        Args:
            words: Such as ``earliest``.
            takes_last: Whether ``-5`` means the last five records.
        """
        self._words = words
        self._takes_last = takes_last

    def convert(
        self,
        value: object,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Place:
        """Distinguish an offset, which is a bare integer, from a time."""
        text = str(value)
        if text in self._words:
            return self._words[text]
        if _OFFSET.fullmatch(text):
            return int(text)
        if self._takes_last and _LAST.fullmatch(text):
            return LastRecords(-int(text))
        try:
            if _MILLISECONDS.fullmatch(text):
                return _time(int(text[1:]))
            if text[:1].isdecimal():
                return _time(to_milliseconds(text))
        except InvalidArgumentError:
            self.fail(self._not_a_time(text), param, ctx)
        except OverflowError:
            self.fail(f"{text!r} is not a time that a calendar holds", param, ctx)
        words = ", ".join(map(repr, self._words))
        return self.fail(f"{text!r} is not an offset, a time or {words}", param, ctx)

    def _not_a_time(self, text: str) -> str:
        *others, last = (
            "ISO text such as 2026-11-01T00:00:00Z",
            "@ and milliseconds such as @1793491200000",
            *self._words,
        )
        return f"not a time: {text!r} (give {', '.join(others)} or {last})"


@contextmanager
def time_hints(*places: Place) -> Iterator[None]:
    """Add to the error for an offset out of range how a time is given, if it looks so.

    Args:
        places: The positions that the user has given.

    Raises:
        OffsetOutOfRangeError: As it was raised, with the hint.
    """
    try:
        yield
    except OffsetOutOfRangeError as error:
        for place in places:
            if isinstance(place, int) and place in _LOOKS_LIKE_MILLISECONDS:
                msg = f"{error} (if {place} is a time in milliseconds, give @{place})"
                raise OffsetOutOfRangeError(msg) from error
        raise


def check_order(start: Place, end: End) -> None:
    """Check that the end is not before the start.

    Raises:
        UsageError: It is; an offset and a time cannot be compared.
    """
    if _is_after(start, end):
        msg = f"--from {_shown(start)} is after --to {_shown(end)}"
        raise click.UsageError(msg)


def range_of(
    topic: Topic,
    partitions: Collection[int],
    start: Place,
    end: End,
    on_gap: OnGap,
    isolation: Isolation,
) -> tuple[Position, Position]:
    """Return the positions in a topic at which two places are.

    A start that is counted from the end of the log has the same end, unless another one
    is given: what is appended meanwhile is not in the range.

    Args:
        topic: The topic; its last records are looked up.
        partitions: The partitions that are read.
        start: Where the user wants to begin.
        end: Where the user wants to end.
        on_gap: As ``Topic.scan`` takes it.
        isolation: As ``Topic.scan`` takes it.
    """
    if not isinstance(start, LastRecords):
        return start, end
    counted = {
        number: _last_records(topic, number, start.count, on_gap, isolation)
        for number in partitions
    }
    first = {number: found.beginning for number, found in counted.items()}
    if end is None:
        # The log may have grown since they were counted.
        return first, {number: found.end for number, found in counted.items()}
    if isinstance(end, int):
        # The last records may all be after the end: then there is nothing to show.
        return first, {number: max(end, offset) for number, offset in first.items()}
    return first, end


def _last_records(
    topic: Topic, partition: int, count: int, on_gap: OnGap, isolation: Isolation
) -> Bounds:
    """Return the offsets of the last records of a partition, up to its present end.

    Not every offset has a record: the cleaner removes some, and control records and
    aborted ones are hidden. So the search goes further back, in growing steps, until
    there are enough.
    """
    reader = topic.reader(partition)
    held = reader.bounds()
    if isolation == "read_committed":
        stable = max(reader.stable_offset(), held.beginning)
        held = Bounds(held.beginning, min(held.end, stable))
    start, span, missing = held.end, count, count
    if count >= held.end - held.beginning:
        return held
    while missing and start > held.beginning:
        stop, start = start, max(start - span, held.beginning)
        scan = topic.scan(
            [partition],
            start,
            stop,
            isolation=isolation,
            columns=("offset",),
            on_gap=on_gap,
        )
        offsets = scan.to_table()["offset"]
        if len(offsets) >= missing:
            return Bounds(int(offsets[len(offsets) - missing].as_py()), held.end)
        missing -= len(offsets)
        span *= _WIDENING
    return Bounds(start, held.end)


def _time(milliseconds: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=milliseconds)


def _is_after(start: Place, end: Place) -> bool:
    if isinstance(start, int):
        return isinstance(end, int) and start > end
    if isinstance(start, datetime):
        return isinstance(end, datetime) and start > end
    return False


def _shown(place: Place) -> str:
    return place.isoformat() if isinstance(place, datetime) else str(place)
