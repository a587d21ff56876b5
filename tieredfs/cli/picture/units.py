"""Numbers as people read them."""

from typing import Final

from tieredfs.cli.output.tables import show_time

__all__ = [
    "show_count",
    "show_offsets",
    "show_seconds",
    "show_size",
    "show_span",
    "size_of_log",
]

_STEP: Final = 1024
_UNITS: Final = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_DIGITS: Final = 100
_DATE: Final = len("2026-11-24")


def show_size(size: int | None) -> str:
    """Return a number of bytes, such as ``1.7 MiB``; a dash if it is not known."""
    if size is None:
        return "-"
    if size < _STEP:
        return show_count(size, "byte")
    value, unit = float(size), 0
    while value >= _STEP - 0.5 and unit < len(_UNITS) - 1:
        value, unit = value / _STEP, unit + 1
    return (
        f"{value:.0f} {_UNITS[unit]}"
        if value >= _DIGITS
        else (f"{value:.1f} {_UNITS[unit]}")
    )


def size_of_log(size: int | None) -> str:
    """Return how large a log is, in words, also if it is not known."""
    return "size of the log not known" if size is None else f"{show_size(size)} of log"


def show_count(count: int, noun: str, plural: str | None = None) -> str:
    """Return a number of things, such as ``1 segment`` or ``1,200 segments``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def show_offsets(start: int, end: int) -> str:
    """Return the offsets ``[start, end)``, the last one included: ``0 to 99``."""
    return f"{start:,}" if end - start == 1 else f"{start:,} to {end - 1:,}"


def show_span(first: int | None, last: int | None) -> str:
    """Return the time from one timestamp to another, in UTC, to the second."""
    if first is None and last is not None:
        return f"until {show_seconds(last)}"
    if first is None or last is None:
        return show_time(first)
    begin, finish = show_seconds(first), show_seconds(last)
    if begin[:_DATE] == finish[:_DATE] and finish.endswith("Z") and begin != finish:
        finish = finish[_DATE + 1 :]
    return begin if begin == finish else f"{begin} to {finish}"


def show_seconds(milliseconds: int) -> str:
    """Return a time as ISO text in UTC, to the second."""
    shown = show_time(milliseconds)
    return f"{shown[:-5]}Z" if shown.endswith("Z") else shown
