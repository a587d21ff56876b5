"""Which segments a partition has, and everything that is known of them."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from cachetools import LRUCache

from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["SegmentCatalog"]

_KEPT = 100_000  # descriptions; some 500 bytes each
_AT_ONCE = 16  # requests of a few KiB: latency is all they cost


class SegmentCatalog:
    """List the segments of partitions, and describe those that the listing does not.

    Every call lists anew, so new segments are seen. What a segment was described as is
    kept: its contents never change under one id and version.
    """

    def __init__(self, storage: RemoteStorageManager) -> None:
        """Ask nothing yet."""
        self._storage = storage
        self._lock = threading.Lock()
        self._known: LRUCache[SegmentMetadata, SegmentMetadata] = LRUCache(_KEPT)

    def segments(self, partition: TopicIdPartition) -> list[SegmentMetadata]:
        """Return the segments with their ends, sorted by start offset.

        Raises:
            NotFoundError: There is no such partition.
            CorruptDataError: A segment contradicts its own indexes.
        """
        return self._described(partition, lambda segment: segment.end_offset is None)

    def full_segments(self, partition: TopicIdPartition) -> list[SegmentMetadata]:
        """Return the segments with every field told, sorted by start offset."""
        return self._described(
            partition,
            lambda s: None in (s.end_offset, s.max_timestamp_ms, s.leader_epochs),
        )

    def describe(self, segment: SegmentMetadata) -> SegmentMetadata:
        """Return ``segment`` with every field told."""
        with self._lock:
            known = self._known.get(segment)
        if known is None:
            known = self._storage.describe(segment)
            with self._lock:
                self._known[segment] = known
        return known

    def _described(
        self, partition: TopicIdPartition, lacks: Callable[[SegmentMetadata], bool]
    ) -> list[SegmentMetadata]:
        listed = self._storage.list_segments(partition)
        wanted = [segment for segment in listed if lacks(segment)]
        told = dict(zip(wanted, self._describe_all(wanted), strict=True))
        return [told.get(segment, segment) for segment in listed]

    def _describe_all(
        self, segments: Sequence[SegmentMetadata]
    ) -> Sequence[SegmentMetadata]:
        if len(segments) < 2:  # noqa: PLR2004 - no pool for one
            return [self.describe(segment) for segment in segments]
        with ThreadPoolExecutor(min(_AT_ONCE, len(segments))) as pool:
            return list(pool.map(self.describe, segments))
