"""The steps that damage entries, the ledger and the directory."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Literal

import hypothesis.strategies as st
from hypothesis.stateful import rule

from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.damage import DAMAGE
from tieredfs.testing.cache_machine.draws import (
    ALL_HANDLES,
    HANDLES,
    PERMILLE,
    PLACES,
    SOME_PLACES,
    TWO_PLACES,
)
from tieredfs.testing.rule import require

__all__ = ["Damages"]


class Damages(Calls):
    """A machine to whose directory something happens."""

    @rule(
        places=TWO_PLACES,
        handle=HANDLES,
        damages=st.lists(st.sampled_from(DAMAGE), min_size=1, max_size=3, unique=True),
        reopened=st.sampled_from(["before", "after", "never"]),
        is_full=st.booleans(),
    )
    def damage(
        self,
        places: Sequence[int],
        handle: int,
        damages: Sequence[Callable[[Path], None]],
        reopened: Literal["before", "after", "never"],
        is_full: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Damage an entry, the ledger or the directory, and get what was there."""
        segment, beside = (self.segments[place] for place in places)
        others = [one for one in self.segments if one not in (segment, beside)]
        # From the smallest on: there seems to be room if too little is counted.
        others.sort(key=lambda one: one.metadata.start_offset)
        limit = self.model.largest_limit
        for damage in damages:
            for one in (segment, beside):
                self.get_segment(one, handle)
            if not {segment, beside} <= self.directory.files().keys():
                return  # there is no room for both
            if reopened == "before":
                self.reopen(self.handle_on(segment, handle), None)
            if is_full:
                self._fill(others, handle)
            self.damage_entry(segment, damage, f"damage {damage.__name__!r} of")
            if reopened == "after":
                self.reopen(self.handle_on(segment, handle), self.model.largest_limit)
            for one in (segment, segment, beside):
                self.get_segment(one, handle)
                self.get_segment(one, 1 - handle)
            for one in others:
                self.get_segment(one, handle)
            self.set_limit(handle, limit)

    @rule(place=PLACES, handle=HANDLES, permille=PERMILLE, bit=st.integers(0, 7))
    def change_a_byte(self, place: int, handle: int, permille: int, bit: int) -> None:
        """Invert a bit of an entry, which is seen when it is next opened."""
        segment = self.segments[place]
        self.get_segment(segment, handle)
        self.reopen(self.handle_on(segment, handle), None)
        self.get_segment(segment, handle)
        if not self.change_byte(segment, permille, 1 << bit):
            return  # there was no room for it
        self.reopen(self.handle_on(segment, handle), None)
        cache = self.cache_on(segment, handle)
        corruptions = cache.stats.corruptions
        self.get_segment(segment, handle)
        require(
            cache.stats.corruptions == corruptions + 1 or self.setup.ttl is not None,
            "the counters are true: an entry with another bit is not among the "
            "corruptions",
        )

    @rule(handle=ALL_HANDLES, places=SOME_PLACES)
    def crash(self, handle: int, places: Sequence[int]) -> None:
        """Leave what a killed process leaves, and begin again."""
        self.get_twice(places, 0)
        if not self.directory.path.exists():
            return
        self.says("a crash while an entry is written, here and by another process")
        self.directory.crash()
        self.directory.begin_elsewhere()
        self.get_twice(places, 1)
        self.reopen(handle, None)
        self.directory.check_crashes_are_cleaned_up()
        self.directory.check_other_files(self.last)

    def _fill(self, others: Collection[CachedSegment], handle: int) -> None:
        """Remove some segments, and leave no room for anything else."""
        for one in others:
            self.remove_segments([one])
        self.set_limit(handle, self.entries().size)
