"""The steps in which a handle is changed in the midst of a call."""

from collections.abc import Callable
from typing import Final, Literal

import hypothesis.strategies as st
from hypothesis.stateful import rule

from tieredfs.cache import CachedIndexes
from tieredfs.errors import ClosedError
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import HANDLES, LIMITS, PLACES
from tieredfs.testing.cache_machine.interruption import Interruption
from tieredfs.testing.rule import require

__all__ = ["Interrupts"]

_Action = Literal["remove", "clear", "resize", "close"]

_ACTIONS: Final = st.sampled_from(["remove", "clear", "resize", "close"])

_STEPS: Final = 33
"""About so many functions are called to open an entry."""

_STRIDE: Final = 16


class Interrupts(Calls):
    """A machine whose calls do not come one after the other."""

    @rule(place=PLACES, handle=HANDLES, action=_ACTIONS, by=HANDLES, limit=LIMITS)
    def change_during_a_fetch(
        self, place: int, handle: int, action: _Action, by: int, limit: int
    ) -> None:
        """Change a handle while a segment is fetched."""
        segment = self.segments[place]
        self.remove_segments([segment])
        self._interrupt(segment, handle, action, by, limit, None)

    @rule(
        place=PLACES,
        handle=HANDLES,
        action=_ACTIONS,
        by=HANDLES,
        limit=LIMITS,
        first=st.integers(0, _STRIDE - 1),
    )
    def change_while_opening(
        self,
        place: int,
        handle: int,
        action: _Action,
        by: int,
        limit: int,
        first: int,
    ) -> None:
        """Change a handle while an entry is opened, at several places of that."""
        segment = self.segments[place]
        for step in range(first, _STEPS, _STRIDE):
            self.get_segment(segment, handle)
            self.reopen(self.handle_on(segment, handle), None)
            self._interrupt(segment, handle, action, by, limit, step)

    def _interrupt(
        self,
        segment: CachedSegment,
        handle: int,
        action: _Action,
        by: int,
        limit: int,
        step: int | None,
    ) -> None:
        """Get a segment, and change a handle in the midst of that.

        Args:
            segment: What is got.
            handle: By which handle, if it is on the segment's store.
            action: What is done in the midst.
            by: By which handle, if it is on the segment's store.
            limit: What it sets, if it is the limit.
            step: At which of the steps of the caller; None for within the fetch.
        """
        handle, by = (self.handle_on(segment, one) for one in (handle, by))
        where = "its fetch" if step is None else f"its step {step}"
        said = self.says(
            f"get({segment}) by handle {handle}, with {action} by handle {by} within "
            f"{where},"
        )
        before = self.look()
        midst = Interruption(self._action(action, by, segment, limit))
        found = self._get_interrupted(segment, handle, midst, step)
        is_closed = action == "close" and by == handle
        require(
            found is not None or is_closed,
            f"a closed cache says so, and no other: {said} raised ClosedError",
        )
        if found is not None:
            self.hold(said, segment, found)
        is_done = midst.end()
        if is_done and action == "resize":
            self.model.resize(by, limit)
        after = self.look()
        fetches = after.fetches_since(before)
        require(
            fetches.total() == fetches[segment] <= 1,
            "all indexes are fetched in one operation, by one of concurrent callers: "
            f"{said} sent {fetches.total()} operations to the storage",
        )
        # Whether a segment is removed before or after it is kept is not said.
        free = {
            "remove": {segment},
            "clear": {*before.entries.sizes},
            "resize": {*before.entries.sizes},
            "close": set[CachedSegment](),
        }[action if is_done else "close"]
        is_kept = segment in after.entries.whole
        self.model.check_entries(
            said,
            before.entries.but_for(free - {*after.entries.whole}),
            after.entries,
            fetched=[segment] if fetches and is_kept else [],
            kept_for_a_moment=[segment] if fetches and not is_kept else [],
            removed=free - {segment} if action == "clear" else (),
        )
        self.model.use(handle, segment, self.clock())
        if is_done and action in {"remove", "clear"}:
            self.model.remove(by, {segment, *free})
            if is_kept:
                self.model.map(by, segment)
        if is_done and action == "close":
            self.expect_closed(by, segment)
            self.reopen(by, None)
        self.get_segment(segment, handle)

    def _action(
        self, action: _Action, by: int, segment: CachedSegment, limit: int
    ) -> Callable[[], object]:
        """Return what is done in the midst of the call."""
        cache = self.caches[by]
        return {
            "remove": lambda: cache.remove([segment.metadata]),
            "clear": cache.clear,
            "resize": lambda: cache.resize(limit),
            "close": cache.close,
        }[action]

    def _get_interrupted(
        self,
        segment: CachedSegment,
        handle: int,
        midst: Interruption,
        step: int | None,
    ) -> CachedIndexes | None:
        """Return what a call returns in whose midst something happens.

        Args:
            segment: What is got.
            handle: What is called.
            midst: What happens.
            step: At which of the steps of the caller; None for within the fetch.

        Returns:
            The indexes; None if the call says that the cache is closed.
        """
        cache = self.caches[handle]
        try:
            if step is not None:
                return midst.within(lambda: cache.get(segment.metadata), step)
            with self.storage_of(segment).interrupted(midst):
                return cache.get(segment.metadata)
        except ClosedError:
            return None
