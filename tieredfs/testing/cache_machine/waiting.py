"""The step in which a caller does not wait for the end of a fetch."""

from threading import Event
from typing import Final

from hypothesis.stateful import rule

from tieredfs.errors import DeadlineExceededError
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import HANDLES, PLACES
from tieredfs.testing.rule import require

__all__ = ["Waits"]

_TIMEOUT: Final = 0.01

_MAX_SECONDS: Final = 2.0
"""How long the storage hangs if the caller waits for it."""


class Waits(Calls):
    """A machine whose callers do not wait for long."""

    @rule(place=PLACES, handle=HANDLES)
    def wait_in_vain(self, place: int, handle: int) -> None:
        """Get a segment from a storage that hangs until the caller has given up."""
        segment = self.segments[place]
        self.remove_segments([segment])
        if not self.model.have_room([segment], self.entries().size):
            return  # an eviction may be counted after the call that waited for it
        handle = self.handle_on(segment, handle)
        cache, before = self.caches[handle], self.look()
        said = self.says(f"get({segment}, timeout={_TIMEOUT}) by handle {handle}")
        released = Event()
        raised: Exception | None = None
        with self.storage_of(segment).interrupted(lambda: released.wait(_MAX_SECONDS)):
            try:
                cache.get(segment.metadata, timeout=_TIMEOUT)
            except Exception as error:  # noqa: BLE001 - any but one is wrong
                raised = error
            released.set()
            require(
                isinstance(raised, DeadlineExceededError),
                f"a caller waits no longer than its timeout: {said} raised {raised!r}, "
                "and its storage hung",
            )
            said = self.says(f"get({segment}) after its fetch was not waited for")
            try:
                self.hold(said, segment, cache.get(segment.metadata))
            except DeadlineExceededError as error:
                text = f"a failure is not kept: {said} raised {error!r}"
                raise AssertionError(text) from error
        after = self.look()
        fetches = after.fetches_since(before)
        loads = after.stats[handle].loads - before.stats[handle].loads
        require(
            (fetches.total(), fetches[segment], loads) == (1, 1, 1),
            f"a fetch goes on after a timeout, and serves the next call: {said} it was "
            f"fetched {fetches[segment]} times, and {loads} loads were counted",
        )
        self.model.use(handle, segment, self.clock())
        self.model.check_entries(said, before.entries, after.entries, fetched=fetches)
