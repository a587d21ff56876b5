"""Views of bytes and of 64-bit integers in buffers, without a copy."""

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Buffer", "Int64Array", "byte_view", "int64s"]

Buffer = bytes | bytearray | memoryview
"""The input of a parser: any object that exposes contiguous bytes."""

Int64Array = npt.NDArray[np.int64]

_INT64_BYTES: Final = 8


def byte_view(data: Buffer) -> memoryview:
    """Return ``data`` as a flat, read-only view of bytes, without a copy."""
    return memoryview(data).cast("B").toreadonly()


def int64s(array: pa.Array) -> Int64Array:
    """Return an Arrow array of 64-bit integers or times as numpy, without a copy.

    The array must not contain nulls. pyarrow's own conversions import pandas where it
    is installed, which takes longer than most calls that need the numbers.
    """
    held = array.buffers()[1]
    if held is None or not len(array):
        return np.zeros(0, np.int64)
    return np.frombuffer(held, np.int64, len(array), _INT64_BYTES * array.offset)
