"""Where ``cat`` begins and ends, as given on the command line."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import click

from tieredfs.errors import InvalidArgumentError, OffsetOutOfRangeError
from tieredfs.log.read.last_records import LastRecords
from tieredfs.log.read.scan_bounds import to_milliseconds

__all__ = ["End", "Place", "PositionType", "check_order", "time_hints"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A number that is too large is out of range, not a time; Python parses no more digits.
_OFFSET: Final = re.compile(r"[0-9]{1,4300}")
_LAST: Final = re.compile(r"-[0-9]{1,4300}")
_MILLISECONDS: Final = re.compile(r"@-?[0-9]{1,19}")
_LOOKS_LIKE_MILLISECONDS: Final = range(10**12, 10**13)
"""Times from 2001 to 2286, which few offsets reach."""


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
