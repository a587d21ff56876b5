"""The steps that get segments and look something up."""

from collections.abc import Sequence
from functools import partial

import hypothesis.strategies as st
import numpy as np
from hypothesis.stateful import rule

from tieredfs.testing.cache_machine.call import Call
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import (
    HANDLES,
    NEAR_ABORTED,
    OFFSET_COUNTS,
    PLACES,
    SOME_PLACES,
)
from tieredfs.testing.cache_machine.samples import FIRST_TIME, OFFSETS

__all__ = ["Reads"]


class Reads(Calls):
    """A machine that reads."""

    @rule(places=SOME_PLACES, handle=HANDLES)
    def get(self, places: Sequence[int], handle: int) -> None:
        """Get segments, each twice: the second time it is held, if there is room."""
        self.get_twice(places, handle)

    @rule(
        place=PLACES,
        handle=HANDLES,
        offset=OFFSET_COUNTS,
        start=st.none() | OFFSET_COUNTS,
        ranges=st.lists(st.tuples(NEAR_ABORTED, NEAR_ABORTED), min_size=4, max_size=8),
    )
    def look_up(
        self,
        place: int,
        handle: int,
        offset: int,
        start: int | None,
        ranges: Sequence[tuple[int, int]],
    ) -> None:
        """Look up offsets, a time and aborted transactions of a segment."""
        segment = self.segments[place]
        one, cache = segment.metadata, self.cache_on(segment, handle)
        self.get_segment(segment, handle)
        first = one.start_offset
        said = f"lookup_offset of {segment}, {first + offset}"
        found = self.look_up_in(
            said, segment, handle, lambda: cache.lookup_offset(one, first + offset)
        )
        self.stored.check_offset(said, segment, first + offset, found)
        said = f"lookup_offsets of {segment}"
        asked = np.array([first, first + offset, first + OFFSETS])
        positions = self.look_up_in(
            said, segment, handle, lambda: cache.lookup_offsets(one, asked)
        )
        self.stored.check_positions(said, segment, asked.tolist(), positions.tolist())
        time = FIRST_TIME + offset * 1000
        above = () if start is None else (first + start,)
        said = f"lookup_timestamp of {segment}, {[time, *above]}"
        found = self.look_up_in(
            said, segment, handle, lambda: cache.lookup_timestamp(one, time, *above)
        )
        self.stored.check_timestamp(said, segment, time, found, *above)
        for ends in ranges:
            low, high = (first + end for end in sorted(ends))
            said = f"aborted_transactions of {segment}, [{low}, {high})"
            aborts = self.look_up_in(
                said,
                segment,
                handle,
                partial(cache.aborted_transactions, one, low, high),
            )
            self.stored.check_aborts(said, segment, low, high, aborts)

    @rule(place=PLACES, handle=HANDLES)
    def ask_for_the_layout(self, place: int, handle: int) -> None:
        """Ask for a layout's data, which fetches nothing."""
        segment = self.segments[place]
        said = f"layout_of({segment})"
        handle = self.handle_on(segment, handle)
        with self.observed(Call(said, handle)):
            is_there = segment in self.entries().whole
            found = self.caches[handle].layout_of(segment.metadata)
        if found or (is_there and self.setup.ttl is None):
            self.stored.check_layout(said, segment, found)
            self.model.map(handle, segment)
