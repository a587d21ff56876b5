"""The step that replaces a segment of a store by another one."""

import hypothesis.strategies as st
from hypothesis.stateful import rule

from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import HANDLES, PLACES
from tieredfs.testing.cache_machine.pool import replacement

__all__ = ["Replaces"]


class Replaces(Calls):
    """A machine whose stores get other segments with the offsets of earlier ones."""

    def __init__(self) -> None:
        """Begin with the segments of the pool."""
        super().__init__()
        self._copies = 0

    @rule(
        place=PLACES,
        handle=HANDLES,
        new=st.sampled_from(["id", "version", "custom_metadata"]),
        is_removed=st.booleans(),
    )
    def copy_again(
        self,
        place: int,
        handle: int,
        new: str,
        is_removed: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Delete a segment and copy another one with its offsets."""
        old = self.segments[place]
        self.get_segment(old, handle)
        self._copies += 1
        self.says(f"copying {old} again with a new {new}")
        if is_removed:
            self.remove_by(self.handle_on(old, handle), [old])
        del self.storage_of(old).stored[old.metadata]
        segment = replacement(old, new, self._copies)
        self.store(segment)
        self.segments[place] = segment
        for one in (handle, 1 - handle):
            self.get_segment(segment, one)
