"""Compress and decompress the records of a batch, as Kafka's clients do.

Kafka's batch headers do not contain the decompressed size, so the output is bounded
here. Java writes snappy in xerial blocks, librdkafka writes it raw. lz4 is the frame
format. zstd and lz4 data often has no content size. Java's client can read all that is
written here: it does not accept lz4 blocks that depend on one another.
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
from tieredfs.options import DEFAULTS

__all__ = ["MAX_DECOMPRESSED", "compress", "decompress"]

MAX_DECOMPRESSED = DEFAULTS.max_decompressed_bytes
"""Default maximum size of the records of one batch, decompressed, in bytes: larger
output is treated as a decompression bomb unless the user sets another limit."""

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
    """Decompress the records of a batch.

    Args:
        codec: Codec of the data.
        data: The compressed records.
        limit: Maximum size of the output in bytes. At most this and 1 MiB is allocated,
            beside the decompressor's own memory: for zstd a window of at most 128 MiB,
            of which it touches no more than it has written.
        name: Batch name used in error messages.
        package: Package in ``PACKAGES`` to decompress with; None for the fastest that
            is installed.
        limit_name: Option to raise to read more, named in the error message.

    Raises:
        CorruptBatchError: The data is not valid for the codec, or decompresses to more
            than ``limit`` bytes.
        MemoryError: The machine does not have enough memory for the output.
    """
    view = byte_view(data)
    if codec is Codec.NONE:
        return view
    try:
        return decompressor(codec, package)(view, limit)
    except MalformedDataError as error:
        msg = f"{name}: invalid {codec.name.lower()} data: {error}"
        raise CorruptBatchError(msg) from error
    except TooMuchOutputError as error:
        hint = "" if limit_name is None else f": raise {limit_name} to read it"
        msg = f"{name}: decompresses to more than {limit} bytes{hint}"
        raise CorruptBatchError(msg) from error


def compress(codec: Codec, data: Buffer) -> bytes:
    """Compress the records of a batch."""
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
    """Write a frame of independent blocks; Arrow's blocks depend on one another."""
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
