"""The fields of a stem of the native layout: how each is written, and where it is.

The widths are fixed, because the id may contain the dash that separates the fields. The
end offset comes first, because stems sort by it.
"""

from itertools import accumulate
from typing import Final, NamedTuple

__all__ = ["DASHES", "FIELDS", "PLACES", "STEM_LENGTH", "StemField"]


class StemField(NamedTuple):
    """How one field is written.

    Attributes:
        width: Number of characters.
        pattern: Regular expression of what has the width.
        template: Format of a value.
    """

    width: int
    pattern: str
    template: str


def _number(width: int, *, signed: bool = False) -> StemField:
    """Return the field of a decimal number; a minus counts as a character."""
    negative = rf"|-\d{{{width - 1}}}" if signed else ""
    return StemField(width, rf"\d{{{width}}}{negative}", f"{{:0{width}d}}")


FIELDS: Final = {
    "end_offset": _number(20),
    "start_offset": _number(20),
    "max_timestamp_ms": _number(20, signed=True),
    "epoch": _number(10, signed=True),
    "log_length": _number(13),
    "tail_length": _number(10),
    "flags": StemField(4, r"[0-9a-f]{4}", "{:04x}"),
    "id": StemField(22, r"[A-Za-z0-9_-]{22}", "{}"),
}
"""The fields of a ``SegmentKey``, in the order of the stem."""

_WIDTHS: Final = [field.width for field in FIELDS.values()]
_STOPS: Final = list(accumulate(_WIDTHS, lambda stop, width: stop + 1 + width))

PLACES: Final = {
    name: slice(stop - width, stop)
    for name, width, stop in zip(FIELDS, _WIDTHS, _STOPS, strict=True)
}
"""Where each field is in a stem."""

DASHES: Final = _STOPS[:-1]
"""Where the dashes are that separate the fields."""

STEM_LENGTH: Final = _STOPS[-1]
"""Number of characters of a stem."""
