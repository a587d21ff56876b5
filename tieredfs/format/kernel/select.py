"""Which implementation reads and writes records: the compiled one, or Python's."""

import os
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from typing import Final

from tieredfs.errors import InvalidArgumentError

__all__ = ["KERNEL_SETTING", "Kernel", "chosen_kernel"]

KERNEL_SETTING: Final = "TIEREDFS_KERNEL"
"""The environment variable that says which one to use; read once in a process."""

_AUTO = "auto"


class Kernel(StrEnum):
    """An implementation of what costs time; all give the same rows and errors."""

    COMPILED = "compiled"
    PYTHON = "python"


@cache
def chosen_kernel() -> Kernel:
    """Return the implementation in use: the compiled one if it was built.

    The environment variable TIEREDFS_KERNEL forces one: ``compiled`` or ``python``;
    ``auto``, or nothing, leaves the choice.

    Raises:
        InvalidArgumentError: The variable says something else, or asks for the
            compiled one where there is none.
    """
    asked = os.environ.get(KERNEL_SETTING) or _AUTO
    if asked not in {_AUTO, *Kernel}:
        msg = f"{KERNEL_SETTING}={asked}: must be {_AUTO}, {' or '.join(Kernel)}"
        raise InvalidArgumentError(msg)
    if asked == Kernel.PYTHON:
        return Kernel.PYTHON
    if find_spec("tieredfs.format.kernel._kernel") is not None:
        return Kernel.COMPILED
    if asked == Kernel.COMPILED:
        msg = f"{KERNEL_SETTING}={asked}: this tieredfs was built without a compiler"
        raise InvalidArgumentError(msg)
    return Kernel.PYTHON
