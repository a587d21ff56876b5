"""The steps that decide what is kept: removals, limits, restarts and time."""

from collections.abc import Sequence

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from tieredfs.testing.cache_machine.call import Call
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import (
    ALL_HANDLES,
    HANDLES,
    LIMITS,
    PLACES,
    SOME_PLACES,
)
from tieredfs.testing.cache_machine.state import has_ttl

__all__ = ["Keeps"]


class Keeps(Calls):
    """A machine that removes what is kept, and begins again with the rest."""

    @rule(places=st.lists(PLACES, max_size=3, unique=True), handle=HANDLES)
    def remove(self, places: Sequence[int], handle: int) -> None:
        """Remove segments, and get them again: each is fetched once."""
        for store in range(len(self.storages)):
            chosen = [self.segments[place] for place in places]
            chosen = [one for one in chosen if one.store == store]
            if chosen:
                self.remove_by(self.handle_on(chosen[0], handle), chosen)
        for place in places:
            self.get_segment(self.segments[place], handle)

    @rule(handle=ALL_HANDLES)
    def clear(self, handle: int) -> None:
        """Remove all segments, those of the other store as well."""
        gone = self.entries().sizes
        with self.observed(Call(f"clear() by handle {handle}", handle, removed=gone)):
            self.caches[handle].clear()
            self.model.remove(handle, self.stored.indexes)

    @rule(limit=LIMITS, handle=ALL_HANDLES)
    def resize(self, limit: int, handle: int) -> None:
        """Set the limit, and get all segments in turn."""
        self.set_limit(handle, limit)
        for segment in self.segments:
            self.get_segment(segment, handle % 2)

    @rule(handle=HANDLES, is_closed=st.booleans(), limit=st.none() | LIMITS)
    def restart(
        self,
        handle: int,
        is_closed: bool,  # noqa: FBT001 - hypothesis names it
        limit: int | None,
    ) -> None:
        """Begin again, as another process would: what was kept is not fetched."""
        first = self.segments[0]
        self.get_segment(first, handle)
        if is_closed:
            self.caches[handle].close()
            self.expect_closed(handle, first)
        self.reopen(handle, limit)
        for segment in self.segments:
            if segment in self.entries().whole:
                self.get_segment(segment, handle)

    @precondition(has_ttl)
    @rule(share=st.sampled_from([0.01, 0.3, 1.01]), places=SOME_PLACES, handle=HANDLES)
    def wait(self, share: float, places: Sequence[int], handle: int) -> None:
        """Let a part of the time pass that an entry lives without use."""
        self.says(f"waiting for {share} of the time that entries live")
        self.clock.now += share * (self.setup.ttl or 0)
        self.get_twice(places, handle)
