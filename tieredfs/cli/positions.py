"""Where ``cat`` begins and ends, as given on the command line."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

import click

from tieredfs.errors import InvalidArgumentError
from tieredfs.log.read.last_records import LastRecords
from tieredfs.log.read.scan_bounds import to_milliseconds

__all__ = ["End", "Place", "PositionType", "check_order"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# A number that is too large is out of range, not a time; Python parses no more digits.
_OFFSET: Final = re.compile(r"[0-9]{1,4300}")
_LAST: Final = re.compile(r"-[0-9]{1,4300}")
_MILLISECONDS: Final = re.compile(r"@-?[0-9]{1,19}")


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
        except InvalidArgumentError as error:
            self.fail(str(error), param, ctx)
        except OverflowError:
            self.fail(f"{text!r} is not a time that a calendar holds", param, ctx)
        words = ", ".join(map(repr, self._words))
        return self.fail(f"{text!r} is not an offset, a time or {words}", param, ctx)


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
