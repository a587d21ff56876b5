"""The list of stored sizes in a manifest: compact, compressed, and in base64.

Big-endian: the count, and, where it is not 0, the last size in four bytes at the end.
For two or more sizes, between them: the minimum of the sizes before the last, a width
of one to four bytes, and the difference of each of them to the minimum, in that width.
"""

import base64
import binascii
from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs_aiven.compression import MalformedFrameError, pack, unpack_at_most

__all__ = [
    "MAX_SIZES",
    "MalformedSizesError",
    "decode_sizes",
    "encode_sizes",
    "format_sizes",
    "parse_sizes",
]

_LIMIT: Final = 10 << 20
"""Most decompressed bytes that the plugin's own reader accepts."""

_INT: Final = 4
_HEAD: Final = 9  # count, least and width
_MAX_INT32: Final = (1 << 31) - 1

MAX_SIZES: Final = (_LIMIT - _HEAD - _INT) // _INT
"""Number of sizes that always fit into what the plugin's own reader accepts."""


class MalformedSizesError(Exception):
    """The list is not what the plugin writes."""


def decode_sizes(text: str, count: int) -> npt.NDArray[np.int64]:
    """Return the sizes in a manifest's text.

    Args:
        text: The field ``transformedChunks``.
        count: How many there must be; memory is bounded by it and by 10 MiB.

    Raises:
        MalformedSizesError: They are not that many, or are malformed.
    """
    try:
        packed = base64.b64decode(text, validate=True)
        limit = min(_LIMIT, _HEAD + _INT * max(count, 1))
        data = unpack_at_most(memoryview(packed), limit)
    except (binascii.Error, ValueError, MalformedFrameError) as error:
        raise MalformedSizesError(str(error)) from error
    sizes = parse_sizes(data)
    if len(sizes) != count:
        raise MalformedSizesError(f"{len(sizes)} sizes of {count} chunks")
    return sizes


def parse_sizes(data: memoryview) -> npt.NDArray[np.int64]:
    """Return the sizes in the compact list.

    Raises:
        MalformedSizesError: Its length is not the stated one, or a size is negative or
            exceeds 31 bits.
    """
    count = int.from_bytes(data[:_INT], "big")
    width = data[_HEAD - 1] if count > 1 and len(data) >= _HEAD else 0
    length = _INT * (1 + min(count, 1))
    if count > 1:
        length = _HEAD + (count - 1) * width + _INT
        if not 1 <= width <= _INT:
            raise MalformedSizesError(f"{width} bytes a size")
    if len(data) != length:
        raise MalformedSizesError(f"{len(data)} bytes, not {length}")
    if count == 0:
        return np.empty(0, np.int64)
    sizes = np.zeros(count, np.int64)
    if count > 1:
        above = np.frombuffer(data[_HEAD:-_INT], np.uint8).reshape(count - 1, width)
        for place in range(width):
            sizes[:-1] = sizes[:-1] << 8 | above[:, place]
        sizes[:-1] += int.from_bytes(data[_INT : _HEAD - 1], "big")
    sizes[-1] = int.from_bytes(data[-_INT:], "big")
    if sizes.max() > _MAX_INT32:
        raise MalformedSizesError(f"a size of {sizes.max()}")
    return sizes


def encode_sizes(sizes: npt.NDArray[np.int64]) -> str:
    """Return a manifest's text for stored sizes; ``decode_sizes`` is the inverse.

    Args:
        sizes: At most ``MAX_SIZES``, each from 0 to 2^31 - 1.
    """
    return base64.b64encode(pack(format_sizes(sizes))).decode()


def format_sizes(sizes: npt.NDArray[np.int64]) -> bytes:
    """Return the compact list of stored sizes; ``parse_sizes`` is the inverse."""
    count = len(sizes).to_bytes(_INT, "big")
    if not len(sizes):
        return count
    last = int(sizes[-1]).to_bytes(_INT, "big")
    if len(sizes) == 1:
        return count + last
    base = int(sizes[:-1].min())
    above = sizes[:-1] - base
    width = max(-(-int(above.max()).bit_length() // 8), 1)
    values = above.astype(">i4").view(np.uint8).reshape(-1, _INT)[:, _INT - width :]
    head = count + base.to_bytes(_INT, "big") + bytes([width])
    return head + values.tobytes() + last
