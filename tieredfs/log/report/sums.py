"""Sums of figures that may not be known."""

from collections.abc import Iterable

__all__ = ["known_sum"]


def known_sum(figures: Iterable[int | None]) -> int | None:
    """Return the sum; None if one of the figures is not known."""
    total = 0
    for figure in figures:
        if figure is None:
            return None
        total += figure
    return total
