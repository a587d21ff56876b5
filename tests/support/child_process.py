"""What a Python program that a test starts is given."""

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["GIVE_UP_PRIVILEGES", "child_environment"]

_TESTS = str(Path(__file__).parents[1])

# Linux's capset(2), version 3: root keeps its files, but reads none past its mode.
# Another user would not do: root's environment may lie where only root can read it.
GIVE_UP_PRIVILEGES = """
import ctypes, os
if os.geteuid() == 0:
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    assert ctypes.CDLL(None).capset(header, (ctypes.c_uint32 * 6)()) == 0
"""
"""The beginning of a program that the mode of a file binds, run by root or not."""


def child_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a program that imports what tests import.

    The program finds the folders of tests as pytest's ``pythonpath`` has them, and
    nothing in the current folder or in its own.

    Args:
        more: What else is in the environment.
    """
    path = os.pathsep.join(filter(None, [_TESTS, os.environ.get("PYTHONPATH")]))
    given = {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    return {**os.environ, **given, **(more or {})}
