"""Compress and decompress the records of a batch, as Kafka's clients do.

Kafka's headers do not say how large the records will be, so the output is bounded
here. Java writes snappy in xerial blocks, librdkafka writes it raw; lz4 is the frame
format; zstd and lz4 often come without a content size. What is written here Java's
client can read: it takes no lz4 blocks that depend on one another.
"""

import io
import struct
from collections.abc import Iterator

import pyarrow as pa

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch_header import Codec
from tieredfs.format.buffers import Buffer, byte_view

__all__ = ["MAX_DECOMPRESSED", "compress", "decompress"]

MAX_DECOMPRESSED = 256 << 20
"""Bytes that the records of one batch may have; above it is a decompression bomb."""

_STREAMS = {Codec.GZIP: "gzip", Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}
_READ = 1 << 20
_XERIAL = b"\x82SNAPPY\x00"
_XERIAL_HEADER = 16
_BLOCK = struct.Struct(">i")
_PREAMBLE_BYTES = 5
_MORE = 0x80  # set in every byte of a varint but its last
_SNAPPY_RATIO = 64  # a copy of 64 bytes takes at least two
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
    codec: Codec, data: Buffer, *, limit: int = MAX_DECOMPRESSED, name: str = "batch"
) -> memoryview:
    """Return the records of a batch as they were before compression.

    Args:
        codec: How they are compressed.
        data: Their stored bytes.
        limit: Most bytes that may come out; never more than this and one read of
            1 MiB is allocated.
        name: How to call the batch in an error.

    Raises:
        CorruptBatchError: The bytes are not what the codec writes, or more than
            ``limit`` bytes come out.
    """
    view = byte_view(data)
    if codec is Codec.NONE:
        return view
    try:
        if codec is Codec.SNAPPY:
            return _snappy(view, limit, name)
        return _stream(_STREAMS[codec], view, limit, name)
    except (OSError, pa.ArrowException) as error:
        msg = f"{name}: not {codec.name.lower()}: {error}"
        raise CorruptBatchError(msg) from error


def compress(codec: Codec, data: Buffer) -> bytes:
    """Return the records of a batch as they are stored."""
    view = byte_view(data)
    if codec is Codec.NONE:
        return bytes(view)
    if codec is Codec.SNAPPY:
        parts = [_XERIAL + _XERIAL_VERSIONS]
        for block in _cut(view, _XERIAL_BLOCK):
            packed = _SNAPPY.compress(pa.py_buffer(block), asbytes=True)
            parts += [_BLOCK.pack(len(packed)), packed]
        return b"".join(parts)
    if codec is Codec.LZ4:
        return _lz4_frame(view)
    packed = pa.compress(pa.py_buffer(view), codec=_STREAMS[codec], asbytes=True)
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


def _stream(codec: str, view: memoryview, limit: int, name: str) -> memoryview:
    out = io.BytesIO()
    source = pa.BufferReader(pa.py_buffer(view))
    with pa.CompressedInputStream(source, codec) as stream:
        while piece := stream.read(_READ):
            out.write(piece)
            if out.tell() > limit:
                raise _bomb(name, limit)
    return out.getbuffer().toreadonly()


def _snappy(view: memoryview, limit: int, name: str) -> memoryview:
    if view[: len(_XERIAL)] != _XERIAL:
        return _snappy_block(view, limit, name)
    out = io.BytesIO()
    position = _XERIAL_HEADER
    while position < len(view):
        if len(view) - position < _BLOCK.size:
            msg = f"{name}: snappy block is cut off"
            raise CorruptBatchError(msg)
        (length,) = _BLOCK.unpack_from(view, position)
        position += _BLOCK.size
        if not 0 <= length <= len(view) - position:
            msg = f"{name}: snappy block of {length} bytes is cut off"
            raise CorruptBatchError(msg)
        block = view[position : position + length]
        out.write(_snappy_block(block, limit - out.tell(), name))
        position += length
    return out.getbuffer().toreadonly()


def _snappy_block(view: memoryview, limit: int, name: str) -> memoryview:
    """Decompress one raw block, whose preamble is its size as a varint."""
    size = 0
    for index, byte in enumerate(view[:_PREAMBLE_BYTES]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < _MORE:
            break
    else:
        msg = f"{name}: snappy preamble is cut off"
        raise CorruptBatchError(msg)
    if size > limit:
        raise _bomb(name, limit)
    if size > _SNAPPY_RATIO * len(view):
        msg = f"{name}: {len(view)} bytes of snappy cannot hold {size}"
        raise CorruptBatchError(msg)
    buffer = _SNAPPY.decompress(pa.py_buffer(view), decompressed_size=size)
    return memoryview(buffer).cast("B")


def _bomb(name: str, limit: int) -> CorruptBatchError:
    return CorruptBatchError(f"{name}: decompresses to more than {limit} bytes")
