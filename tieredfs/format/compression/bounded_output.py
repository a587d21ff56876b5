"""Memory for what comes out of a decompressor, which nobody can know beforehand.

What the stored bytes say of the size is a lie until proven: it is where to begin, never
what to allocate.
"""

from collections.abc import Callable

import pyarrow as pa

__all__ = [
    "MalformedDataError",
    "Reader",
    "TooMuchOutputError",
    "allocate",
    "believed",
    "read_bounded",
]

_PIECE = 1 << 20
_RATIO = 256


class MalformedDataError(Exception):
    """The stored bytes are not what the codec writes."""


class TooMuchOutputError(Exception):
    """More comes out than may."""


Reader = Callable[[int], "bytes | memoryview | pa.Buffer"]
"""Returns the next so many bytes that come out; fewer mean the end."""


def believed(claim: int, stored: int) -> int:
    """Return how much of a claim to allocate before anything has come out.

    Args:
        claim: How many bytes seem to come out.
        stored: Bytes that they come from. Records are hardly ever compressed to less
            than a 256th, and damage claims anything.
    """
    return min(claim, _PIECE + _RATIO * stored)


def read_bounded(start: Callable[[], Reader], hint: int, limit: int) -> memoryview:
    """Return all that a decompressor gives, in one piece of memory.

    Args:
        start: Starts decompression from the first byte; called again when the hint was
            too low, to count before anything large is allocated.
        hint: How many bytes seem to come out, as far as that is believed.
        limit: Most bytes that may come out. No more than this and 1 MiB is allocated.

    Raises:
        TooMuchOutputError: More than ``limit`` bytes come out.
    """
    size = min(hint, limit)
    found = start()(size + 1)  # one byte less tells the end in the same call
    if len(found) > size:
        del found
        found = start()(_count(start, limit))
    return memoryview(found).cast("B").toreadonly()


def _count(start: Callable[[], Reader], limit: int) -> int:
    total = 0
    read = start()
    while found := len(read(_PIECE)):
        total += found
        if total > limit:
            raise TooMuchOutputError
    return total


def allocate(size: int) -> memoryview:
    """Return memory that can be written."""
    # Arrow's pool hands out pages that were touched before; Python's does not.
    return memoryview(pa.allocate_buffer(size)).cast("B")
