"""What is to be put: bytes in memory or a file, read piece by piece."""

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
    "BufferContent",
    "Content",
    "ContentReader",
    "FileContent",
    "opened",
    "pieces",
]

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


class ContentReader(io.RawIOBase):
    """A content as a file, for a client that reads what it sends.

    Attributes:
        failure: Why the content could not be read, which a client may take for a lost
            connection; None when it could.
    """

    def __init__(self, content: Content) -> None:
        """Begin at its first byte."""
        super().__init__()
        self.failure: Exception | None = None
        self._content = content
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; none when there are no more."""
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
        """Look at ``data``, which must not change meanwhile.

        Raises:
            InvalidArgumentError: It is no buffer.
        """
        self._data = data if isinstance(data, bytes) else _flat(data)
        self.size = len(self._data)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``; all of a ``bytes`` are not copied."""
        return bytes(self._data[start:end])


def _flat(data: bytearray | memoryview) -> bytes | memoryview:
    """Return the bytes of a buffer; only those that do not lie in order are copied."""
    try:
        view = memoryview(data)
    except (TypeError, ValueError, BufferError) as error:
        msg = f"only bytes and other buffers can be put: {error}"
        raise InvalidArgumentError(msg) from error
    # An empty one of several dimensions cannot be cast either.
    return view.cast("B") if view.c_contiguous and view.nbytes else view.tobytes()


class FileContent:
    """A regular file that was opened; pieces are read from where they lie.

    Who reads when the put has ended, such as a part whose upload nobody waits for any
    more, gets nothing: the number of a descriptor may be another file's by then, whose
    bytes were seen to be uploaded.
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
        """Close the file; those who read it now may go on to the end of a piece."""
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
    """Open a file to be put; its size is that of now. A content is open already.

    Raises:
        NotFoundError: There is none.
        InvalidArgumentError: It is no regular file: its size is not known.
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
            msg = f"{source} is no regular file"
            raise InvalidArgumentError(msg)
        yield content
    finally:
        content.close()
