"""The steps in which a storage fails, or has nothing."""

from collections.abc import Mapping
from typing import Final

import hypothesis.strategies as st
from hypothesis.stateful import precondition, rule

from tieredfs.errors import CorruptIndexError, NotFoundError, StorageUnavailableError
from tieredfs.model import IndexType, SegmentIndexes
from tieredfs.testing.cache_machine.call import Call
from tieredfs.testing.cache_machine.calls import Calls
from tieredfs.testing.cache_machine.draws import HANDLES, PLACES
from tieredfs.testing.cache_machine.full_disk import can_fill_disk, full_disk
from tieredfs.testing.rule import require

__all__ = ["Fails"]

_FAULTS: Final[Mapping[str, Exception | SegmentIndexes]] = {
    "unavailable": StorageUnavailableError("the store does not answer"),
    "gone": NotFoundError("the segment is gone"),
    "slow": TimeoutError("the store is slow"),
    "malformed": SegmentIndexes({IndexType.OFFSET: memoryview(b"not an index")}),
    "misleading": SegmentIndexes(
        {IndexType.OFFSET: memoryview((1).to_bytes(4) + (1 << 30).to_bytes(4))}
    ),
}
"""What a storage raises, or returns in place of a segment's indexes."""


class Fails(Calls):
    """A machine whose storages fail."""

    @rule(place=PLACES, handle=HANDLES, fault=st.sampled_from(sorted(_FAULTS)))
    def fail(self, place: int, handle: int, fault: str) -> None:
        """Let the storage fail, and then work again: the failure is not kept."""
        segment = self.segments[place]
        self.remove_segments([segment])
        storage, failure = self.storage_of(segment), _FAULTS[fault]
        handle = self.handle_on(segment, handle)
        said = f"get({segment}), whose storage fails ({fault}),"
        wanted = type(failure) if isinstance(failure, Exception) else CorruptIndexError
        for _ in range(2):
            with self.observed(Call(said, handle, got=segment, is_kept=False)):
                operations = storage.operations.total()
                storage.fault = failure
                found: object = None
                raised: Exception | None = None
                try:
                    found = self.caches[handle].get(segment.metadata)
                except Exception as error:  # noqa: BLE001 - any but one is wrong
                    raised = error
                storage.fault = None
                _check_asked(said, storage.operations.total() - operations, raised)
                require(
                    isinstance(raised, wanted),
                    f"a failure of the storage is raised, each time: {said} raised "
                    f"{raised!r} and returned {found!r}, not {wanted.__name__}",
                )
        self.get_segment(segment, handle)

    @rule(place=PLACES, handle=HANDLES)
    def find_nothing(self, place: int, handle: int) -> None:
        """Get a segment while it has no index, as one that is being deleted."""
        segment = self.segments[place]
        self.remove_segments([segment])
        storage, handle = self.storage_of(segment), self.handle_on(segment, handle)
        said = f"get({segment}), of which the storage has no index,"
        with self.observed(Call(said, handle, got=segment, is_kept=False)):
            operations = storage.operations.total()
            storage.fault = SegmentIndexes()
            found = self.caches[handle].get(segment.metadata)
            storage.fault = None
            _check_asked(said, storage.operations.total() - operations, None)
            require(
                not found.indexes,
                f"no index is made up: {said} returned {sorted(found.indexes)}",
            )
        self.get_segment(segment, handle)

    @precondition(can_fill_disk)
    @rule(place=PLACES, handle=HANDLES)
    def fill_the_disk(self, place: int, handle: int) -> None:
        """Get a segment while nothing can be written: it is served, and not kept."""
        segment = self.segments[place]
        self.remove_segments([segment])
        storage, handle = self.storage_of(segment), self.handle_on(segment, handle)
        said = f"get({segment}) by handle {handle}, while the disk is full,"
        with self.observed(Call(said, handle, got=segment, is_kept=False)):
            operations = storage.operations.total()
            try:
                with full_disk():
                    found = self.caches[handle].get(segment.metadata)
            except OSError as error:
                text = f"a full disk is not an error of a read: {said} raised {error!r}"
                raise AssertionError(text) from error
            _check_asked(said, storage.operations.total() - operations, None)
            self.hold(said, segment, found)
        self.get_segment(segment, handle)


def _check_asked(said: str, fetches: int, raised: Exception | None) -> None:
    """Require that a segment that was removed is fetched, in one operation."""
    broken = "what was removed or has expired is not served"
    if raised is not None:
        broken = "a failure is not kept"
    require(fetches > 0, f"{broken}: {said} sent no operation to the storage")
    require(
        fetches == 1,
        "all indexes are fetched in one operation, by one of concurrent callers: "
        f"{said} sent {fetches} operations to the storage",
    )
