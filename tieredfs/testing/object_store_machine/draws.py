"""What the arguments of a machine's steps are drawn from."""

from collections.abc import Callable
from typing import Any, Final

import hypothesis.strategies as st

from tieredfs.testing.object_store_machine.samples import noise

__all__ = [
    "BEGINNINGS",
    "BUFFERS",
    "CONTENTS",
    "COUNTS",
    "HANDLES",
    "KEY_LISTS",
    "ONE_KEY",
    "PERMILLE",
    "RANGES",
    "SOME_KEYS",
    "SOURCES",
]


def _of_machine(draw: Callable[[Any], st.SearchStrategy[Any]]) -> Any:  # noqa: ANN401 - of hypothesis, which has no types for it
    """Draw what depends on the machine."""
    return st.runner().flatmap(draw)


HANDLES: Final = st.integers(0, 1)
SOME_KEYS: Final = _of_machine(
    lambda machine: st.lists(
        st.sampled_from(machine.setup.keys[:10]) | st.sampled_from(machine.setup.keys),
        min_size=4,
        max_size=8,
        unique=True,
    )
)
"""The keys of one sequence: few, so that steps meet at one key, and half of them among
the first, which begin with each other."""

ONE_KEY: Final = _of_machine(lambda machine: st.sampled_from(machine.keys))
KEY_LISTS: Final = _of_machine(
    lambda machine: st.lists(st.sampled_from([*machine.keys, "missing"]), max_size=4)
)
CONTENTS: Final = (
    st.binary(max_size=20)
    | st.builds(noise, st.integers(0, 5000), st.integers(0, 9))
    | st.builds(noise, st.just(300_000), st.integers(0, 1))
)
BUFFERS: Final = st.sampled_from([bytes, bytearray, memoryview])
SOURCES: Final = st.sampled_from(["file", "content", "failing", "missing"])
PERMILLE: Final = st.integers(0, 1000)
RANGES: Final = st.lists(st.tuples(PERMILLE, PERMILLE), max_size=5)
BEGINNINGS: Final = st.integers(0, 8)
"""How much of a key is taken for a prefix."""

COUNTS: Final = st.sampled_from([*[3] * 59, 1001])
"""Of objects below one prefix; 1001 do not fit on one page of a listing."""
