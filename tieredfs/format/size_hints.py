"""How many bytes seem to come out of compressed data, before it is decompressed.

No more than a hint: it may be wrong in either direction where the data is damaged or
was not written by Kafka's clients.
"""

import struct

__all__ = ["gzip_size_hint", "lz4_size_hint"]

_UINT = struct.Struct("<I")
_DEFLATE_RATIO = 1032  # a copy of 258 bytes takes at least two bits
_LZ4_RATIO = 255
_LZ4_BLOCKS_AT = 7
_LZ4_CONTENT_SIZE, _LZ4_BLOCK_CHECKSUM, _LZ4_DICTIONARY = 0x08, 0x10, 0x01
_LZ4_BLOCK_MAX = (0, 0, 0, 0, 64 << 10, 256 << 10, 1 << 20, 4 << 20)
_LZ4_STORED = 1 << 31


def gzip_size_hint(view: memoryview) -> int:
    """Return what the last member says of its size (RFC 1952, ISIZE)."""
    if len(view) < _UINT.size:
        return 0
    (size,) = _UINT.unpack_from(view, len(view) - _UINT.size)
    return min(int(size), _DEFLATE_RATIO * len(view))


def lz4_size_hint(view: memoryview) -> int:
    """Return what the blocks of the first frame can hold."""
    if len(view) < _LZ4_BLOCKS_AT:
        return 0
    flags, most = view[4], _LZ4_BLOCK_MAX[view[5] >> 4 & 7]
    at, behind, size = _LZ4_BLOCKS_AT, 0, 0
    if flags & (_LZ4_CONTENT_SIZE | _LZ4_BLOCK_CHECKSUM | _LZ4_DICTIONARY):
        at += 8 * bool(flags & _LZ4_CONTENT_SIZE) + 4 * bool(flags & _LZ4_DICTIONARY)
        behind = 4 * bool(flags & _LZ4_BLOCK_CHECKSUM)
    last = len(view) - _UINT.size
    while at <= last:
        (length,) = _UINT.unpack_from(view, at)
        if not length:
            break
        if length < _LZ4_STORED:
            size += min(most, _LZ4_RATIO * length)
        else:
            length -= _LZ4_STORED
            size += min(most, length)
        at += _UINT.size + length + behind
    return size
