"""The rank of a number in a sorted array."""

from bisect import bisect_right
from collections.abc import Callable
from functools import partial

from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["Rank", "rank_among"]

Rank = Callable[[int], int]
"""A function that returns how many items of a sorted array are at most its argument."""


def rank_among(numbers: memoryview) -> Rank:
    """Return a function that returns the rank of a number in a sorted array.

    Args:
        numbers: Increasing int64; held as long as the function exists.
    """
    if chosen_kernel() is Kernel.COMPILED:
        from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may be missing

        return _kernel.Ranks(numbers).of
    return partial(bisect_right, numbers)
