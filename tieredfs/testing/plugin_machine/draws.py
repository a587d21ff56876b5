"""What the arguments of a machine's steps are drawn from."""

from typing import Final

import hypothesis.strategies as st

from tieredfs.model import IndexType
from tieredfs.testing.faults import NO_FAULTS, Effect, FaultPlan, StoreFault
from tieredfs.testing.plugin_machine.pool import CROWD, NAMESAKES, SLOTS
from tieredfs.testing.strategies import plans

__all__ = [
    "CONTENTS",
    "COUNTS",
    "HANDLES",
    "KINDS",
    "OFFSETS",
    "PERMILLE",
    "READ_FAULTS",
    "SEGMENTS",
    "STORED",
    "WRITES",
    "WRITE_FAULTS",
    "partition_numbers",
]

HANDLES: Final = st.integers(0, 1)
SEGMENTS: Final = st.integers(0, len(SLOTS) - 1)
_ALL: Final = tuple(range(len(SLOTS)))
STORED: Final = st.sampled_from([(0, 1), (), *[_ALL] * 3])
"""Segments that are copied before the first step: few sequences begin with none."""

CONTENTS: Final = st.lists(plans() | plans(is_compacted=True), min_size=1, max_size=2)
COUNTS: Final = st.sampled_from([*[3] * 20, CROWD, *[3] * 20])
"""Of segments in one partition; hypothesis draws the first and the last most often."""

OFFSETS: Final = st.integers(0, 30) | st.just((1 << 40) + 1)
PERMILLE: Final = st.integers(0, 1000)
KINDS: Final = st.sets(st.sampled_from(IndexType))
WRITES: Final = st.integers(0, 2)
"""Numbers of a call's writes."""

READ_FAULTS: Final = st.just(NO_FAULTS) | st.builds(
    StoreFault,
    st.sampled_from([Effect.ERROR, Effect.CUT, Effect.DENIED, Effect.LATE]),
    st.sampled_from([0, 0, 1, 2]),
).map(lambda fault: FaultPlan((fault,)))

_OF_WRITES: Final = st.builds(
    StoreFault,
    st.sampled_from(Effect),
    st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6]),  # most calls have one or two
    st.just(True),  # noqa: FBT003 - of writes
).map(lambda fault: FaultPlan((fault,)))
WRITE_FAULTS: Final = READ_FAULTS | _OF_WRITES | _OF_WRITES


def partition_numbers() -> st.SearchStrategy[int]:
    """Draw the number of a partition."""
    return st.integers(0, len(NAMESAKES) - 1)
