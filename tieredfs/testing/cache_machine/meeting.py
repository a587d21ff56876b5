"""Operations that wait for each other, so that a race between them is always lost."""

from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Final

__all__ = ["Meeting"]

_PATIENCE_SECONDS: Final = {False: 0.02, True: 0.2}
"""How long an operation waits once for others, by whether they should come."""


class Meeting:
    """Where the operations of several threads wait for each other, for a moment."""

    def __init__(self, expected: int) -> None:
        """Begin without operations.

        Args:
            expected: How many should come; if only one should, it waits for another
                one that should not.
        """
        self._barrier = Barrier(max(2, expected))
        self._patience = _PATIENCE_SECONDS[expected > 1]

    def __call__(self) -> None:
        """Wait until all have come, or one has waited for too long."""
        with suppress(BrokenBarrierError):
            self._barrier.wait(self._patience)
