"""The step in which a handle has a view over another view of its storage."""

import hypothesis.strategies as st
from hypothesis.stateful import rule

from tieredfs.errors import StorageUnavailableError
from tieredfs.testing.cache_machine.call import Call
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import HANDLES, PLACES
from tieredfs.testing.rule import require

__all__ = ["Views"]


class Views(Calls):
    """A machine whose handles have views."""

    @rule(place=PLACES, handle=HANDLES, closed=st.sampled_from(["view", "cache", None]))
    def use_a_view(self, place: int, handle: int, closed: str | None) -> None:
        """Get a segment through a view, which shares everything but the storage."""
        segment = self.segments[place]
        self.remove_segments([segment])
        handle, storage = self.handle_on(segment, handle), self.storage_of(segment)
        cache = self.caches[handle]
        view = cache.with_storage(storage.view())
        said = f"get({segment}) by a view of handle {handle}"
        for _ in range(2):
            with self.observed(Call(said, handle, got=segment)):
                storage.fault = StorageUnavailableError("this view is not asked")
                try:
                    found = view.get(segment.metadata)
                except StorageUnavailableError as error:
                    text = f"a view fetches from its own storage: {said} asked another"
                    raise AssertionError(text) from error
                finally:
                    storage.fault = None
                self.hold(said, segment, found)
        require(
            view.stats == cache.stats,
            f"a view shares the counters: after {said} it has {view.stats}, and the "
            f"cache {cache.stats}",
        )
        self.get_segment(segment, handle)
        if closed is None:
            return
        (view if closed == "view" else cache).close()
        for one in (cache, view):
            self.caches[handle] = one
            self.expect_closed(handle, segment)
        self.reopen(handle, None)
