"""Where a number stands among sorted ones."""

from bisect import bisect_right
from collections.abc import Callable
from functools import partial

from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["Rank", "rank_among"]

Rank = Callable[[int], int]
"""Tells how many of some sorted numbers are no larger than one."""


def rank_among(numbers: memoryview) -> Rank:
    """Return what tells the rank of any number among these.

    Args:
        numbers: Rising int64; held as long as what is returned.
    """
    if chosen_kernel() is Kernel.COMPILED:
        from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may not be there

        return _kernel.Ranks(numbers).of
    return partial(bisect_right, numbers)
