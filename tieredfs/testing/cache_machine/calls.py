"""The calls that a machine's steps are made of, each with its checks."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from tieredfs.cache import CachedIndexes
from tieredfs.errors import ClosedError
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.call import Call
from tieredfs.testing.cache_machine.setup import OTHER_HANDLE
from tieredfs.testing.cache_machine.state import CacheState
from tieredfs.testing.rule import expect_error

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
        said = f"get({segment}) by handle {handle}"
        with self.observed(Call(said, handle, got=segment)):
            self.hold(said, segment, self.caches[handle].get(segment.metadata))

    def look_up_in(
        self, said: str, segment: CachedSegment, handle: int, call: Callable[[], _T]
    ) -> _T:
        """Look something up in a segment that was just got.

        Args:
            said: What is looked up.
            segment: The segment.
            handle: What looks it up, if it is on the segment's store.
            call: The lookup.
        """
        with self.observed(Call(said, self.handle_on(segment, handle), got=segment)):
            return call()

    def hold(self, said: str, segment: CachedSegment, found: CachedIndexes) -> None:
        """Check what a call has returned, and keep it for a while."""
        self.stored.check_indexes(said, segment, found.indexes)
        self.held = [*self.held[-7:], (said, segment, found)]

    def reopen(self, handle: int, limit: int | None) -> None:
        """Open a handle that has nothing in memory, in place of the one there was.

        Args:
            handle: Its number.
            limit: The limit it sets; None for the current one, if there is one.
        """
        if limit is None and self.model.limit is None:
            limit = self.model.largest_limit
        open_cache, ttl = self.setup.open_cache, self.setup.ttl
        if ttl is not None:
            open_cache = partial(open_cache, ttl=ttl, clock=self.clock)
        storage = self.storages[handle // OTHER_HANDLE]
        said = f"opening handle {handle} with max_bytes={limit}"
        with self.observed(Call(said, handle, opens=True)):
            self.caches.pop(handle, None)
            self.caches[handle] = open_cache(
                storage, self.directory.path, max_bytes=limit
            )
            self.model.open(handle, limit)

    def remove_segments(self, segments: Collection[CachedSegment]) -> None:
        """Remove segments of one store through each of its handles."""
        for handle in self.handles_on(next(iter(segments))):
            self.remove_by(handle, segments)

    def remove_by(self, handle: int, segments: Collection[CachedSegment]) -> None:
        """Remove segments through a handle, which has to be on their store."""
        said = f"remove({[*map(str, segments)]}) by handle {handle}"
        with self.observed(Call(said, handle, removed=segments)):
            self.caches[handle].remove(one.metadata for one in segments)
            self.model.remove(handle, segments)

    def set_limit(self, handle: int, limit: int) -> None:
        """Set the limit through a handle: immediately it is that of all handles."""
        with self.observed(Call(f"resize({limit}) by handle {handle}", handle)):
            self.caches[handle].resize(limit)
            self.model.resize(handle, limit)
            self.check_limits()

    def expect_closed(self, handle: int, segment: CachedSegment) -> None:
        """Require that a closed handle says so, and changes nothing.

        Args:
            handle: Its number.
            segment: Any segment of its store.
        """
        cache, one = self.caches[handle], segment.metadata
        calls: dict[str, Callable[[], object]] = {
            "get": lambda: cache.get(one),
            "lookup_offset": lambda: cache.lookup_offset(one, one.start_offset),
            "remove": lambda: cache.remove([one]),
            "clear": cache.clear,
            "resize": lambda: cache.resize(0),
        }
        with self.observed(Call(f"calls of the closed handle {handle}", handle)):
            for name, call in calls.items():
                expect_error(call, ClosedError, f"a closed cache says so: {name}")
            self.check_limits()

    @contextmanager
    def observed(self, call: Call) -> Iterator[None]:
        """Make a call, look at everything before and after it, and ask the model.

        What is there before it is what was there after the last call: only a damage
        changes anything in between.
        """
        self.says(call.said)
        before = self.seen or self.look()
        yield
        call.check(self.model, before, self.look(), self.clock())
