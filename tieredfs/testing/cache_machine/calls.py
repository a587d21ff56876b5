"""The calls that a machine's steps are made of, each with its checks."""

from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from tieredfs.cache import CachedIndexes
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.state import CacheState

__all__ = ["Calls"]

_T = TypeVar("_T")


class Calls(CacheState):
    """A machine that calls its handles, and checks what each call has done."""

    def get_twice(self, places: Sequence[int], handle: int) -> None:
        """Get segments, each twice: the second time it is held, if there is room."""
        for place in places:
            for _ in range(2):
                self.get_segment(self.segments[place], handle)

    def get_segment(self, segment: CachedSegment, handle: int) -> None:
        """Get a segment through a handle on its store."""
        handle = self.handle_on(segment, handle)
        cache, before = self.caches[handle], self.entries()
        counted = cache.stats
        said = self.says(f"get({segment}) by handle {handle}")
        found, fetches = self._counted(segment, lambda: cache.get(segment.metadata))
        now = self.clock()
        self.hold(said, segment, found)
        self.model.check_fetches(said, [handle], segment, before, now, fetches)
        self.model.use(handle, segment, now)
        after = self.entries()
        self.model.check_entries(
            said, before, after, fetched=[segment] if fetches else []
        )
        gone = {*before.whole, *before.damaged} - {*after.whole, *after.damaged}
        self.model.check_stats(
            said,
            counted,
            cache.stats,
            fetches=fetches,
            evictions=len(gone - {segment}),
            is_damaged=segment in before.damaged,
        )

    def look_up_in(
        self, segment: CachedSegment, handle: int, call: Callable[[], _T]
    ) -> _T:
        """Look something up in a segment that was just got.

        Args:
            segment: The segment.
            handle: What looks it up, if it is on the segment's store.
            call: The lookup, of which the machine has taken note already.
        """
        before = self.entries()
        found, fetches = self._counted(segment, call)
        handles, now = [self.handle_on(segment, handle)], self.clock()
        self.model.check_fetches(self.last, handles, segment, before, now, fetches)
        self.model.check_entries(
            self.last,
            before,
            self.entries(),
            fetched=[segment] if fetches else [],
        )
        return found

    def hold(self, said: str, segment: CachedSegment, found: CachedIndexes) -> None:
        """Check what a call has returned, and keep it for a while."""
        self.stored.check_indexes(said, segment, found.indexes)
        self.held = [*self.held[-7:], (said, segment, found)]

    def remove_segments(self, segments: Collection[CachedSegment]) -> None:
        """Remove segments of one store through each of its handles."""
        for handle in self.handles_on(next(iter(segments))):
            self.remove_by(handle, segments)

    def remove_by(self, handle: int, segments: Collection[CachedSegment]) -> None:
        """Remove segments through a handle, which has to be on their store."""
        said = self.says(f"remove({[*map(str, segments)]}) by handle {handle}")
        before = self.entries()
        self.caches[handle].remove(one.metadata for one in segments)
        self.model.remove(handle, segments)
        self.model.check_entries(said, before, self.entries(), removed=segments)

    def set_limit(self, handle: int, limit: int) -> None:
        """Set the limit through a handle: immediately it is that of all handles."""
        said = self.says(f"resize({limit}) by handle {handle}")
        before = self.entries()
        self.caches[handle].resize(limit)
        self.model.resize(handle, limit)
        self.check_limits()
        self.model.check_entries(said, before, self.entries())

    def _counted(
        self, segment: CachedSegment, call: Callable[[], _T]
    ) -> tuple[_T, int]:
        """Make a call, and count the operations that reach the segment's storage."""
        storage = self.storage_of(segment)
        operations = storage.operations
        found = call()
        return found, storage.operations - operations
