"""Keys and contents of objects to put: valid ones that a store may get wrong."""

from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Final

from tieredfs.errors import InvalidArgumentError

__all__ = ["KEYS", "PiecewiseContent", "noise"]

KEYS: Final = (
    *("a", "a/b", "a/b/c", "a-b", "a.b/c", "a0", "ab", "b", "b/x.y", "b/x/y"),
    *("a b", "a%20b", "a%2Fb", "a+b", "a#b", "a?b=c", "a*[b]", "a'b\"c", "a:b", "~"),
    *("...", ".hidden", "é/ü", "日本", "\uff5e", "\U0001f600", "k" * 200),
    "/".join(["folder" * 10] * 5),
)
"""Keys that begin with each other, in an order that is not that of their folders; that
mean something to a shell, a URL or a pattern; of any script; long ones."""


@cache
def noise(size: int, seed: int) -> bytes:
    """Return bytes of which no two parts are equal, the same each time."""
    return Random(seed).randbytes(size)  # noqa: S311 - repeatable, not secret


@dataclass(frozen=True, slots=True)
class PiecewiseContent:
    """A content that is read in pieces, and may fail at its end.

    Attributes:
        data: All of it.
        fails: Whether its last piece cannot be read.
    """

    data: bytes
    fails: bool = False

    @property
    def size(self) -> int:
        """Total number of bytes."""
        return len(self.data)

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)``.

        Raises:
            InvalidArgumentError: It fails, and they are its last ones.
        """
        if self.fails and end == self.size:
            raise InvalidArgumentError("the content became shorter while it was read")
        return self.data[start:end]
