"""Snappy as Kafka's clients write it: one raw block, or a series of xerial blocks.

Java writes xerial blocks, librdkafka writes one raw block. A block begins with its
decompressed size, which is checked against the maximum that the block can contain.
"""

import struct
from collections.abc import Callable, Iterator

from tieredfs.format.compression.bounded_output import (
    MalformedDataError,
    TooMuchOutputError,
    allocate,
)

__all__ = ["XERIAL_BLOCK_SIZE", "XERIAL_MAGIC", "unpack_snappy"]

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_BLOCK_SIZE = struct.Struct(">i")

_XERIAL_HEADER = 16
_PREAMBLE = 5
_MORE = 0x80  # set in every byte of a varint but its last
_RATIO = 64  # a copy of 64 bytes takes at least two bytes


def unpack_snappy(
    view: memoryview, limit: int, unpack: Callable[[memoryview, memoryview], None]
) -> memoryview:
    """Decompress snappy data, each block straight into the output buffer.

    Args:
        view: The compressed bytes.
        limit: Maximum size of the output in bytes.
        unpack: Decompresses a raw block into a buffer of the size that it claims.

    Raises:
        MalformedDataError: A block is cut off, or claims more than it can contain.
        TooMuchOutputError: The blocks claim more than ``limit`` bytes.
    """
    if view[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        out = allocate(_claimed_size(view, limit))
        unpack(view, out)
        return out.toreadonly()
    total = 0
    for block in _xerial_blocks(view):
        total += _claimed_size(block, limit - total)
    out, at = allocate(total), 0
    for block in _xerial_blocks(view):  # no list: there may be millions of tiny blocks
        end = at + _claimed_size(block, limit)
        unpack(block, out[at:end])
        at = end
    return out.toreadonly()


def _xerial_blocks(view: memoryview) -> Iterator[memoryview]:
    at, end = _XERIAL_HEADER, len(view)
    if end < at:
        raise MalformedDataError("header is cut off")
    while at < end:
        if end - at < XERIAL_BLOCK_SIZE.size:
            raise MalformedDataError("block is cut off")
        (length,) = XERIAL_BLOCK_SIZE.unpack_from(view, at)
        at += XERIAL_BLOCK_SIZE.size
        if not 0 <= length <= end - at:
            raise MalformedDataError(f"block of {length} bytes is cut off")
        yield view[at : at + length]
        at += length


def _claimed_size(block: memoryview, limit: int) -> int:
    """Read the preamble of a raw block: its decompressed size as a varint."""
    size = shift = 0
    for byte in block[:_PREAMBLE]:
        size |= (byte & 0x7F) << shift
        if byte < _MORE:
            break
        shift += 7
    else:
        raise MalformedDataError("preamble is cut off")
    if size > limit:
        raise TooMuchOutputError
    if size > _RATIO * len(block):
        raise MalformedDataError(f"{len(block)} bytes cannot hold {size}")
    return size
