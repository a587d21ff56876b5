"""The contract of a plugin: where one layout keeps segments and their indexes.

It combines Kafka's RemoteStorageManager (KIP-405) with the fetch of all indexes in one
call (KIP-1002), and adds the listing that Kafka keeps in a topic of its own.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from copy import copy
from functools import wraps
from types import TracebackType
from typing import Any, Final, Self

from tieredfs.errors import (
    NotFoundError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import ObjectStore, RequestPolicy
from tieredfs.storage.capability import Capability
from tieredfs.storage.leftover import Leftover
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.spool import spooled

__all__ = ["STREAM_PIECE", "RemoteStorageManager"]

STREAM_PIECE: Final = 8 << 20
"""Bytes of each request when a whole log is read."""


class _View:
    """Marks a view of another storage; once pickled, it shares nothing."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


_VIEW = _View()


def _unless_view(close: Callable[[Any], None]) -> Callable[[Any], None]:
    """Make ``close`` a no-op for a view, also in a forked child."""

    @wraps(close)
    def closing(self: "RemoteStorageManager") -> None:
        if self._view is None:
            close(self)

    return closing


class RemoteStorageManager(ABC):
    """Keep the segments of topics in an object store, in one layout.

    A subclass implements four methods to read; two more make it writable. It is built
    with the store and its own keyword options, sends no request while it is built,
    never retries (the store does), keeps no cache that a restart would miss, may be
    used from many threads, and can be pickled.

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

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return the bytes of a segment's log from ``start`` to ``end`` or further.

        A caller that reads on begins where the result ends, so that nothing is fetched
        twice.

        Implementers: the default returns exactly ``[start, end)``. A layout that stores
        a log in chunks returns all of the last chunk, which it has to fetch anyway.

        Args:
            metadata: As ``fetch_log_segment`` takes it.
            start: First byte.
            end: Byte after the last one that is needed.
            layout: As ``fetch_log_segment`` takes it.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log ends before ``end``, or is not what was stored.
            InvalidArgumentError: ``start`` is negative or greater than ``end``.
        """
        return self.fetch_log_segment(metadata, start, end, layout=layout)

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

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment, without those it does not have.

        Each is what ``fetch_index`` returns.

        Implementers: the default fetches each index separately. A layout that stores
        them in one object fetches one range.

        Args:
            metadata: As ``fetch_log_segment`` takes it.
            index_types: Which ones; any of them may be missing.

        Raises:
            CorruptIndexError: As in ``fetch_index``.
            NotFoundError: The segment is gone, if the layout can distinguish that from
                a segment that has none of these indexes.
        """
        found: dict[IndexType, memoryview] = {}
        for index_type in index_types:
            try:
                found[index_type] = self.fetch_index(metadata, index_type)
            except NotFoundError:
                continue
        return SegmentIndexes(found)

    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Return all indexes of a segment, without those it does not have.

        Args:
            metadata: As ``fetch_log_segment`` takes it.

        Raises:
            CorruptIndexError: As in ``fetch_indexes``.
            NotFoundError: As in ``fetch_indexes``.
        """
        return self.fetch_indexes(metadata, IndexType)

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return at least the first segment that ends at ``offset`` or later.

        The result is sorted as in ``list_segments``. It may hold further segments, and
        where a listing does not contain end offsets, also some that end before
        ``offset``.

        Implementers: the default returns all of them. A layout whose listing can begin
        at an offset fetches one page.

        Args:
            partition: As ``list_partitions`` gave it.
            offset: Offset to seek to; at least 0.

        Raises:
            NotFoundError: There is no such partition; or, where the listing contains
                end offsets, no segment ends at ``offset`` or later.
        """
        return self.list_segments(partition, offset)

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or the error that a reader of it would get.

        Implementers: the default stops at the first error.

        Args:
            partition: As ``list_partitions`` gave it.

        Raises:
            NotFoundError: There is no such partition.
        """
        yield from self.list_segments(partition)

    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        """Return the producer snapshot that was taken where a segment begins.

        Implementers: the default is right where a segment is stored only with the
        snapshot taken at its end.

        Args:
            metadata: As ``fetch_log_segment`` takes it.

        Raises:
            NotFoundError: There is no such snapshot.
        """
        msg = f"not found: the producers before {self.name_of(metadata)}"
        raise NotFoundError(msg)

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield a segment's whole log in order, one piece at a time.

        Implementers: the default fetches ranges of 8 MiB. A layout that stores a
        checksum of the log verifies it at the end.

        Args:
            metadata: The segment, whose size is known.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log is not what was stored.
        """
        size = metadata.size or 0
        for start in range(0, size, STREAM_PIECE):
            end = min(start + STREAM_PIECE, size)
            yield self.fetch_log_segment(metadata, start, end)

    def is_active(self, metadata: SegmentMetadata) -> bool:
        """Return whether a broker may still be writing a segment.

        It sends no request. Implementers: the default is right where only closed
        segments are stored.

        Args:
            metadata: As it was listed.
        """
        del metadata
        return False

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment's end offset has been verified.

        It sends no request. If the end offset is not verified, the end of the log is
        read before an end offset that no other segment confirms is returned: that of
        the partition, and those of segments that overlap.

        Implementers: the default is right where the end is part of a key, or where
        ``describe`` has seen it in the log. Return False where only a manifest states
        it.

        Args:
            metadata: As ``describe`` returned it.
        """
        del metadata
        return True

    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        """Return the highest leader epoch in a segment's log, if it is listed.

        It sends no request. Where the segments of a partition have different epochs, a
        segment may belong to a history that a leader election has ended: then the
        segments are described before they are read.

        Implementers: the default, None, is right where a key does not contain it.

        Args:
            metadata: As it was listed.
        """
        del metadata
        return None

    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        """Compare the further fields of a segment's key with its log.

        The fields are those that the metadata do not have. Implementers: the default is
        right where a key has no such field.

        Args:
            metadata: As it was listed.
            epoch: Highest leader epoch of the batches in the log; -1 for none.

        Raises:
            CorruptObjectError: The key contradicts the log.
        """
        del metadata, epoch

    def is_current(
        self, metadata: SegmentMetadata, last_offset: int | None = None
    ) -> bool:
        """Return whether a segment is still the one that was listed.

        Implementers: the default is right where names are never reused.

        Args:
            metadata: As it was listed.
            last_offset: The last offset in its log, if the log has been read. If that
                is not the segment's end offset, the end offset is checked as well.
        """
        del metadata, last_offset
        return True

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

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes that segments take in the store, with their indexes.

        Implementers: the default is empty, which means unknown.

        Args:
            partition: As ``list_partitions`` gave it.

        Returns:
            Bytes by start offset and id; segments whose size is not known are left out.
        """
        del partition
        return {}

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Return whether a cleaner may have removed batches of a partition.

        It is called when a segment's log ends before its end offset, which is an error
        unless this returns True. Implementers: the default, False, is right where only
        segments that Kafka would tier are kept.

        Args:
            partition: As ``list_partitions`` gave it.
        """
        del partition
        return False

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the name of a segment for error messages.

        The name contains the store's URL without secrets. It sends no request.

        Args:
            metadata: Any of the partition.
        """
        return f"{self.store.url}: {metadata}"

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment; it is visible only when it is whole.

        When it returns, every reader sees the segment. When it raises, or the process
        dies, readers see all of it or nothing, and ``scrub`` finds what is left of it;
        copying again completes it. Copying a segment that was already copied succeeds
        and changes nothing.

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
                index is missing (see ``inspect_copy``). Nothing was stored.
        """
        del data
        msg = f"{self!r} is read only: it cannot copy {metadata}"
        raise UnsupportedOperationError(msg)

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment whose log is read in place: see ``copy_log_segment``.

        Implementers: the default copies the log first, into memory or a temporary file.
        A layout that stores it unchanged can put it from its place.

        Args:
            metadata: As in ``copy_log_segment``.
            log: Its log. A byte that is read again is the same, or the read raises
                CorruptObjectError.
            indexes: The bytes of each index that exists.

        Returns:
            The plugin's custom metadata, at most 128 bytes.

        Raises:
            TieredFSError: As in ``copy_log_segment``.
        """
        with spooled(log) as whole:
            return self.copy_log_segment(metadata, LogSegmentData(whole, indexes))

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment in place of a damaged copy of the same log.

        When it returns, readers see the new copy and nothing of the damaged one. When
        it raises, or the process dies, readers see one of the two, or with the default
        implementation possibly neither: replacing again repairs it.

        Implementers: the default deletes the segment and copies it. A layout that can
        overwrite its objects does that instead.

        Args:
            metadata: As in ``copy_open_log``.
            log: As in ``copy_open_log``.
            indexes: As in ``copy_open_log``.

        Returns:
            The plugin's custom metadata, at most 128 bytes.

        Raises:
            TieredFSError: As in ``copy_log_segment``.
        """
        self.delete_log_segment(metadata)
        return self.copy_open_log(metadata, log, indexes)

    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment where the log ends, unless another one was appended there.

        Of several writers exactly one succeeds, also when some of them die: what a dead
        writer left either never becomes visible, or is completed by the next writer
        that appends. A writer is identified by the segment's id, which no other writer
        uses. Called again with the same segment after an error, this method succeeds if
        the first call had succeeded, or continues it.

        Args:
            metadata: As in ``copy_log_segment``; its id is this append's own.
            data: As in ``copy_log_segment``.

        Returns:
            The plugin's custom metadata, at most 128 bytes.

        Raises:
            AlreadyExistsError: Another writer was first, or the log does not end at the
                segment's start offset; nothing was stored.
            UnsupportedOperationError: The layout cannot determine which writer was
                first. That is the default.
        """
        del data
        msg = f"{self!r} cannot be appended to: {metadata}"
        raise UnsupportedOperationError(msg)

    def cancel_copying(self, partition: TopicIdPartition) -> None:
        """Remove what incomplete copies to a partition have left.

        Whole segments do not change. When it returns, ``scrub`` finds nothing; when it
        raises, or the process dies, some leftovers may remain: call it again. Call it
        only while no process copies to the partition: a copy in progress looks like an
        incomplete one, and would be destroyed.

        Implementers: the default deletes what ``scrub`` yields.

        Args:
            partition: Whose copies; it need not have a segment.

        Raises:
            UnsupportedOperationError: The layout is read only.
        """
        self._need_write(f"remove what copies of {partition} left")
        self.store.delete([leftover.key for leftover in self.scrub(partition)])

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield what incomplete copies to a partition have left.

        A copy in progress looks the same. Readers skip all of it, so it costs only
        space. Whole segments that cannot be read are reported by ``survey``.

        Implementers: the default, nothing, is right where a copy is one put.

        Args:
            partition: Whose copies; it need not have a segment.
        """
        del partition
        yield from ()

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

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete all of a partition; succeed if it does not exist.

        When it returns, the partition does not exist, nor anything that copies to it
        left, and every other partition is unchanged. When it raises, or the process
        dies, each of its segments exists whole or not at all: call it again. No process
        may copy to the partition meanwhile.

        Implementers: the default deletes one segment after the other. A layout that can
        name all of a partition's objects deletes them in one call, damaged ones too.

        Args:
            partition: As ``list_partitions`` gave it.

        Raises:
            UnsupportedOperationError: The layout is read only.
            CorruptDataError: An object with a segment's key is not a segment, where the
                layout uses the default.
        """
        self._need_write(f"delete {partition}")
        try:
            segments = self.list_segments(partition)
        except NotFoundError:
            segments = []
        for segment in segments:
            self.delete_log_segment(segment)
        self.cancel_copying(partition)

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return the same storage, on the same connections, under ``policy``.

        This storage keeps its own policy, and stays open when the returned one is
        closed.

        Args:
            policy: How long and how often each request is tried.
        """
        view = self._shared_with(copy(self))
        view.store = self.store.with_policy(policy)
        return view

    def _shared_with(self, view: Self) -> Self:
        """Mark ``view``, so that closing it leaves shared resources open."""
        view._view = _VIEW
        return view

    _view: _View | None = None
    """Whether this is a view of another storage."""

    def __init_subclass__(cls) -> None:
        """Wrap ``close``, so that closing a view leaves shared resources open."""
        super().__init_subclass__()
        if "close" in vars(cls):
            cls.close = _unless_view(cls.close)  # type: ignore[assignment] # of each subclass

    def close(self) -> None:  # noqa: B027 - most plugins hold nothing
        """Release the plugin's resources, but not the store, which is the caller's.

        Closing again does nothing, and closing a view leaves shared resources open.
        """

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

    def _need_write(self, what: str) -> None:
        if Capability.WRITE not in self.capabilities:
            msg = f"{self!r} is read only: it cannot {what}"
            raise UnsupportedOperationError(msg)
