"""Axes: where a value is drawn, and which values have a label."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

__all__ = ["Scale", "Tick", "offset_ticks", "time_ticks"]

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_MONTH: Final = 2_629_746_000
"""Average milliseconds of a month."""

_STEPS: Final = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(count * _SECOND for count in (1, 2, 5, 10, 15, 30)),
    *(count * _MINUTE for count in (1, 2, 5, 10, 15, 30)),
    *(count * _HOUR for count in (1, 2, 3, 6, 12)),
    *(count * _DAY for count in (1, 2, 7, 14)),
)
_MONTHS: Final = (
    *(1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000),
    *(24000, 60000, 120000),
)
_YEAR: Final = 12
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
"""Timestamps that a calendar holds: the years 1 to 9999."""


@dataclass(frozen=True, slots=True)
class Scale:
    """A linear scale.

    Attributes:
        low: The value that is drawn at ``left``.
        high: The value that is drawn at ``left + length``; above ``low``.
        left: Where the axis begins.
        length: How long the axis is.
    """

    low: int
    high: int
    left: float
    length: float

    def at(self, value: int) -> float:
        """Return where a value is drawn; one outside the scale at its nearer end."""
        inside = min(max(value, self.low), self.high)
        return self.left + self.length * ((inside - self.low) / (self.high - self.low))

    def per_unit(self, length: float) -> float:
        """Return how much of the value is drawn in a length."""
        return length * (self.high - self.low) / self.length


class Tick(NamedTuple):
    """A value of an axis that has a label.

    Attributes:
        value: The value.
        label: Its label.
        date: The day, where it is not part of the label and not that of the tick
            before; else empty.
    """

    value: int
    label: str
    date: str = ""


def offset_ticks(low: int, high: int, count: int) -> list[Tick]:
    """Return round values from ``low`` to ``high``.

    Args:
        low: First value.
        high: Last value.
        count: About how many; at most one more.
    """
    step = _round_step((high - low) / max(1, count))
    first = -(-low // step) * step
    return [Tick(value, f"{value:,}") for value in range(first, high + 1, step)]


def time_ticks(low: int, high: int, count: int) -> list[Tick]:
    """Return round times from ``low`` to ``high``, which are ms since 1970 UTC.

    Args:
        low: First time.
        high: Last time.
        count: About how many; at most two more, for months differ.
    """
    if low < _FIRST_MS or high > _LAST_MS:
        return [Tick(v, f"{v:,} ms") for v, _, _ in offset_ticks(low, high, count)]
    wanted = (high - low) / max(1, count)
    step = next((step for step in _STEPS if step >= wanted), None)
    if step is None:
        return _month_ticks(low, high, wanted / _MONTH)
    ticks: list[Tick] = []
    before = ""
    for value in range(-(-low // step) * step, high + 1, step):
        date, clock = _written(value)
        if step >= _DAY:
            ticks.append(Tick(value, date))
            continue
        end = 5 if step >= _MINUTE else 8 if step >= _SECOND else 12
        ticks.append(Tick(value, clock[:end], "" if date == before else date))
        before = date
    return ticks


def _round_step(wanted: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, … that is at least ``wanted``."""
    power = 1
    while power * 10 < wanted:
        power *= 10
    return next(n * power for n in (1, 2, 5, 10) if n * power >= wanted)


def _month_ticks(low: int, high: int, wanted: float) -> list[Tick]:
    """Return first days of months, or of years where these are far apart."""
    step = next((step for step in _MONTHS if step >= wanted), _MONTHS[-1])
    first = datetime.fromtimestamp(low / _SECOND, UTC)
    number = first.year * _YEAR + first.month - 1
    number -= number % step
    ticks: list[Tick] = []
    while True:
        year, month = divmod(number, _YEAR)
        number += step
        if year < 1:
            continue
        if year > 9999:  # noqa: PLR2004 - the last year of the calendar
            return ticks
        day = datetime(year, month + 1, 1, tzinfo=UTC)
        value = round(day.timestamp()) * _SECOND
        if value > high:
            return ticks
        if value >= low:
            label = f"{year:04d}" if step >= _YEAR else f"{year:04d}-{month + 1:02d}"
            ticks.append(Tick(value, label))


def _written(milliseconds: int) -> tuple[str, str]:
    """Return the day and the time of day, to the millisecond."""
    seconds, rest = divmod(milliseconds, _SECOND)
    time = datetime.fromtimestamp(seconds, UTC)
    return f"{time:%Y-%m-%d}", f"{time:%H:%M:%S}.{rest:03d}"
