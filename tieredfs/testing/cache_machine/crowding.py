"""The steps in which several threads get segments at the same time."""

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import hypothesis.strategies as st
from hypothesis.stateful import rule

from tieredfs.cache import CachedIndexes
from tieredfs.errors import TieredFSError
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import HANDLES, PLACES
from tieredfs.testing.cache_machine.meeting import Meeting
from tieredfs.testing.cache_machine.setup import OTHER_HANDLE

__all__ = ["Crowds"]


class Crowds(Calls):
    """A machine whose handles are used by several threads."""

    @rule(
        places=st.lists(PLACES, min_size=1, max_size=3, unique=True),
        handle=HANDLES,
        threads=st.integers(2, 4),
        is_damaged=st.booleans(),
        together=st.booleans(),
    )
    def get_concurrently(
        self,
        places: Sequence[int],
        handle: int,
        threads: int,
        is_damaged: bool,  # noqa: FBT001 - hypothesis names it
        together: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Get segments that are missing or damaged by threads of one handle or both."""
        segments = [self.segments[place] for place in places][:threads]
        for segment in segments:
            self.remove_segments([segment])
            if is_damaged:
                self.get_segment(segment, handle)
                self.change_byte(segment, 900, 1)
        if is_damaged:
            for one in [*self.caches]:
                self.reopen(one, None)
        # Each thread gets one segment, by the handles in turn.
        asked = [segments[number % len(segments)] for number in range(threads)]
        turns = [number // len(segments) for number in range(threads)]
        used = [
            self.handle_on(segment, (handle + turn * together) % OTHER_HANDLE)
            for segment, turn in zip(asked, turns, strict=True)
        ]
        said = self.says(
            f"get of {[*map(str, asked)]} by a thread each, of the handles {used},"
        )
        before = self.look()
        found = self._get_by_threads(said, asked, used)
        for segment, indexes in zip(asked, found, strict=True):
            self.hold(said, segment, indexes)
        # Of several, the first may be evicted for the next, whatever else is there.
        beside = before.entries.size if len(segments) > 1 else 0
        has_room = self.model.have_room(segments, beside)
        after, now = self.look(), self.clock()
        fetches = after.fetches_since(before)
        for segment in segments:
            handles = {u for one, u in zip(asked, used, strict=True) if one == segment}
            if has_room:  # else a late thread fetches again
                self.model.check_fetches(
                    said, handles, segment, before.entries, now, fetches[segment]
                )
            for one in handles:
                self.model.use(one, segment, now)
        self.model.check_entries(said, before.entries, after.entries, fetched=fetches)

    def _get_by_threads(
        self, said: str, asked: Sequence[CachedSegment], used: Sequence[int]
    ) -> list[CachedIndexes]:
        """Return what threads get, whose fetches wait for each other.

        Args:
            said: What they do.
            asked: The segment of each thread.
            used: The handle of each thread.
        """
        counts = Counter(one.store for one in {*asked})
        with ExitStack() as meetings, ThreadPoolExecutor(len(asked)) as pool:
            for store, count in counts.items():
                storage = self.storages[store]
                meetings.enter_context(storage.interrupted(Meeting(count)))
            calls = [
                pool.submit(self.caches[one].get, segment.metadata)
                for segment, one in zip(asked, used, strict=True)
            ]
            try:
                return [call.result() for call in calls]
            except TieredFSError as error:
                text = f"what a storage has is served: {said} raised {error!r}"
                raise AssertionError(text) from error
