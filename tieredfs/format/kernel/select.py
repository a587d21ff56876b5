"""Select the implementation that reads and writes records: compiled or Python."""

import os
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from typing import Final

from tieredfs.errors import InvalidArgumentError

__all__ = ["KERNEL_SETTING", "Kernel", "chosen_kernel"]

KERNEL_SETTING: Final = "TIEREDFS_KERNEL"
"""The environment variable that selects one; read once per process."""

_AUTO = "auto"


class Kernel(StrEnum):
    """An implementation of the hot loops; all give the same rows and errors."""

    COMPILED = "compiled"
    PYTHON = "python"


@cache
def chosen_kernel() -> Kernel:
    """Return the implementation in use: the compiled one if it was built.

    The environment variable TIEREDFS_KERNEL can force ``compiled`` or ``python``; when
    it is ``auto``, empty or not set, the choice is automatic.

    Raises:
        InvalidArgumentError: The variable has another value, or requires the compiled
            implementation where it was not built.
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
