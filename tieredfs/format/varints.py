"""Kafka's zigzag varints, many at a time.

Source: Kafka's ByteUtils.readVarint and readVarlong.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs.format.buffers import Int64Array

__all__ = [
    "VARINT",
    "VARLONG",
    "VarintError",
    "encode_varint",
    "encode_varints",
    "read_varint",
    "varint_sizes",
    "varints",
]

VARINT: Final = 5
VARLONG: Final = 10
"""Maximum size in bytes of a varint of 32 bits (VARINT) and 64 bits (VARLONG)."""

_MORE = 0x80
_BITS = 0x7F


class VarintError(ValueError):
    """A varint is longer than its type allows or runs past the end."""


def varints(
    data: npt.NDArray[np.uint8], positions: Int64Array, longest: int
) -> tuple[Int64Array, Int64Array]:
    """Decode one varint at each position.

    A position past the end of ``data`` reads its last byte, so positions need no check
    beforehand: the caller compares the returned positions with the bounds.

    Args:
        data: The bytes; at least one.
        positions: Start of each varint.
        longest: VARINT or VARLONG.

    Returns:
        The values, and the positions after them.

    Raises:
        VarintError: A varint has more than ``longest`` bytes.
    """
    first = data.take(positions, mode="clip")
    values = (first & _BITS).astype(np.uint64)
    ends = positions + 1
    more = np.flatnonzero(first & _MORE)
    shift = 7
    while more.size:
        if shift >= 7 * longest:
            raise VarintError
        byte = data.take(ends[more], mode="clip")
        values[more] |= (byte & _BITS).astype(np.uint64) << np.uint64(shift)
        ends[more] += 1
        more = more[byte >= _MORE]
        shift += 7
    signed = values.view(np.int64)
    return (signed >> 1) & np.int64((1 << 63) - 1) ^ -(signed & 1), ends


def encode_varint(value: int) -> bytes:
    """Encode one varint of up to 64 bits."""
    zigzag = value << 1 if value >= 0 else (~value << 1) | 1
    out = bytearray()
    while zigzag >= _MORE:
        out.append(zigzag & _BITS | _MORE)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def varint_sizes(values: Int64Array) -> Int64Array:
    """Return the encoded size of each value in bytes."""
    sizes = np.ones(values.shape, np.int64)
    left = _zigzag(values) >> np.uint64(7)
    while left.any():
        sizes += left != 0
        left >>= np.uint64(7)
    return sizes


def encode_varints(values: Int64Array) -> tuple[npt.NDArray[np.uint8], Int64Array]:
    """Encode varints of up to 64 bits.

    Returns:
        The bytes of all varints, concatenated, and the size of each.
    """
    sizes = varint_sizes(values)
    ends = np.cumsum(sizes)
    octets = np.empty(sizes.sum(), np.uint8)
    at, left = ends - sizes, _zigzag(values)
    while left.size:
        more = left > _BITS
        octets[at] = (left | more * np.uint64(_MORE)).astype(np.uint8)
        at, left = at[more] + 1, left[more] >> np.uint64(7)
    return octets, sizes


def _zigzag(values: Int64Array) -> npt.NDArray[np.uint64]:
    bits = values << 1
    bits ^= values >> 63
    return bits.view(np.uint64)


def read_varint(data: memoryview, position: int, end: int) -> tuple[int, int]:
    """Decode the 32-bit varint at ``position``.

    Returns:
        The value, and the position after it.

    Raises:
        VarintError: The varint does not end before ``end`` or has more than five bytes.
    """
    value = 0
    for index in range(VARINT):
        if position >= end:
            break
        byte = data[position]
        position += 1
        value |= (byte & _BITS) << (7 * index)
        if byte < _MORE:
            return (value >> 1) ^ -(value & 1), position
    raise VarintError
