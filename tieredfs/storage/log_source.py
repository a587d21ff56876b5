"""A segment's log before it is stored: a file, or bytes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tieredfs.errors import CorruptObjectError, NotFoundError
from tieredfs.format.buffers import byte_view

__all__ = ["LogSource", "open_log"]

_PIECE = 8 << 20


@dataclass(frozen=True, slots=True)
class LogSource:
    """The bytes of a log, read where they are needed.

    A file is held open, so a rename over its name changes nothing of what is read.

    Attributes:
        size: Bytes of the log when it was opened.
        name: How to call it in an error.
    """

    size: int
    name: str
    _data: memoryview | BinaryIO

    def fetch(self, start: int, end: int) -> memoryview:
        """Return the bytes ``[start, end)``.

        Raises:
            CorruptObjectError: The file has been cut since it was opened.
        """
        if isinstance(self._data, memoryview):
            return self._data[start:end]
        found = os.pread(self._data.fileno(), end - start, start)
        if len(found) != end - start:
            msg = f"{self.name}: {len(found)} of the bytes [{start}, {end}) are there"
            raise CorruptObjectError(msg)
        return memoryview(found)

    def pieces(self, size: int = _PIECE) -> Iterator[memoryview]:
        """Yield the whole log, in order, ``size`` bytes at a time."""
        for start in range(0, self.size, size):
            yield self.fetch(start, min(start + size, self.size))


@contextmanager
def open_log(log: Path | bytes | memoryview, name: str) -> Iterator[LogSource]:
    """Open the log of a LogSegmentData.

    Raises:
        NotFoundError: There is no such file.
    """
    if isinstance(log, Path):
        try:
            opened = log.open("rb", buffering=0)
        except FileNotFoundError as error:
            msg = f"not found: {log}, the log of {name}"
            raise NotFoundError(msg) from error
        with opened as file:
            yield LogSource(os.fstat(file.fileno()).st_size, name, file)
    else:
        view = byte_view(log)
        yield LogSource(len(view), name, view)
