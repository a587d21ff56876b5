"""Operations that wait for each other, so that a race between them is always lost."""

from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Final

__all__ = ["Meeting"]

_PATIENCE_SECONDS: Final = 0.2
"""How long an operation waits for those that should come."""

_DOUBT_SECONDS: Final = 0.02
"""How long they wait together for another one that should not come."""


class Meeting:
    """Where the operations of several threads wait for each other, for a moment."""

    def __init__(self, expected: int) -> None:
        """Begin without operations.

        Args:
            expected: How many should come.
        """
        self._expected = Barrier(expected)
        self._more = Barrier(expected + 1)

    def __call__(self) -> None:
        """Wait until all have come, or one has waited for too long."""
        with suppress(BrokenBarrierError):
            self._expected.wait(_PATIENCE_SECONDS)
        with suppress(BrokenBarrierError):
            self._more.wait(_DOUBT_SECONDS)
