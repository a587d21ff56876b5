"""A storage that keeps the indexes that it has fetched, for as long as a plan takes."""

from collections.abc import Iterable

from tieredfs.model import IndexType, SegmentIndexes, SegmentMetadata
from tieredfs.storage import Capability, RemoteStorageManager, StorageWrapper

__all__ = ["IndexKeeper"]


class IndexKeeper(StorageWrapper):
    """Fetch each index of a segment once.

    A plan by time looks for a time in a segment, and then for the position of the
    offset that was found in the same one; a plan of committed records for the last
    stable offset, and for its position. It keeps everything, so it is made for one
    plan of one partition, in one thread.
    """

    def __init__(self, inner: RemoteStorageManager) -> None:
        """Wrap ``inner``, without sending a request."""
        super().__init__(inner)
        self._kept: dict[SegmentMetadata, tuple[set[IndexType], SegmentIndexes]] = {}

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment; those that were fetched are kept."""
        wanted = set(index_types)
        asked, found = self._kept.get(metadata, (set[IndexType](), SegmentIndexes({})))
        missing = wanted - asked
        if missing:
            is_one = Capability.SINGLE_REQUEST_INDEXES in self.inner.capabilities
            missing = set(IndexType) if is_one else missing
            fetched = self.inner.fetch_indexes(metadata, missing)
            layout = fetched.layout or found.layout
            found = SegmentIndexes({**found, **fetched}, layout)
            self._kept[metadata] = asked | missing, found
        chosen = {kind: found[kind] for kind in wanted if kind in found}
        return SegmentIndexes(chosen, found.layout)
