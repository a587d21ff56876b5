"""Read the output of a decompressor, whose size is not known beforehand.

The size that the stored bytes claim is not trusted: it is a first guess, and never
decides alone how much memory is allocated.
"""

from collections.abc import Callable

import pyarrow as pa

__all__ = [
    "MalformedDataError",
    "Reader",
    "TooMuchOutputError",
    "allocate",
    "plausible_size",
    "read_bounded",
]

_CHUNK_BYTES = 1 << 20
_RATIO = 256


class MalformedDataError(Exception):
    """The stored bytes are not valid data of the codec."""


class TooMuchOutputError(Exception):
    """The decompressed size exceeds the limit."""


Reader = Callable[[int], "bytes | memoryview | pa.Buffer"]
"""A function that returns the next bytes of output, up to the given number; fewer mean
the end."""


def plausible_size(claim: int, stored: int) -> int:
    """Return how much of a claimed size to allocate before any output was read.

    Args:
        claim: The claimed size of the output in bytes.
        stored: Size of the compressed data in bytes. Records are hardly ever compressed
            to less than a 256th of their size, and damaged data can claim any size.
    """
    return min(claim, _CHUNK_BYTES + _RATIO * stored)


def read_bounded(start: Callable[[], Reader], hint: int, limit: int) -> memoryview:
    """Return the whole output of a decompressor in one buffer.

    Args:
        start: Starts decompression from the first byte. When the hint was too low,
            it is called again to count the output before a large buffer is allocated.
        hint: Plausible size of the output in bytes.
        limit: Maximum size of the output in bytes. At most this and 1 MiB is allocated.

    Raises:
        TooMuchOutputError: The output exceeds ``limit`` bytes.
    """
    size = min(hint, limit)
    found = start()(size + 1)  # asks for one more byte to see the end in the same call
    if len(found) > size:
        del found
        found = start()(_count(start, limit))
    return memoryview(found).cast("B").toreadonly()


def _count(start: Callable[[], Reader], limit: int) -> int:
    total = 0
    read = start()
    while found := len(read(_CHUNK_BYTES)):
        total += found
        if total > limit:
            raise TooMuchOutputError
    return total


def allocate(size: int) -> memoryview:
    """Return a writable buffer of ``size`` bytes."""
    # Arrow's pool reuses pages that are already mapped; Python's allocator does not.
    return memoryview(pa.allocate_buffer(size)).cast("B")
