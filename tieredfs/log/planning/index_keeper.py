"""A storage that keeps the indexes that it has fetched, for as long as a plan takes."""

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

from tieredfs.errors import DeadlineExceededError
from tieredfs.model import IndexType, SegmentIndexes, SegmentMetadata
from tieredfs.objects.concurrency.fork_locks import make_rlock
from tieredfs.objects.concurrency.waiting import LockTimeoutError, call_holding
from tieredfs.storage import Capability, RemoteStorageManager, StorageWrapper

if TYPE_CHECKING:
    from threading import RLock

__all__ = ["IndexKeeper"]

_MAX_SEGMENTS: Final = 1000


class IndexKeeper(StorageWrapper):
    """Fetch each index of a segment once.

    A plan by time looks for a time in a segment, and then for the position of the
    offset that was found in the same one; a plan of committed records for the last
    stable offset, and for its position. It is made for one plan of one partition, or
    for one view of it, whose readers wait for each other's fetch of an index. It keeps
    the indexes of the last thousand segments.
    """

    def __init__(self, inner: RemoteStorageManager) -> None:
        """Wrap ``inner``, without sending a request."""
        super().__init__(inner)
        self._kept: dict[SegmentMetadata, tuple[set[IndexType], SegmentIndexes]] = {}
        self._fetching: dict[SegmentMetadata, RLock] = {}

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment; those that were fetched are kept.

        Raises:
            DeadlineExceededError: Another thread has not fetched them in time.
        """
        fetching = self._fetching.get(metadata)
        if fetching is None:  # as one step: two threads get the same lock
            fetching = self._fetching.setdefault(metadata, make_rlock())
        seconds = self.store.policy.deadline
        fetch = partial(self._fetch_missing, metadata, set(index_types))
        try:
            return call_holding(fetching, seconds, fetch)
        except LockTimeoutError as error:
            msg = f"{self.name_of(metadata)}: indexes not fetched in {seconds:g} s"
            raise DeadlineExceededError(msg) from error

    def _fetch_missing(
        self, metadata: SegmentMetadata, wanted: set[IndexType]
    ) -> SegmentIndexes:
        asked, found = self._kept.get(metadata, (set[IndexType](), SegmentIndexes({})))
        missing = wanted - asked
        if missing:
            is_one = Capability.SINGLE_REQUEST_INDEXES in self.inner.capabilities
            missing = set(IndexType) if is_one else missing
            fetched = self.inner.fetch_indexes(metadata, missing)
            layout = fetched.layout or found.layout
            found = SegmentIndexes({**found, **fetched}, layout)
            self._kept[metadata] = asked | missing, found
            if len(self._kept) > _MAX_SEGMENTS:
                oldest = next(iter(self._kept))
                self._kept.pop(oldest, None)
                self._fetching.pop(oldest, None)
        chosen = {kind: found[kind] for kind in wanted if kind in found}
        return SegmentIndexes(chosen, found.layout)
