"""A storage that delegates every call: the base class of wrappers."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import Self

from tieredfs.errors import TieredFSError
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import RequestObserver, RequestPolicy
from tieredfs.storage.contract import Leftover, PlannedFetch, RemoteStorageManager
from tieredfs.storage.segment_log.source import LogSource

__all__ = ["StorageWrapper"]


class StorageWrapper(RemoteStorageManager):
    """A storage in front of another one.

    Every method delegates to it. A subclass overrides what it changes, and the rest,
    including the capabilities, is passed through. Wrappers can be nested.

    Attributes:
        inner: The wrapped storage.
    """

    def __init__(self, inner: RemoteStorageManager) -> None:
        """Wrap ``inner``, without sending a request."""
        super().__init__(inner.store)
        self.inner = inner
        self.capabilities = inner.capabilities

    @property
    def identity(self) -> str:
        """Identifier of the wrapped storage's segments."""
        return self.inner.identity

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return every partition of a topic, or of all, sorted."""
        return self.inner.list_partitions(topic)

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments of a partition, sorted by start offset."""
        return self.inner.list_segments(partition, min_offset)

    def list_segments_lazily(
        self, partition: TopicIdPartition
    ) -> Sequence[SegmentMetadata]:
        """Return the segments of a partition as a sequence.

        If a subclass overrides ``list_segments``, its list is returned, so that nothing
        is bypassed.
        """
        if type(self).list_segments is not StorageWrapper.list_segments:
            return super().list_segments_lazily(partition)
        return self.inner.list_segments_lazily(partition)

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return the bytes ``[start, end)`` of a segment's log, read-only."""
        return self.inner.fetch_log_segment(metadata, start, end, layout=layout)

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return the bytes of a segment's log from ``start`` to ``end`` or further."""
        return self.inner.fetch_log_ahead(metadata, start, end, layout=layout)

    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        """Plan the requests that ``fetch_log_ahead`` would send now."""
        return self.inner.plan_fetch(metadata, start, end, layout=layout, after=after)

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index of a segment, as Kafka writes it."""
        return self.inner.fetch_index(metadata, index_type)

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment, without those it does not have."""
        return self.inner.fetch_indexes(metadata, index_types)

    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Return all indexes of a segment, without those it does not have."""
        return self.inner.fetch_all_indexes(metadata)

    def is_txn_index_empty(self, metadata: SegmentMetadata) -> bool:
        """Return whether a listing shows that a segment has no aborted transaction."""
        return self.inner.is_txn_index_empty(metadata)

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return at least the first segment that ends at ``offset`` or later."""
        return self.inner.seek(partition, offset)

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or the error that a reader of it would get."""
        return self.inner.survey(partition)

    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        """Return the producer snapshot that was taken where a segment begins."""
        return self.inner.fetch_producers_before(metadata)

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield a segment's whole log in order, one piece at a time."""
        return self.inner.stream_log(metadata)

    def is_active(self, metadata: SegmentMetadata) -> bool:
        """Return whether a broker may still be writing a segment."""
        return self.inner.is_active(metadata)

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment's end offset has been verified."""
        return self.inner.is_end_checked(metadata)

    def note_checked_end(self, metadata: SegmentMetadata) -> None:
        """Take note that the end of a segment's log was read."""
        self.inner.note_checked_end(metadata)

    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        """Return the highest leader epoch in a segment's log, if it is listed."""
        return self.inner.highest_epoch(metadata)

    @property
    def keeps_topic_ids(self) -> bool:
        """Whether topics of one name are distinguished by their ids."""
        return self.inner.keeps_topic_ids

    def log_checksum(self, metadata: SegmentMetadata) -> int | None:
        """Return the CRC-32C of a segment's log, if it is listed."""
        return self.inner.log_checksum(metadata)

    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        """Compare what a segment's key states beyond its metadata with its log."""
        self.inner.check_key(metadata, epoch)

    def is_current(
        self, metadata: SegmentMetadata, last_offset: int | None = None
    ) -> bool:
        """Return whether a segment is still the one that was listed."""
        return self.inner.is_current(metadata, last_offset)

    def is_layout_current(self, metadata: SegmentMetadata, layout: bytes) -> bool:
        """Return whether a layout's data can be those of a segment as it is listed."""
        return self.inner.is_layout_current(metadata, layout)

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Return ``metadata`` with every field known."""
        return self.inner.describe(metadata, indexes)

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes that segments take in the store, with their indexes."""
        return self.inner.stored_sizes(partition)

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Return whether a cleaner may have removed batches of a partition."""
        return self.inner.is_compacted(partition)

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the name of a segment for error messages."""
        return self.inner.name_of(metadata)

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment; it is visible only when it is whole."""
        return self.inner.copy_log_segment(metadata, data)

    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Store a segment, and return its indexes for a cache."""
        return self.inner.copy_with_indexes(metadata, data)

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment whose log is read in place."""
        return self.inner.copy_open_log(metadata, log, indexes)

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment in place of a damaged copy of the same log."""
        return self.inner.replace_log_segment(metadata, log, indexes)

    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment unless another one was appended at its start offset."""
        return self.inner.append_log_segment(metadata, data)

    def cancel_copying(self, partition: TopicIdPartition) -> None:
        """Remove what incomplete copies to a partition have left."""
        self.inner.cancel_copying(partition)

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield what incomplete copies to a partition have left."""
        return self.inner.scrub(partition)

    def leftover_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return every partition of which ``scrub`` may yield something."""
        return self.inner.leftover_partitions(topic)

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete a segment; succeed if it does not exist."""
        self.inner.delete_log_segment(metadata)

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete all of a partition; succeed if it does not exist."""
        self.inner.delete_partition(partition)

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return the same storage, on the same connections, under ``policy``."""
        view = self._shared_with(copy(self))
        view.inner = self.inner.with_policy(policy)
        view.store = view.inner.store
        return view

    def with_observer(self, observer: RequestObserver) -> Self:
        """Return the same storage, on the same connections, with one more observer."""
        view = self.with_policy(self.store.policy)
        view.inner = self.inner.with_observer(observer)
        view.store = view.inner.store
        return view

    def close(self) -> None:
        """Release the resources of the wrapped storage."""
        self.inner.close()

    def __repr__(self) -> str:
        """Show the wrapped storage."""
        return repr(self.inner)
