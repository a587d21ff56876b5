"""The content of an object to be put: bytes in memory or a file, read in pieces."""

import io
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from tieredfs.errors import ClosedError, InvalidArgumentError, NotFoundError

__all__ = [
    "PIECE_BYTES",
    "BufferContent",
    "Content",
    "ContentReader",
    "FileContent",
    "opened",
    "pieces",
]

PIECE_BYTES = 8 << 20
"""Bytes of a piece, where a content or a log is read or sent a piece at a time."""


class Content(Protocol):
    """Bytes of a known length that several threads may read concurrently."""

    @property
    def size(self) -> int:
        """Total number of bytes."""

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``."""


def pieces(content: Content) -> Iterator[tuple[int, bytes]]:
    """Yield a content in pieces of a few MiB, each with its start position."""
    for start in range(0, content.size, PIECE_BYTES):
        yield start, content.read(start, min(start + PIECE_BYTES, content.size))


class ContentReader(io.RawIOBase):
    """A file object over a content, for a client that reads what it sends.

    Attributes:
        failure: The error that the content raised, which a client may mistake for a
            lost connection; None when the content could be read.
    """

    def __init__(self, content: Content) -> None:
        """Start at the first byte of ``content``."""
        super().__init__()
        self.failure: Exception | None = None
        self._content = content
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; empty at the end."""
        end = self._content.size
        if size >= 0:
            end = min(end, self._at + size)
        try:
            data = self._content.read(self._at, end)
        except Exception as error:
            self.failure = error
            raise
        self._at = end
        return data


class BufferContent:
    """Bytes in memory."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        """Refer to ``data``, which must not change during the put.

        Raises:
            InvalidArgumentError: ``data`` is not a buffer.
        """
        self._data = data if isinstance(data, bytes) else _flat(data)
        self.size = len(self._data)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``; a whole ``bytes`` object is not copied."""
        return bytes(self._data[start:end])


def _flat(data: bytearray | memoryview) -> bytes | memoryview:
    """Return the bytes of a buffer; only a non-contiguous buffer is copied."""
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError) as error:
        msg = f"only bytes and other buffers can be put: {error}"
        raise InvalidArgumentError(msg) from error
    # An empty one of several dimensions cannot be cast either.
    return view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()


class FileContent:
    """An open regular file, of which each piece is read at its position.

    A read after the put has ended is an error, for example one by a part whose upload
    was given up. The descriptor's number may belong to another file by then, and the
    bytes of such a file have been seen to be uploaded.
    """

    def __init__(self, name: Path, descriptor: int, size: int) -> None:
        """Take over a descriptor."""
        self._name = name
        self._descriptor: int | None = descriptor
        self._lock = threading.Lock()
        self.size = size

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``.

        Raises:
            InvalidArgumentError: The file has become shorter since it was opened.
            ClosedError: The put has ended.
        """
        pieces = []
        with self._own_descriptor() as descriptor:
            while start < end:
                piece = os.pread(descriptor, end - start, start)
                if not piece:
                    msg = f"{self._name} has become shorter while it was read"
                    raise InvalidArgumentError(msg)
                pieces.append(piece)
                start += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Close the file; a read in progress may finish its piece."""
        with self._lock:
            descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    @contextmanager
    def _own_descriptor(self) -> Iterator[int]:
        with self._lock:
            if self._descriptor is None:
                msg = f"{self._name} is closed: the put has ended"
                raise ClosedError(msg)
            descriptor = os.dup(self._descriptor)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


@contextmanager
def opened(source: Path | Content) -> Iterator[Content]:
    """Open a file to be put, with its current size; yield a content unchanged.

    Raises:
        NotFoundError: The file does not exist.
        InvalidArgumentError: ``source`` is not a regular file, so its size is unknown.
    """
    if not isinstance(source, Path):
        yield source
        return
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError as error:
        msg = f"not found: {source}"
        raise NotFoundError(msg) from error
    try:
        found = os.fstat(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    content = FileContent(source, descriptor, found.st_size)
    try:
        if not stat.S_ISREG(found.st_mode):
            msg = f"{source} is not a regular file"
            raise InvalidArgumentError(msg)
        yield content
    finally:
        content.close()
