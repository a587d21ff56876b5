"""Compress and decompress the records of a batch, as Kafka's clients do.

Kafka's headers do not say how large the records will be, so the output is bounded
here. Java writes snappy in xerial blocks, librdkafka writes it raw; lz4 is the frame
format; zstd and lz4 often come without a content size. What is written here Java's
client can read: it takes no lz4 blocks that depend on one another.
"""

import struct
from collections.abc import Iterator

import pyarrow as pa

from tieredfs.errors import CorruptBatchError
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.compression.bounded_output import (
    MalformedDataError,
    TooMuchOutputError,
)
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.registry import decompressor
from tieredfs.format.compression.snappy_blocks import XERIAL_BLOCK_SIZE, XERIAL_MAGIC

__all__ = [
    "MAX_BATCH_LIMIT",
    "MAX_DECOMPRESSED",
    "MIN_BATCH_LIMIT",
    "compress",
    "decompress",
]

MAX_DECOMPRESSED = 256 << 20
"""Bytes that the records of one batch may have, unless a user says that more are legal;
above it is a decompression bomb."""

MAX_BATCH_LIMIT = (1 << 31) - 1
"""The largest limit that may be asked for: what a buffer of Kafka's client can have."""

MIN_BATCH_LIMIT = 4 << 20
"""The smallest one: up to 2 MiB small batches are decompressed together."""

_PACKED = {Codec.GZIP: "gzip", Codec.ZSTD: "zstd"}
_SNAPPY = pa.Codec("snappy")
_XERIAL_VERSIONS = struct.pack(">ii", 1, 1)
_XERIAL_BLOCK = 32 << 10
_LZ4 = pa.Codec("lz4_raw")
# Magic; version 1 with independent blocks of 64 KiB; the checksum of these two bytes.
_LZ4_HEADER = bytes.fromhex("04224d18 6040 82")
_LZ4_BLOCK = 64 << 10
_LZ4_SIZE = struct.Struct("<I")
_LZ4_STORED = 1 << 31


def decompress(
    codec: Codec,
    data: Buffer,
    *,
    limit: int = MAX_DECOMPRESSED,
    name: str = "batch",
    package: str | None = None,
    limit_name: str | None = None,
) -> memoryview:
    """Return the records of a batch as they were before compression.

    Args:
        codec: How they are compressed.
        data: Their stored bytes.
        limit: Most bytes that may come out. No more than this and 1 MiB is allocated,
            beside what a decompressor needs to work: for zstd a window of at most
            128 MiB, of which it touches no more than it has written.
        name: How to call the batch in an error.
        package: Which of the ``PACKAGES`` of the codec to use, in place of the fastest
            that is installed.
        limit_name: What the user raises to read more, in the error.

    Raises:
        CorruptBatchError: The bytes are not what the codec writes, or more than
            ``limit`` bytes come out.
        MemoryError: The machine does not have the memory for them.
    """
    view = byte_view(data)
    if codec is Codec.NONE:
        return view
    try:
        return decompressor(codec, package)(view, limit)
    except MalformedDataError as error:
        msg = f"{name}: not {codec.name.lower()}: {error}"
        raise CorruptBatchError(msg) from error
    except TooMuchOutputError as error:
        hint = "" if limit_name is None else f": a larger {limit_name} reads it"
        msg = f"{name}: decompresses to more than {limit} bytes{hint}"
        raise CorruptBatchError(msg) from error


def compress(codec: Codec, data: Buffer) -> bytes:
    """Return the records of a batch as they are stored."""
    view = byte_view(data)
    if codec is Codec.NONE:
        return bytes(view)
    if codec is Codec.SNAPPY:
        parts = [XERIAL_MAGIC + _XERIAL_VERSIONS]
        for block in _cut(view, _XERIAL_BLOCK):
            packed = _SNAPPY.compress(pa.py_buffer(block), asbytes=True)
            parts += [XERIAL_BLOCK_SIZE.pack(len(packed)), packed]
        return b"".join(parts)
    if codec is Codec.LZ4:
        return _lz4_frame(view)
    packed = pa.compress(pa.py_buffer(view), codec=_PACKED[codec], asbytes=True)
    return bytes(packed)


def _lz4_frame(view: memoryview) -> bytes:
    """Write a frame of independent blocks; Arrow's own depend on one another."""
    parts = [_LZ4_HEADER]
    for block in _cut(view, _LZ4_BLOCK):
        packed = _LZ4.compress(pa.py_buffer(block), asbytes=True)
        if len(packed) < len(block):
            parts += [_LZ4_SIZE.pack(len(packed)), packed]
        else:
            parts += [_LZ4_SIZE.pack(len(block) | _LZ4_STORED), bytes(block)]
    return b"".join((*parts, _LZ4_SIZE.pack(0)))


def _cut(view: memoryview, size: int) -> Iterator[memoryview]:
    return (view[start : start + size] for start in range(0, len(view), size))
