"""The log part of a segment object: unchanged, or in chunks compressed with zstd.

Source: ``formats.md`` of the project, "The native layout: single-object, version 1".
All chunks cover equally many bytes of the log, so a range of the log is a range of
chunks.
"""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Final, Literal

from tieredfs.errors import (
    CorruptBatchError,
    CorruptObjectError,
    UnsupportedFormatError,
)
from tieredfs.format.buffers import Buffer
from tieredfs.format.checksum import crc32c
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import MAX_DECOMPRESSED, compress, decompress
from tieredfs.format.segment.tail import Chunks, LogPart
from tieredfs.objects.content import PIECE_BYTES

__all__ = [
    "CHUNK_SIZE",
    "Compression",
    "LogWriter",
    "check_chunks",
    "chunk_bounds",
    "read_chunks",
    "stream_stored",
]

Compression = Literal["zstd"]

CHUNK_SIZE: Final = 4 << 20
"""Bytes of log in a chunk, the smallest unit that a read fetches."""


class LogWriter:
    """Write a log in its stored form, a piece at a time."""

    def __init__(
        self, out: Callable[[Buffer], object], compression: Compression | None
    ) -> None:
        """Create a writer; nothing is written yet.

        Args:
            out: Takes the stored bytes, in order.
            compression: How each chunk is compressed; None to store the log unchanged.
        """
        self._out = out
        self._compression = compression
        self._rest = b""
        self._size = 0
        self._crc = 0
        self._lengths: list[int] = []

    def write(self, piece: memoryview) -> None:
        """Add the next bytes of the log."""
        self._size += len(piece)
        if self._compression is None:
            self._store(piece)
            return
        held = memoryview(b"".join((self._rest, piece)) if self._rest else piece)
        whole = len(held) - len(held) % CHUNK_SIZE
        for start in range(0, whole, CHUNK_SIZE):
            self._store(compress(Codec.ZSTD, held[start : start + CHUNK_SIZE]))
        self._rest = bytes(held[whole:])

    def finish(self) -> LogPart:
        """Write the rest, and return what the manifest has to state."""
        if self._rest:
            self._store(compress(Codec.ZSTD, memoryview(self._rest)))
        lengths, chunks = tuple(self._lengths), None
        if self._compression is not None:
            chunks = Chunks(CHUNK_SIZE, self._compression, lengths)
        return LogPart(sum(lengths), self._size, self._crc, chunks)

    def _store(self, stored: bytes | memoryview) -> None:
        self._out(stored)
        self._crc = crc32c(stored, self._crc)
        self._lengths.append(len(stored))


def read_chunks(
    fetch: Callable[[int, int], memoryview],
    log: LogPart,
    start: int,
    end: int,
    *,
    name: str,
) -> memoryview:
    """Return the bytes from ``start`` on of the chunks that have ``[start, end)``.

    Args:
        fetch: Returns a range of the stored bytes; it is called once.
        log: The log's entry in the manifest.
        start: First byte of the log.
        end: Byte after the last.
        name: Object name used in error messages.

    Raises:
        CorruptObjectError: The chunk sizes are inconsistent, or a chunk is corrupt.
        UnsupportedFormatError: They are compressed with another codec.
    """
    chunks = check_chunks(log, name=name)
    if start >= end:
        return memoryview(b"")
    size = chunks.original_size
    first, last = _chunk_numbers(chunks, start, end)
    bounds = [0, *accumulate(chunks.lengths)]
    stored = fetch(bounds[first], bounds[last + 1])
    parts: list[memoryview] = []
    for number in range(first, last + 1):
        begin = bounds[number] - bounds[first]
        held = stored[begin : begin + chunks.lengths[number]]
        expected = min(size, log.original_length - number * size)
        where = f"{name}: chunk {number}"
        try:
            found = decompress(Codec.ZSTD, held, limit=expected, name=where)
        except CorruptBatchError as error:
            raise CorruptObjectError(str(error)) from error
        if len(found) != expected:
            msg = f"{where} has {len(found)} bytes of log, not {expected}"
            raise CorruptObjectError(msg)
        parts.append(found)
    whole = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
    # Some decompressors return a writable buffer.
    return whole[start - first * size :].toreadonly()


def chunk_bounds(log: LogPart, start: int, end: int, *, name: str) -> tuple[int, int]:
    """Return what ``read_chunks`` fetches and returns for a range that is not empty.

    Args:
        log: The log's entry in the manifest.
        start: First byte of the log.
        end: Byte after the last.
        name: Object name used in error messages.

    Returns:
        The stored bytes of the chunks, and the position in the log where they end.

    Raises:
        CorruptObjectError: The chunk sizes are inconsistent.
        UnsupportedFormatError: They are compressed with another codec.
    """
    chunks = check_chunks(log, name=name)
    first, last = _chunk_numbers(chunks, start, end)
    stored = sum(chunks.lengths[first : last + 1])
    return stored, min((last + 1) * chunks.original_size, log.original_length)


def stream_stored(
    fetch: Callable[[int, int], memoryview], log: LogPart, *, name: str
) -> Iterator[memoryview]:
    """Yield a whole log in order, and verify its checksum at the end.

    Args:
        fetch: Returns a range of the stored bytes.
        log: The log's entry in the manifest.
        name: Object name used in error messages.

    Raises:
        CorruptObjectError: The bytes are not those that were stored.
        UnsupportedFormatError: They are compressed with another codec.
    """
    crc = 0

    def summed(start: int, end: int) -> memoryview:
        nonlocal crc
        data = fetch(start, end)
        crc = crc32c(data, crc)
        return data

    chunked = log.chunks is not None
    size = check_chunks(log, name=name).original_size if chunked else PIECE_BYTES
    for start in range(0, log.original_length, size):
        end = min(start + size, log.original_length)
        if chunked:
            yield read_chunks(summed, log, start, end, name=name)
        else:
            yield summed(start, end)
    if crc != log.crc32c:
        msg = f"{name}: CRC-32C of the log is {crc:#010x}, stored is {log.crc32c:#010x}"
        raise CorruptObjectError(msg)


def _chunk_numbers(chunks: Chunks, start: int, end: int) -> tuple[int, int]:
    """Return the first and the last chunk of a range that is not empty."""
    return start // chunks.original_size, (end - 1) // chunks.original_size


def check_chunks(log: LogPart, *, name: str) -> Chunks:
    """Return the chunks of a log, after checking their sizes.

    Raises:
        CorruptObjectError: There are no chunks, or their sizes are inconsistent.
        UnsupportedFormatError: They are compressed with another codec.
    """
    chunks = log.chunks
    if chunks is None or not 0 < chunks.original_size <= MAX_DECOMPRESSED:
        msg = f"{name}: the manifest's chunks are missing or invalid"
        raise CorruptObjectError(msg)
    if chunks.codec != "zstd":
        msg = f"{name}: codec {chunks.codec!r} of the chunks is not supported"
        raise UnsupportedFormatError(msg)
    needed = -(-log.original_length // chunks.original_size)
    if len(chunks.lengths) != needed or sum(chunks.lengths) != log.length:
        msg = (
            f"{name}: {len(chunks.lengths)} chunks of {sum(chunks.lengths)} bytes are "
            f"not a log of {log.original_length} bytes stored in {log.length}"
        )
        raise CorruptObjectError(msg)
    return chunks
