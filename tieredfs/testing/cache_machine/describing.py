"""The step that has a segment described, which its storage does once an entry."""

from dataclasses import replace

import hypothesis.strategies as st
from hypothesis.stateful import rule

from tieredfs.model import SegmentMetadata
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.call import Call
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import HANDLES, PLACES
from tieredfs.testing.cache_machine.samples import description_of
from tieredfs.testing.rule import require

__all__ = ["Describes"]


class Describes(Calls):
    """A machine whose segments are described."""

    def __init__(self) -> None:
        """Begin without descriptions."""
        super().__init__()
        self._described: dict[CachedSegment, tuple[SegmentMetadata, bytes]] = {}

    @rule(place=PLACES, handle=HANDLES, is_changed=st.booleans())
    def describe(
        self,
        place: int,
        handle: int,
        is_changed: bool,  # noqa: FBT001 - hypothesis names it
    ) -> None:
        """Have a segment described, twice: the second time its storage is not asked.

        It may be listed with a log of another size than before, as after a change by
        another program: then what was described does not count.
        """
        segment = self.segments[place]
        if not self.model.have_room([segment], self.entries().size):
            return  # a description that has no room is not kept
        listed = segment.metadata
        for _ in range(2):
            self._describe(segment, listed, handle)
        if is_changed and self.setup.ttl is None:
            listed = replace(listed, size=(listed.size or 0) + 1)
            for _ in range(2):
                self._describe(segment, listed, handle)

    def _describe(
        self, segment: CachedSegment, listed: SegmentMetadata, handle: int
    ) -> None:
        handle = self.handle_on(segment, handle)
        storage, cache = self.storage_of(segment), self.caches[handle]
        said = f"get_described({segment}) by handle {handle}"
        file = self.directory.files().get(segment)
        known = (listed, file.read_bytes() if file else b"")
        before, fetched = len(storage.descriptions), self.operations()[segment]
        with self.observed(Call(said, handle, got=segment)):
            found = cache.get_described(listed)
            self.hold(said, segment, found)
        asked = len(storage.descriptions) - before
        is_known = self._described.get(segment) == known
        is_kept = self.operations()[segment] == fetched
        require(
            asked <= (not (is_known and is_kept)),
            f"what was described is not described again: {said} asked {asked} times, "
            f"and the entry {'had' if is_known else 'did not have'} a description",
        )
        described, right = found.describe(listed), description_of(listed)
        require(
            repr(described) == repr(right),  # which has the record count, too
            f"a description is that of its segment as listed: {said} returned "
            f"{described}, not {right}",
        )
        file = self.directory.files().get(segment)
        self._described[segment] = (listed, file.read_bytes() if file else b"")
