"""The members of gzip data: the decompressed size that they claim."""

import struct
from typing import Final

__all__ = ["gzip_size_hint"]

_SIZE: Final = struct.Struct("<I")
_RATIO: Final = 1032  # a copy of 258 bytes takes at least two bits


def gzip_size_hint(view: memoryview) -> int:
    """Return the decompressed size in the last member's ISIZE field (RFC 1952).

    The size is wrong when the data is damaged or has several members.
    """
    if len(view) < _SIZE.size:
        return 0
    (size,) = _SIZE.unpack_from(view, len(view) - _SIZE.size)
    return min(int(size), _RATIO * len(view))
