"""The rank of a number among the keys of an index, in its format on disk.

Nothing is copied or converted beforehand: a lookup reads one or two dozen keys in
place, so that an index of any size is ready immediately.
"""

from bisect import bisect_right
from struct import Struct
from typing import Protocol

import numpy as np

from tieredfs.format.buffers import Buffer, Int64Array
from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["WireRanks", "wire_ranks"]

_KEYS = {4: Struct(">i"), 8: Struct(">q")}


class WireRanks(Protocol):
    """Ranks of numbers: how many keys of an index are at most a given number."""

    def of(self, number: int) -> int:
        """Return the rank of one number."""

    def of_all(self, numbers: Int64Array, ranks: Int64Array) -> None:
        """Write the ranks of many numbers to ``ranks``, an array of the same length."""


def wire_ranks(data: Buffer, size: int, width: int) -> WireRanks:
    """Return an object that ranks numbers among the keys of an index.

    Args:
        data: The index, held as long as the returned object exists.
        size: Size of an entry in bytes.
        width: Size in bytes of the big-endian key that begins it: 4 or 8.
    """
    if chosen_kernel() is Kernel.COMPILED:
        from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may be missing

        return _kernel.WireRanks(data, size, width)
    return _PythonRanks(data, size, width)


class _PythonRanks:
    """The implementation without the kernel."""

    def __init__(self, data: Buffer, size: int, width: int) -> None:
        self._data = memoryview(data).cast("B")
        self._size = size
        self._width = width
        self._unpack = _KEYS[width].unpack_from
        self._count = range(len(self._data) // size)

    def of(self, number: int) -> int:
        """Return the rank of one number."""
        return bisect_right(self._count, number, key=self._key)

    def of_all(self, numbers: Int64Array, ranks: Int64Array) -> None:
        """Write the ranks of many numbers to ``ranks``; converts all keys once."""
        entry = np.dtype(
            {
                "names": ["key"],
                "formats": [f">i{self._width}"],
                "itemsize": self._size,
            }
        )
        keys = np.frombuffer(self._data, entry, len(self._count))["key"]
        ranks[:] = keys.astype(np.int64).searchsorted(numbers, "right")

    def _key(self, place: int) -> int:
        key: int = self._unpack(self._data, place * self._size)[0]
        return key
