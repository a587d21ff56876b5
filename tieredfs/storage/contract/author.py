"""What the author of a layout implements: four methods to read, two more to write.

Every plugin subclasses ``RemoteStorageManager``, which derives the rest of the contract
from these methods. A layout overrides some of that where it can be faster (``user``) or
where the default is not true of it (``verification``).
"""

from abc import ABC, abstractmethod
from collections.abc import Collection

from tieredfs.errors import UnsupportedOperationError
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage.contract.capability import Capability

__all__ = ["StorageLayout"]


class StorageLayout(ABC):
    """Keep the segments of topics in an object store, in one layout.

    The four abstract methods read. ``copy_log_segment``, ``delete_log_segment`` and the
    capability WRITE make a layout writable, and if it stores a segment in several
    objects, ``scrub``. The other methods have a default.

    A layout is built with the store and its own keyword options, sends no request while
    it is built, never retries (the store does), keeps no cache that a restart would
    miss, may be used from many threads, and can be pickled.

    Offsets of a segment are inclusive at both ends, byte ranges are ``[start, end)``,
    times are milliseconds since 1970 UTC. Segments never change: what was read stays
    valid until the segment is deleted.

    Every method that sends a request raises the store's errors besides its own, and
    never returns a result in their place: StorageUnavailableError (the policy's
    attempts are used up), DeadlineExceededError, PermissionDeniedError. A method that
    fails may be called again.
    """

    capabilities: frozenset[Capability] = frozenset()
    """Optional features of the class, or of one storage."""

    def __init__(self, store: ObjectStore) -> None:
        """Keep ``store``, without sending a request."""
        self.store = store

    @abstractmethod
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return every partition of one topic, or of all topics.

        Objects of other layouts are skipped. Partitions of a topic that was recreated
        are listed with each of its topic ids. Where a store lists empty folders, a
        partition without segments may be listed; ``list_segments`` does not find it.

        Args:
            topic: Its name; None for all topics. Other topics cost no request beyond
                the listing, so that a topic that cannot be read does not affect the
                rest.

        Returns:
            The partitions, sorted; empty if there are none.
        """

    @abstractmethod
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments of a partition, sorted by start offset.

        Only whole segments are listed, each with what the listing alone contains. A
        segment is listed as soon as its copy has returned, in any process, and no
        longer once it is deleted. Segments may overlap, as uploads of several leaders
        do.

        Args:
            partition: As ``list_partitions`` gave it.
            min_offset: Segments that are known to end before it may be left out.

        Raises:
            NotFoundError: There is no such partition.
            CorruptDataError: An object with a segment's key is not a segment.
            UnsupportedFormatError: A segment was written by a newer release.
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

        It returns all of them or raises an error, never fewer.

        Args:
            metadata: As it was listed, or as it was copied with the custom metadata
                that ``copy_log_segment`` returned.
            start: First byte.
            end: Byte after the last; None for the end of the log.
            layout: The ``layout`` that ``fetch_indexes`` returned for this segment, if
                it was called. It saves requests, and does not change the result.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log ends before ``end``, or is not what was stored.
            InvalidArgumentError: ``start`` is negative or greater than ``end``.
        """

    @abstractmethod
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index of a segment, as Kafka writes it, read-only.

        Args:
            metadata: As ``fetch_log_segment`` takes it.
            index_type: Which one.

        Raises:
            NotFoundError: The segment is gone, or has no such index: most have no
                TRANSACTION. An index without entries exists and is empty.
            CorruptIndexError: The index is not what was stored, where the layout keeps
                a checksum.
        """

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment; it is visible only when it is whole.

        When it returns, every reader sees the segment. When it raises, or the process
        dies, readers see all of it or nothing, and ``scrub`` finds what is left of it;
        copying again completes it. Copying a segment that was already copied succeeds
        and changes nothing. The file of a log is only read.

        Implementers: ``inspect_log_segment`` reads the log, and raises the errors for
        what may not be stored.

        Args:
            metadata: The segment's partition, id, first and last offset; the rest is
                read from the log.
            data: The log and its indexes. An index that Kafka always has and that is
                not given may be rebuilt from the log.

        Returns:
            The plugin's custom metadata, at most 128 bytes. A reader that did not list
            the segment passes it in the metadata.

        Raises:
            UnsupportedOperationError: The layout is read only, which is the default, or
                cannot store such a log.
            InvalidArgumentError: ``metadata`` has no end offset.
            NotFoundError: The log's file does not exist.
            CorruptDataError: The log or an index is malformed, or belongs to another
                segment; or the log has an aborted transaction, and the transaction
                index is missing. Nothing was stored.
        """
        del data
        msg = f"{self!r} is read only: it cannot copy {metadata}"
        raise UnsupportedOperationError(msg)

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete a segment; succeed if it does not exist.

        When it returns, the segment is no longer listed. When it raises, or the process
        dies, it is listed whole or not at all; deleting again removes what is left of
        it.

        Args:
            metadata: As ``fetch_log_segment`` takes it.

        Raises:
            UnsupportedOperationError: The layout is read only. That is the default.
        """
        msg = f"{self!r} is read only: it cannot delete {metadata}"
        raise UnsupportedOperationError(msg)

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Return ``metadata`` with every field known.

        Known fields do not change, except the size of a segment that a broker is
        writing: that becomes the end of its last whole batch.

        Implementers: the default is right where the listing contains every field.

        Args:
            metadata: As it was listed.
            indexes: What ``fetch_all_indexes`` returned for this segment, if it was
                called. It saves requests, and does not change the result.

        Raises:
            NotFoundError: The segment is gone.
            CorruptDataError: Parts of the segment contradict each other.
        """
        del indexes
        return metadata

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return how likely a page of keys is of this layout, from 0 to 1.

        Implementers: the default returns 0, so that the plugin has to be named.

        Args:
            keys: The first keys of a store, at most 1000, in order, relative to it; or
                a subset of these, at least one.
        """
        del keys
        return 0.0

    @property
    def identity(self) -> str:
        """Identifier of this storage's segments, without secrets.

        Two storages share it only if a segment has the same bytes in both: what is
        cached for one, also across restarts, is served for the other.

        Implementers: the default is the layout and the store. Add the options that
        determine where in the store the segments are, as the user gave them.
        """
        layout = type(self)
        return f"{layout.__module__}.{layout.__qualname__}\0{self.store.identity}"

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the name of a segment for error messages.

        The name contains the store's URL without secrets. It sends no request.

        Args:
            metadata: Any of the partition.
        """
        return f"{self.store.url}: {metadata}"

    def __repr__(self) -> str:
        """Show the layout and the store, without secrets."""
        return f"{type(self).__name__}({self.store.url!r})"
