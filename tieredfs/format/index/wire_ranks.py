"""Where a number stands among the keys of an index, as its bytes lie on disk.

Nothing is copied and nothing is turned round: a lookup reads a dozen or two keys where
they are, so that an index of any size is ready at once.
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
    """Tells how many keys of an index are no larger than a number."""

    def of(self, number: int) -> int:
        """Return the rank of one number."""

    def of_all(self, numbers: Int64Array, ranks: Int64Array) -> None:
        """Write the ranks of many numbers; both are of the same length."""


def wire_ranks(data: Buffer, size: int, width: int) -> WireRanks:
    """Return what tells the rank of any number among the keys of an index.

    Args:
        data: The index, held as long as what is returned.
        size: Bytes of an entry.
        width: Bytes of the big-endian key in front of it: 4 or 8.
    """
    if chosen_kernel() is Kernel.COMPILED:
        from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may not be there

        return _kernel.WireRanks(data, size, width)
    return _PythonRanks(data, size, width)


class _PythonRanks:
    """The same without the kernel."""

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
        """Write the ranks of many numbers, for which all keys are turned round once."""
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
