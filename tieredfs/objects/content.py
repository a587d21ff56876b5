"""What is to be put: bytes in memory or a file, read piece by piece."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tieredfs.errors import InvalidArgumentError, NotFoundError

__all__ = ["BufferContent", "Content", "FileContent", "opened", "pieces"]

_PIECE = 8 << 20


class Content(Protocol):
    """Bytes of a known length that several threads read at once."""

    @property
    def size(self) -> int:
        """Bytes in all."""

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``."""


def pieces(content: Content) -> Iterator[tuple[int, bytes]]:
    """Yield all of a content, a few MiB at a time, each with where it begins."""
    for start in range(0, content.size, _PIECE):
        yield start, content.read(start, min(start + _PIECE, content.size))


class BufferContent:
    """Bytes in memory."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        """Look at ``data``, which must not change meanwhile."""
        self._data = data if isinstance(data, bytes) else memoryview(data).cast("B")
        self.size = len(self._data)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``; all of a ``bytes`` are not copied."""
        return bytes(self._data[start:end])


class FileContent:
    """A regular file that was opened; pieces are read from where they lie."""

    def __init__(self, name: Path, descriptor: int, size: int) -> None:
        """Take a descriptor, which stays the caller's."""
        self._name = name
        self._descriptor = descriptor
        self.size = size

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``.

        Raises:
            InvalidArgumentError: The file has become shorter since it was opened.
        """
        pieces = []
        while start < end:
            piece = os.pread(self._descriptor, end - start, start)
            if not piece:
                msg = f"{self._name} has become shorter while it was read"
                raise InvalidArgumentError(msg)
            pieces.append(piece)
            start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)


@contextmanager
def opened(source: Path) -> Iterator[FileContent]:
    """Open a file to be put; its size is that of now.

    Raises:
        NotFoundError: There is none.
        InvalidArgumentError: It is no regular file: its size is not known.
    """
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        msg = f"not found: {source}"
        raise NotFoundError(msg) from error
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            msg = f"{source} is no regular file"
            raise InvalidArgumentError(msg)
        yield FileContent(source, descriptor, found.st_size)
    finally:
        os.close(descriptor)
