"""Check integer arguments: Python's and numpy's integers, and nothing else.

Kafka's fields are of 32 or 64 bits, of which the largest values stand here.
"""

from operator import index
from typing import SupportsIndex

from numpy import bool_

from tieredfs.errors import InvalidArgumentError

__all__ = ["MAX_INT32", "MAX_INT64", "is_integer", "to_integer"]

MAX_INT32 = (1 << 31) - 1
"""The largest partition, leader epoch, batch and distance of two offsets in a segment;
also the largest position in a log that an offset index can hold."""

MAX_INT64 = (1 << 63) - 1
"""The largest offset, and the largest timestamp in milliseconds."""


def is_integer(value: object) -> bool:
    """Return whether a value is an integer of any type; bools and floats are not."""
    return _index(value) is not None


def to_integer(value: object, name: str, *, minimum: int | None = None) -> int:
    """Convert an integer of any type to ``int``.

    Args:
        value: The argument to convert.
        name: Argument name used in error messages.
        minimum: The smallest value that is allowed; None for any.

    Raises:
        InvalidArgumentError: The value is not an integer, or below the minimum.
    """
    found = _index(value)
    if found is None:
        msg = f"{name} must be an integer, not {value!r}"
        raise InvalidArgumentError(msg)
    if minimum is not None and found < minimum:
        raise InvalidArgumentError(f"{name} must be {minimum} or more, not {found}")
    return found


def _index(value: object) -> int | None:
    # Older versions of numpy accept their bools as an index, with a warning.
    if isinstance(value, bool | bool_) or not isinstance(value, SupportsIndex):
        return None
    try:
        return index(value)
    except TypeError:  # numpy arrays have the method, too
        return None
