"""A segment's log before it is stored: a file, bytes, or a log read in place."""

import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

from tieredfs.errors import CorruptObjectError, NotFoundError
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.checksum import crc32c
from tieredfs.objects.content import PIECE_BYTES

__all__ = [
    "LogContent",
    "LogSource",
    "log_in_file",
    "log_in_memory",
    "log_in_place",
    "open_log",
]

_BLOCK: Final = 256 << 10
"""Bytes of a log that share a checksum, and the least that is read. Parts of an
upload are whole MiB, so a part never splits a block."""

_Fetch = Callable[[int, int], memoryview]
"""Returns the bytes ``[from, to)`` of a log."""


@dataclass(frozen=True, slots=True)
class LogSource:
    """The bytes of a log, read on demand, by several threads.

    Attributes:
        size: Bytes of the log.
        name: Log name used in error messages.
        fetch: Returns the bytes ``[from, to)``, or raises a CorruptObjectError if they
            no longer exist.
        is_steady: Whether reading a byte again gives the same byte or an error. A file
            that other processes may write is not steady.
    """

    size: int
    name: str
    fetch: _Fetch
    is_steady: bool

    def pieces(self, size: int = PIECE_BYTES) -> Iterator[memoryview]:
        """Yield the whole log, in order, ``size`` bytes at a time."""
        for start in range(0, self.size, size):
            yield self.fetch(start, min(start + size, self.size))


@dataclass(frozen=True, slots=True)
class LogContent:
    """A log and its tail, as the content of an object.

    Attributes:
        log: The log.
        tail: The bytes that follow the log.
    """

    log: LogSource
    tail: bytes = b""

    @property
    def size(self) -> int:
        """Total bytes."""
        return self.log.size + len(self.tail)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``."""
        length = self.log.size
        tail = self.tail[max(0, start - length) : max(0, end - length)]
        if start >= length:
            return tail
        return b"".join((self.log.fetch(start, min(end, length)), tail))


@contextmanager
def open_log(log: Path | Buffer, name: str) -> Iterator[LogSource]:
    """Open the log of a LogSegmentData.

    A file is held open, so replacing it by a rename does not change what is read.

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
            yield log_in_file(file, os.fstat(file.fileno()).st_size, name)
    else:
        yield log_in_memory(log, name)


def log_in_memory(data: Buffer, name: str) -> LogSource:
    """Return the log in a buffer that does not change.

    Args:
        data: The log.
        name: Log name used in error messages.
    """
    view = byte_view(data)
    return LogSource(
        len(view), name, lambda start, end: view[start:end], is_steady=True
    )


def log_in_file(
    file: IO[bytes], size: int, name: str, *, is_steady: bool = False
) -> LogSource:
    """Return the log in a file that stays open.

    Args:
        file: The file; its position does not matter.
        size: Bytes of the log.
        name: Log name used in error messages.
        is_steady: Whether no other process can write the file.
    """

    def fetch(start: int, end: int) -> memoryview:
        found = b"".join(_read(file, start, end))
        if len(found) != end - start:
            msg = f"{name}: only {len(found)} of the bytes [{start}, {end}) exist"
            raise CorruptObjectError(msg)
        return memoryview(found)

    return LogSource(size, name, fetch, is_steady=is_steady)


def log_in_place(
    fetch: _Fetch, size: int, name: str, *, pieces: Iterable[Buffer]
) -> LogSource:
    """Return a log that is read in place and must not change between reads.

    Later reads are compared with the checksums of the first read: a log that is
    rewritten meanwhile is an error, and never half old and half new.

    Args:
        fetch: Returns the bytes ``[from, to)``.
        size: Bytes of the log.
        name: Log name used in error messages.
        pieces: The whole log in order, which is read immediately.

    Raises:
        CorruptObjectError: It has another size.
    """
    sums = array("I", _sums(pieces))
    if len(sums) != -(-size // _BLOCK):
        msg = f"{name}: its log no longer has {size} bytes"
        raise CorruptObjectError(msg)

    def fetch_same(start: int, end: int) -> memoryview:
        first = start // _BLOCK
        low, high = first * _BLOCK, min(size, -(-end // _BLOCK) * _BLOCK)
        try:
            found = fetch(low, high)
        except NotFoundError as error:
            msg = f"{name}: its log was removed while it was read"
            raise CorruptObjectError(msg) from error
        for number, at in enumerate(range(0, high - low, _BLOCK), start=first):
            if crc32c(found[at : at + _BLOCK]) != sums[number]:
                msg = f"{name}: its log has changed while it was read"
                raise CorruptObjectError(msg)
        return found[start - low : end - low]

    return LogSource(size, name, fetch_same, is_steady=True)


def _read(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    """Read a range: no system reads 2 GiB in one call."""
    while start < end and (piece := os.pread(file.fileno(), end - start, start)):
        yield piece
        start += len(piece)


def _sums(pieces: Iterable[Buffer]) -> Iterator[int]:
    """Yield the checksum of each block of data in pieces of any size."""
    have, total = 0, 0
    for piece in pieces:
        view = byte_view(piece)
        while len(view):
            part, view = view[: _BLOCK - have], view[_BLOCK - have :]
            total = crc32c(part, total)
            have += len(part)
            if have == _BLOCK:
                yield total
                have, total = 0, 0
    if have:
        yield total
