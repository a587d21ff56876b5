"""The contract of a plugin: where one layout keeps segments and their indexes.

It joins Kafka's RemoteStorageManager (KIP-405) with the fetch of all indexes at once
(KIP-1002), and adds the listing that Kafka keeps in a topic of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator
from copy import copy
from enum import StrEnum
from types import TracebackType
from typing import Final, Self

from tieredfs.errors import (
    NotFoundError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import ObjectStore, RequestPolicy

__all__ = ["STREAM_PIECE", "Capability", "RemoteStorageManager"]

STREAM_PIECE: Final = 8 << 20
"""Bytes of a log that are fetched at once when all of it is read."""


class Capability(StrEnum):
    """What a layout can do beyond the four methods that every one has."""

    WRITE = "write"
    """Segments can be copied to it and deleted."""

    RANGE_READ = "range_read"
    """A part of a log costs a request for that part only."""

    SINGLE_REQUEST_INDEXES = "single_request_indexes"
    """All indexes of a segment cost one request."""

    ATOMIC_COPY = "atomic_copy"
    """A copy is one put: no crash leaves a part of a segment."""

    PLAN_FROM_LISTING = "plan_from_listing"
    """``list_segments`` says where segments end and how late their records are."""


class RemoteStorageManager(ABC):
    """Keep the segments of topics in an object store, in one layout.

    A subclass has four methods to read; two more make it writable. It is built with
    the store and its own keyword options, never retries (the store does), keeps no
    cache, may be used from many threads, and can be pickled.

    Every method raises the store's errors: NotFoundError for what is not there,
    StorageUnavailableError and DeadlineExceededError, PermissionDeniedError.
    """

    capabilities: frozenset[Capability] = frozenset()
    """What it can do beyond the four methods: of the class, or of one storage."""

    def __init__(self, store: ObjectStore) -> None:
        """Keep ``store``; ask nothing of it yet."""
        self.store = store

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Judge one page of keys: 0 is not mine, 1 is surely mine.

        Implementers: the default never claims a store, so that the plugin has to be
        named.

        Args:
            keys: The first keys of a store, in order, relative to it.
        """
        del keys
        return 0.0

    @abstractmethod
    def list_partitions(self) -> list[TopicIdPartition]:
        """Return every partition of every topic, sorted.

        What is not of this layout is skipped. Partitions of a topic that was made
        again come with each of its ids.
        """

    @abstractmethod
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments of a partition, sorted by start offset.

        Only complete segments are listed; each with what the listing alone says.

        Args:
            partition: As ``list_partitions`` gave it.
            min_offset: Segments that surely end before it may be left out.

        Raises:
            NotFoundError: There is no such partition.
        """

    @abstractmethod
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return the bytes ``[start, end)`` of a segment's log, read-only.

        Args:
            metadata: As it was listed.
            start: First byte.
            end: Byte after the last; None for the end of the log.
            layout: What ``fetch_indexes`` of this segment gave, if it was asked.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log is shorter than it was listed.
        """

    @abstractmethod
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index of a segment, as Kafka writes it.

        Raises:
            NotFoundError: The segment has no such index: most have no TRANSACTION.
        """

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment, without those it does not have.

        Implementers: the default asks for each index apart. A layout that keeps them
        in one object asks for one range.
        """
        found: dict[IndexType, memoryview] = {}
        for index_type in index_types:
            try:
                found[index_type] = self.fetch_index(metadata, index_type)
            except NotFoundError:
                continue
        return SegmentIndexes(found)

    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Return all indexes of a segment, without those it does not have."""
        return self.fetch_indexes(metadata, IndexType)

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return segments that end at ``offset`` or later, the first of them at least.

        Implementers: the default returns all of them. A layout whose listing can begin
        at an offset asks for one page.

        Raises:
            NotFoundError: There is no such partition, or nothing in it ends so late.
        """
        return self.list_segments(partition, offset)

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or in its place the error that a reader would meet.

        Implementers: the default stops at the first error.

        Raises:
            NotFoundError: There is no such partition.
        """
        yield from self.list_segments(partition)

    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        """Return the snapshot of the producers where a segment begins.

        Implementers: the default is right where a segment has only the one behind it.

        Raises:
            NotFoundError: There is none.
        """
        msg = f"not found: the producers before {self.name_of(metadata)}"
        raise NotFoundError(msg)

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield a segment's whole log, in order, piece by piece.

        Implementers: the default fetches ranges. A layout that keeps a checksum of the
        log compares it at the end.

        Args:
            metadata: With its size told.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log is not what was stored.
        """
        size = metadata.size or 0
        for start in range(0, size, STREAM_PIECE):
            end = min(start + STREAM_PIECE, size)
            yield self.fetch_log_segment(metadata, start, end)

    def is_active(self, metadata: SegmentMetadata) -> bool:
        """Tell whether a broker may still be writing a segment.

        Implementers: the default is right where only finished segments are stored.

        Args:
            metadata: As it was listed.
        """
        del metadata
        return False

    def is_current(self, metadata: SegmentMetadata) -> bool:
        """Tell whether a segment is still what was listed.

        Implementers: the default is right where names are never used again.
        """
        del metadata
        return True

    def describe(self, metadata: SegmentMetadata) -> SegmentMetadata:
        """Return ``metadata`` with every field told.

        Implementers: the default is right where the listing says everything.

        Raises:
            CorruptDataError: The segment contradicts itself.
        """
        return metadata

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Tell whether a cleaner may have removed batches from a partition's log.

        It is asked when a segment's log ends before its last offset, which is an error
        unless this is true. Implementers: the default, no, is right where only
        segments that Kafka would tier are kept.
        """
        del partition
        return False

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return how to call a segment in an error: the store, without secrets, too."""
        return f"{self.store.url}: {metadata}"

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment; it is visible only when it is whole.

        Copying again what was copied is success.

        Returns:
            The plugin's custom metadata, at most 128 bytes.

        Raises:
            UnsupportedOperationError: The layout is read only. That is the default.
        """
        del data
        msg = f"{self!r} is read only: it cannot copy {metadata}"
        raise UnsupportedOperationError(msg)

    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment unless another one was appended at its start offset.

        Afterwards it is there whole, or, also after a crash, not at all.

        Returns:
            The plugin's custom metadata, at most 128 bytes.

        Raises:
            AlreadyExistsError: Another writer was first; nothing was stored.
            UnsupportedOperationError: The layout has no way to see who was first. That
                is the default.
        """
        del data
        msg = f"{self!r} cannot be appended to: {metadata}"
        raise UnsupportedOperationError(msg)

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete a segment; one that is not there is success.

        Raises:
            UnsupportedOperationError: The layout is read only. That is the default.
        """
        msg = f"{self!r} is read only: it cannot delete {metadata}"
        raise UnsupportedOperationError(msg)

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return the same storage, on the same connections, under ``policy``."""
        view = copy(self)
        view.store = self.store.with_policy(policy)
        return view

    def close(self) -> None:  # noqa: B027 - most plugins hold nothing
        """Let go of what the plugin holds; the store is the caller's."""

    def __enter__(self) -> Self:
        """Use the storage in a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the storage."""
        self.close()

    def __repr__(self) -> str:
        """Show the layout and the store, without secrets."""
        return f"{type(self).__name__}({self.store.url!r})"
