"""Check arguments that are texts, paths and dicts, for callers without types.

Errors name the argument and its type. They omit its value, which may hold secrets.
"""

import os
from collections.abc import Mapping

from tieredfs.errors import InvalidArgumentError

__all__ = ["to_mapping", "to_path", "to_text"]


def to_text(value: object, name: str) -> str:
    """Return an argument that is a text.

    Args:
        value: The argument.
        name: Argument name used in error messages.

    Raises:
        InvalidArgumentError: It is not a text.
    """
    if not isinstance(value, str):
        raise _wrong(name, "text", value)
    return value


def to_path(value: object, name: str) -> str:
    """Return a URL or a path as text.

    Args:
        value: The argument: a text, or a path object such as ``pathlib.Path``.
        name: Argument name used in error messages.

    Raises:
        InvalidArgumentError: It is neither.
    """
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str):
        raise _wrong(name, "text or a path", value)
    return path


def to_mapping(value: object, name: str) -> Mapping[str, object]:
    """Return an argument that is a dict or another mapping; an empty one for None.

    Args:
        value: The argument.
        name: Argument name used in error messages.

    Raises:
        InvalidArgumentError: It is not a mapping.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _wrong(name, "a dict", value)
    return value


def _wrong(name: str, wanted: str, value: object) -> InvalidArgumentError:
    return InvalidArgumentError(f"{name} must be {wanted}, not {type(value).__name__}")
