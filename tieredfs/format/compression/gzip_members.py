"""The members of gzip data: how many bytes they seem to hold."""

import struct
from typing import Final

__all__ = ["gzip_size_hint"]

_SIZE: Final = struct.Struct("<I")
_RATIO: Final = 1032  # a copy of 258 bytes takes at least two bits


def gzip_size_hint(view: memoryview) -> int:
    """Return what the last member says of its size (RFC 1952, ISIZE).

    It is too much or too little where the data is damaged, or has several members.
    """
    if len(view) < _SIZE.size:
        return 0
    (size,) = _SIZE.unpack_from(view, len(view) - _SIZE.size)
    return min(int(size), _RATIO * len(view))
