"""The steps that get segments and look something up."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import hypothesis.strategies as st
import numpy as np
from hypothesis.stateful import rule

from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import (
    HANDLES,
    OFFSET_COUNTS,
    PLACES,
    SOME_PLACES,
)
from tieredfs.testing.cache_machine.samples import FIRST_TIME, OFFSETS
from tieredfs.testing.rule import require

__all__ = ["Reads"]


class Reads(Calls):
    """A machine that reads."""

    @rule(places=SOME_PLACES, handle=HANDLES)
    def get(self, places: Sequence[int], handle: int) -> None:
        """Get segments, each twice: the second time it is held, if there is room."""
        self.get_twice(places, handle)

    @rule(place=PLACES, handle=HANDLES, offset=OFFSET_COUNTS, end=OFFSET_COUNTS)
    def look_up(self, place: int, handle: int, offset: int, end: int) -> None:
        """Look up offsets, a time and aborted transactions of a segment."""
        segment = self.segments[place]
        one, cache = segment.metadata, self.cache_on(segment, handle)
        self.get_segment(segment, handle)
        first = one.start_offset
        said = self.says(f"lookup_offset of {segment}, {first + offset}")
        found = self.look_up_in(
            segment, handle, lambda: cache.lookup_offset(one, first + offset)
        )
        self.stored.check_offset(said, segment, first + offset, found)
        asked = np.array([first, first + offset, first + OFFSETS])
        positions = self.look_up_in(
            segment, handle, lambda: cache.lookup_offsets(one, asked)
        )
        self.stored.check_positions(said, segment, asked.tolist(), positions.tolist())
        time = FIRST_TIME + offset * 1000
        said = self.says(f"lookup_timestamp of {segment}, {time}")
        found = self.look_up_in(
            segment, handle, lambda: cache.lookup_timestamp(one, time)
        )
        self.stored.check_timestamp(said, segment, time, found)
        low, high = first + min(offset, end), first + max(offset, end)
        said = self.says(f"aborted_transactions of {segment}, [{low}, {high})")
        aborts = self.look_up_in(
            segment, handle, lambda: cache.aborted_transactions(one, low, high)
        )
        self.stored.check_aborts(said, segment, low, high, aborts)

    @rule(place=PLACES, handle=HANDLES)
    def ask_for_the_layout(self, place: int, handle: int) -> None:
        """Ask for a layout's data, which fetches nothing."""
        segment = self.segments[place]
        said = self.says(f"layout_of({segment})")
        before, storage = self.entries(), self.storage_of(segment)
        operations = storage.operations
        found = self.cache_on(segment, handle).layout_of(segment.metadata)
        require(
            storage.operations == operations,
            f"a layout's data is not fetched: {said} sent an operation to the storage",
        )
        if found or (segment in before.whole and self.setup.ttl is None):
            self.stored.check_layout(said, segment, found)
            self.model.map(self.handle_on(segment, handle), segment)
        self.model.check_entries(said, before, self.entries())

    @rule(
        place=PLACES,
        handle=HANDLES,
        threads=st.integers(2, 4),
        is_damaged=st.booleans(),
        together=st.booleans(),
    )
    def get_concurrently(
        self,
        place: int,
        handle: int,
        threads: int,
        is_damaged: bool,  # noqa: FBT001 - hypothesis names it
        together: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Get a segment that is missing or damaged by threads of one handle or both."""
        segment = self.segments[place]
        self.remove_segments([segment])
        if is_damaged:
            self.get_segment(segment, handle)
            self.change_byte(segment, 900, 1)
            for one in self.handles_on(segment):
                self.reopen(one, None)
        everyone = self.handles_on(segment)
        used = everyone if together else [self.handle_on(segment, handle)]
        said = self.says(f"get({segment}) by {threads} threads of the handles {used}")
        before, storage = self.entries(), self.storage_of(segment)
        storage.expect_concurrent_fetches()
        operations = storage.operations
        with ThreadPoolExecutor(threads) as pool:
            found = [
                *pool.map(
                    lambda number: self.caches[used[number % len(used)]].get(
                        segment.metadata
                    ),
                    range(threads),
                )
            ]
        fetches = storage.operations - operations
        for indexes in found:
            self.hold(said, segment, indexes)
        if self.model.has_room(segment):  # else a late thread fetches again
            self.model.check_fetches(said, used, segment, before, self.clock(), fetches)
        for one in used:
            self.model.use(one, segment, self.clock())
        self.model.check_entries(
            said, before, self.entries(), fetched=[segment] if fetches else []
        )
