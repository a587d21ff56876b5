"""What the arguments of a machine's steps are drawn from."""

from typing import Final

import hypothesis.strategies as st

from tieredfs.testing.cache_machine.pool import POOL
from tieredfs.testing.cache_machine.samples import ABORTED, OFFSETS
from tieredfs.testing.cache_machine.setup import OTHER_HANDLE

__all__ = [
    "ALL_HANDLES",
    "HANDLES",
    "LIMITS",
    "NEAR_ABORTED",
    "OFFSET_COUNTS",
    "PERMILLE",
    "PLACES",
    "SOME_PLACES",
    "TWO_PLACES",
]

_ROOMY: Final = 1 << 20

PLACES: Final = st.integers(0, len(POOL) - 1)
"""Where the machine has a segment; what is there may be replaced by another one."""

SOME_PLACES: Final = st.lists(PLACES, min_size=1, max_size=4, unique=True)
TWO_PLACES: Final = st.lists(PLACES, min_size=2, max_size=2, unique=True)
HANDLES: Final = st.integers(0, 1)
"""Handles over the first store; a segment of the other store has the only one there."""

ALL_HANDLES: Final = st.integers(0, OTHER_HANDLE)
LIMITS: Final = st.sampled_from([*[_ROOMY] * 4, 3500, 2500, 1200, 0])
OFFSET_COUNTS: Final = st.integers(0, OFFSETS)
"""How many offsets after a segment's first one."""

NEAR_ABORTED: Final = st.sampled_from(
    [0, *(edge + more for edge in ABORTED for more in (-1, 0, 1)), OFFSETS]
)
"""So many, where it matters for the aborted transaction."""

PERMILLE: Final = st.integers(0, 1000)
