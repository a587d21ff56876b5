"""One call of a machine's method, as Python that makes it again."""

import sys
from collections.abc import Collection, Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["Step"]

_MAX_ZEROS: Final = 8
"""More bytes that are 0 are written as their number."""


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a machine's method.

    Attributes:
        name: The method.
        arguments: Its arguments by their names.
    """

    name: str
    arguments: tuple[tuple[str, object], ...]

    @property
    def code(self) -> str:
        """Python that makes the call of ``state``."""
        given = ", ".join(f"{name}={_code(value)}" for name, value in self.arguments)
        return f"state.{self.name}({given})"

    @property
    def imports(self) -> set[tuple[str, str]]:
        """Modules and the names in them that the code needs."""
        return set().union(*(_imports(value) for _, value in self.arguments))


def _code(value: object) -> str:
    """Return Python for a value; fields that have their default are left out."""
    if isinstance(value, Enum):
        code = f"{type(value).__name__}.{value.name}"
    elif is_dataclass(value) and not isinstance(value, type):
        given = (f"{name}={_code(field)}" for name, field in _given(value))
        code = f"{type(value).__name__}({', '.join(given)})"
    elif isinstance(value, bytes) and len(value) > _MAX_ZEROS and not any(value):
        code = f"bytes({len(value)})"
    elif isinstance(value, tuple):
        code = f"({''.join(f'{_code(one)}, ' for one in value).strip()})"
    elif isinstance(value, list):
        code = f"[{', '.join(map(_code, value))}]"
    elif isinstance(value, set) and value:
        code = f"{{{', '.join(sorted(map(_code, value)))}}}"
    else:
        code = repr(value)
    return code


def _given(value: "DataclassInstance") -> Iterator[tuple[str, object]]:
    """Yield the fields that have another value than their default, and their names."""
    for one in fields(value):
        field = getattr(value, one.name)
        if one.default is MISSING or field != one.default:
            yield one.name, field


def _imports(value: object) -> set[tuple[str, str]]:
    """Return what Python for a value needs to import."""
    found: set[tuple[str, str]] = set()
    if isinstance(value, Enum):
        return {_home(type(value))}
    if is_dataclass(value) and not isinstance(value, type):
        found.add(_home(type(value)))
        for _, field in _given(value):
            found |= _imports(field)
    elif isinstance(value, Collection) and not isinstance(value, str | bytes):
        for one in value:
            found |= _imports(one)
    return found


def _home(kind: type) -> tuple[str, str]:
    """Return where to import a class from: the package, if it has what a module has."""
    module, name = kind.__module__, kind.__name__
    package = module.rpartition(".")[0]
    is_there = getattr(sys.modules.get(package), name, None) is kind
    return package if is_there else module, name
