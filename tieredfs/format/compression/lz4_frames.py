"""The frames of lz4 data: their header checksum, and the size of their output.

Kafka's old clients computed the header checksum over the frame's magic as well, and
every reader of version 0 has to accept it. Source: the LZ4 frame format; KAFKA-3160,
KIP-57.
"""

import struct
from typing import Final

from tieredfs.format.buffers import Buffer, byte_view

__all__ = ["lz4_size_hint", "repair_lz4_header"]

_MAGIC = bytes.fromhex("04224d18")
_CONTENT_SIZE, _BLOCK_CHECKSUM, _DICTIONARY = 0x08, 0x10, 0x01
_BLOCKS_AT: Final = 7
_BLOCK_MAX: Final = (0, 0, 0, 0, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
_STORED: Final = 1 << 31
_RATIO: Final = 255
_MASK = (1 << 32) - 1
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_LANE = struct.Struct("<I")


def repair_lz4_header(data: Buffer) -> bytes:
    """Return an lz4 frame with the header checksum that the format requires.

    Data that is not a frame is returned unchanged; the decompressor rejects it.
    """
    frame = bytearray(byte_view(data))
    start = len(_MAGIC)
    if frame.startswith(_MAGIC) and len(frame) > start:
        flags = frame[start]
        end = (
            start + 2 + 8 * bool(flags & _CONTENT_SIZE) + 4 * bool(flags & _DICTIONARY)
        )
        if end < len(frame):
            frame[end] = _xxh32(bytes(frame[start:end])) >> 8 & 0xFF
    return bytes(frame)


def lz4_size_hint(view: memoryview) -> int:
    """Return the maximum size of the first frame's output according to its blocks.

    The size is wrong when the data is damaged.
    """
    if len(view) < _BLOCKS_AT:
        return 0
    flags, max_block = view[4], _BLOCK_MAX[view[5] >> 4 & 7]
    at, behind, size = _BLOCKS_AT, 0, 0
    if flags & (_CONTENT_SIZE | _BLOCK_CHECKSUM | _DICTIONARY):
        at += 8 * bool(flags & _CONTENT_SIZE) + 4 * bool(flags & _DICTIONARY)
        behind = 4 * bool(flags & _BLOCK_CHECKSUM)
    last = len(view) - _LANE.size
    while at <= last:
        (length,) = _LANE.unpack_from(view, at)
        if not length:
            break
        if length < _STORED:
            size += min(max_block, _RATIO * length)
        else:
            length -= _STORED
            size += min(max_block, length)
        at += _LANE.size + length + behind
    return size


def _xxh32(data: bytes) -> int:
    """Hash fewer than 16 bytes."""
    first, second, third, fourth, fifth = _PRIMES
    lanes = len(data) // _LANE.size * _LANE.size
    value = fifth + len(data)
    for (lane,) in _LANE.iter_unpack(data[:lanes]):
        value = _rotated(value + lane * third, 17) * fourth
    for byte in data[lanes:]:
        value = _rotated(value + byte * fifth, 11) * first
    value &= _MASK
    value = (value ^ value >> 15) * second & _MASK
    value = (value ^ value >> 13) * third & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
