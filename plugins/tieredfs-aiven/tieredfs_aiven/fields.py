"""The fields of a JSON object, each read by its type.

A missing field or one of another type is damage. A field that is not read is from a
newer writer: the plugin's own reader rejects it as well.
"""

import reprlib
from typing import Final

from tieredfs import CorruptObjectError, UnsupportedFormatError

__all__ = ["MAX_INT32", "MAX_INT64", "Fields"]

MAX_INT32: Final = (1 << 31) - 1
MAX_INT64: Final = (1 << 63) - 1
_MAX_SHOWN: Final = 100


class Fields:
    """Read the fields of one JSON object, and track which ones were not read."""

    def __init__(self, value: object, name: str) -> None:
        """Create a reader of a parsed JSON value.

        Args:
            value: The value, which should be an object.
            name: Name used in error messages.

        Raises:
            CorruptObjectError: It is not an object.
        """
        if not isinstance(value, dict):
            raise CorruptObjectError(f"{name}: {reprlib.repr(value)} is not an object")
        self._values: dict[str, object] = value
        self._name = name
        self._asked: set[str] = set()

    def get(self, field: str) -> object:
        """Return a field's value, which may be null."""
        self._asked.add(field)
        if field not in self._values:
            raise CorruptObjectError(f"{self._name}: it has no {field}")
        return self._values[field]

    def integer(self, field: str, low: int = 0, high: int = MAX_INT32) -> int:
        """Return an integer within ``[low, high]``."""
        value = self.get(field)
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(field)
        return value

    def text(self, field: str) -> str:
        """Return a text."""
        value = self.get(field)
        if not isinstance(value, str):
            raise self.wrong(field)
        return value

    def flag(self, field: str) -> bool:
        """Return true or false."""
        value = self.get(field)
        if not isinstance(value, bool):
            raise self.wrong(field)
        return value

    def fields(self, field: str) -> "Fields":
        """Return an object."""
        return Fields(self.get(field), f"{self._name}: {field}")

    def optional(self, field: str) -> "Fields | None":
        """Return an object, or None if it is null or missing."""
        self._asked.add(field)
        return None if self._values.get(field) is None else self.fields(field)

    def nullable(self, field: str) -> "Fields | None":
        """Return an object, or None where it is null."""
        return None if self.get(field) is None else self.fields(field)

    def __str__(self) -> str:
        """Name the object."""
        return self._name

    def wrong(self, field: str) -> CorruptObjectError:
        """Return the error for an invalid value of a field."""
        value = reprlib.repr(self._values.get(field))[:_MAX_SHOWN]
        return CorruptObjectError(f"{self._name}: {field} cannot be {value}")

    def finish(self) -> None:
        """Check that every field was read.

        Raises:
            UnsupportedFormatError: A field was not read.
        """
        for field in self._values.keys() - self._asked:
            raise UnsupportedFormatError(
                f"{self._name}: unknown field {reprlib.repr(field)}"
            )
