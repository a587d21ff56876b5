"""Cut a log into chunks as it is read, and write what is stored of each."""

from array import array
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

__all__ = ["ChunkWriter"]

_INT32: Final = "i"


class ChunkWriter:
    """Write the chunks of a log that comes in pieces of any size, one at a time."""

    def __init__(
        self,
        chunk_size: int,
        transform: Callable[[bytes], bytes],
        write: Callable[[bytes], object],
    ) -> None:
        """Begin a log.

        Args:
            chunk_size: Bytes of the log in each chunk but the last.
            transform: Returns what is stored of a chunk.
            write: Takes what is stored of each chunk, in order.
        """
        self._chunk_size = chunk_size
        self._transform = transform
        self._write = write
        self._begun = bytearray()
        self._sizes = array(_INT32)

    def add(self, piece: memoryview) -> None:
        """Take the next piece of the log."""
        start = 0
        while start < len(piece):
            end = start + self._chunk_size - len(self._begun)
            self._begun += piece[start:end]
            start = end
            if len(self._begun) == self._chunk_size:
                self._flush()

    def finish(self) -> npt.NDArray[np.int64]:
        """Write the last chunk, and return the stored size of each."""
        if self._begun:
            self._flush()
        return np.array(self._sizes, np.int64)

    def _flush(self) -> None:
        stored = self._transform(bytes(self._begun))
        self._begun.clear()
        self._sizes.append(len(stored))
        self._write(stored)
