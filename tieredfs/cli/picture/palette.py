"""Colours of leader epochs, which colour-blind people can tell apart.

They are those of Okabe and Ito (2008), without the yellow, which is hard to see on
white, and the black.
"""

from collections.abc import Iterable
from typing import Final

from tieredfs.epochs import NO_EPOCH

__all__ = ["BASIC_COLOURS", "COLOURS", "Palette"]

COLOURS: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
"""Colours of leader epochs, which are repeated where there are more epochs."""

BASIC_COLOURS: Final = ("blue", "yellow", "green", "magenta", "cyan", "red")
"""As many colours of a terminal that has 8 or 16: it shows some of the others alike."""


class Palette:
    """Which colour a leader epoch of a topic has."""

    def __init__(self, epochs: Iterable[int]) -> None:
        """Assign the colours in turn.

        Args:
            epochs: The leader epochs, sorted.
        """
        known = [epoch for epoch in epochs if epoch != NO_EPOCH]
        self._numbers = {
            epoch: number % len(COLOURS) for number, epoch in enumerate(known)
        }

    def number(self, epoch: int) -> int | None:
        """Return the number of an epoch's colour; None if the epoch is not known."""
        return self._numbers.get(epoch)
