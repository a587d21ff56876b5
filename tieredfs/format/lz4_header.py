"""The header of an lz4 frame, whose checksum Kafka's clients once got wrong.

They took it over the frame's magic as well, and every reader of version 0 has to put up
with that. Source: the LZ4 frame format; KAFKA-3160, KIP-57.
"""

import struct

from tieredfs.format.buffers import Buffer, byte_view

__all__ = ["mend_lz4_header"]

_MAGIC = bytes.fromhex("04224d18")
_CONTENT_SIZE = 0x08
_DICTIONARY = 0x01
_MASK = (1 << 32) - 1
_PRIMES = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1)
_LANE = struct.Struct("<I")


def mend_lz4_header(data: Buffer) -> bytes:
    """Return an lz4 frame with the header checksum that the format asks for.

    What is no frame comes back as it is, for the decompressor to refuse.
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
