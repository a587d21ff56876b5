"""Integers as users give them: Python's own, numpy's, and no other number."""

from operator import index
from typing import SupportsIndex

from numpy import bool_

from tieredfs.errors import InvalidArgumentError

__all__ = ["is_integer", "to_integer"]


def is_integer(value: object) -> bool:
    """Tell whether a value is an integer of any kind; a bool or a float is not."""
    return _index(value) is not None


def to_integer(value: object, name: str) -> int:
    """Return an integer of any kind as Python's own.

    Args:
        value: What the user gave.
        name: Of the argument, in the error.

    Raises:
        InvalidArgumentError: It is not an integer.
    """
    found = _index(value)
    if found is None:
        msg = f"{name} is an integer, not {value!r}"
        raise InvalidArgumentError(msg)
    return found


def _index(value: object) -> int | None:
    # An older numpy lets its bools be an index, with a warning.
    if isinstance(value, bool | bool_) or not isinstance(value, SupportsIndex):
        return None
    try:
        return index(value)
    except TypeError:  # an array of numpy's has the method too
        return None
