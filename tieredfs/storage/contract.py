"""The contract of a plugin: where one layout keeps segments and their indexes.

It joins Kafka's RemoteStorageManager (KIP-405) with the fetch of all indexes at once
(KIP-1002), and adds the listing that Kafka keeps in a topic of its own.
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
"""Bytes of a log that are fetched at once when all of it is read."""


class _View:
    """Marks a view of another storage; once pickled, it shares nothing."""

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


_VIEW = _View()


def _unless_view(close: Callable[[Any], None]) -> Callable[[Any], None]:
    """Make ``close`` do nothing for a view, in a forked child either."""

    @wraps(close)
    def closing(self: "RemoteStorageManager") -> None:
        if self._view is None:
            close(self)

    return closing


class RemoteStorageManager(ABC):
    """Keep the segments of topics in an object store, in one layout.

    A subclass has four methods to read; two more make it writable. It is built with
    the store and its own keyword options, asks nothing while it is built, never retries
    (the store does), keeps no cache that a restart would miss, may be used from many
    threads, and can be pickled.

    Offsets of a segment are inclusive at both ends, byte ranges are ``[start, end)``,
    times are milliseconds since 1970 UTC. Segments never change: what was read stays
    true until the segment is deleted.

    Every method that asks the store raises the store's errors besides its own, and lets
    none of them pass for an answer: StorageUnavailableError (it was tried as often as
    the policy allows), DeadlineExceededError, PermissionDeniedError. A method that
    fails may be called again.
    """

    capabilities: frozenset[Capability] = frozenset()
    """What it can do beyond the four methods: of the class, or of one storage."""

    def __init__(self, store: ObjectStore) -> None:
        """Keep ``store``; ask nothing of it yet."""
        self.store = store

    @property
    def identity(self) -> str:
        """What tells its segments from those of all other storages; no secret.

        Two storages share it only if a segment has the same bytes in both: what is kept
        of the one, also across restarts, is served for the other.

        Implementers: the default is the layout and the store. Add the options that say
        where in the store the segments are, as they were given.
        """
        layout = type(self)
        return f"{layout.__module__}.{layout.__qualname__}\0{self.store.identity}"

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Judge one page of keys: 0 is not mine, 1 is surely mine.

        Implementers: the default never claims a store, so that the plugin has to be
        named.

        Args:
            keys: The first keys of a store, at most 1000, in order, relative to it; or
                some of these, at least one.
        """
        del keys
        return 0.0

    @abstractmethod
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return every partition of a topic, or of all; none is an empty list.

        What is not of this layout is skipped. Partitions of a topic that was made
        again come with each of its ids. One whose segments are all gone may be among
        them where a store lists empty folders; ``list_segments`` does not find it.

        Args:
            topic: Its name; None for all topics. Nothing is asked about the others but
                what a listing shows, so that one that cannot be read harms no other.

        Returns:
            The partitions, sorted.
        """

    @abstractmethod
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments of a partition, sorted by start offset.

        Only whole segments are listed, each with what the listing alone says; a copy
        that returned, in whichever process, is listed from then on, and one that was
        deleted is not. Segments may overlap, as uploads of several leaders do.

        Args:
            partition: As ``list_partitions`` gave it.
            min_offset: Segments that surely end before it may be left out.

        Raises:
            NotFoundError: There is no such partition.
            CorruptDataError: What lies in a segment's place is none.
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

        All of them or an error, never fewer.

        Args:
            metadata: As it was listed, or as it was copied with the custom metadata
                that ``copy_log_segment`` returned.
            start: First byte.
            end: Byte after the last; None for the end of the log.
            layout: What ``fetch_indexes`` of this segment gave, if it was asked. It
                saves requests, and changes nothing of what is returned.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log ends before ``end``, or is not what was stored.
            InvalidArgumentError: ``start`` is negative or behind ``end``.
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

        A caller that reads on begins where the answer ends, so that nothing is fetched
        a second time.

        Implementers: the default returns exactly ``[start, end)``. A layout that keeps
        a log in chunks returns all of the last one, which it has to fetch anyway.

        Args:
            metadata: As ``fetch_log_segment`` takes it.
            start: First byte.
            end: Byte after the last one that is needed.
            layout: As ``fetch_log_segment`` takes it.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log ends before ``end``, or is not what was stored.
            InvalidArgumentError: ``start`` is negative or behind ``end``.
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
                TRANSACTION. An index of no entries is there, and empty.
            CorruptIndexError: The index is not what was stored, where the layout keeps
                a checksum.
        """

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment, without those it does not have.

        Each is what ``fetch_index`` returns.

        Implementers: the default asks for each index apart. A layout that keeps them
        in one object asks for one range.

        Args:
            metadata: As ``fetch_log_segment`` takes it.
            index_types: Which ones; any of them may be missing.

        Raises:
            CorruptIndexError: As in ``fetch_index``.
            NotFoundError: The segment is gone, if the layout can tell that from one
                that has none of these indexes.
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
            NotFoundError: Likewise.
        """
        return self.fetch_indexes(metadata, IndexType)

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return segments that end at ``offset`` or later, the first of them at least.

        They are sorted as ``list_segments`` sorts them. Where a listing does not tell
        ends, some that end before may be among them.

        Implementers: the default returns all of them. A layout whose listing can begin
        at an offset asks for one page.

        Args:
            partition: As ``list_partitions`` gave it.
            offset: Where to; from 0.

        Raises:
            NotFoundError: There is no such partition, or nothing in it surely ends so
                late, where the listing tells ends.
        """
        return self.list_segments(partition, offset)

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or in its place the error that a reader would meet.

        Implementers: the default stops at the first error.

        Args:
            partition: As ``list_partitions`` gave it.

        Raises:
            NotFoundError: There is no such partition.
        """
        yield from self.list_segments(partition)

    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        """Return the snapshot of the producers where a segment begins.

        Implementers: the default is right where a segment has only the one behind it.

        Args:
            metadata: As ``fetch_log_segment`` takes it.

        Raises:
            NotFoundError: There is none.
        """
        msg = f"not found: the producers before {self.name_of(metadata)}"
        raise NotFoundError(msg)

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield a segment's whole log, in order, piece by piece.

        Implementers: the default fetches ranges of 8 MiB. A layout that keeps a
        checksum of the log compares it at the end.

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
        """Tell whether a broker may still be writing a segment; nothing is asked.

        Implementers: the default is right where only finished segments are stored.

        Args:
            metadata: As it was listed.
        """
        del metadata
        return False

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Tell whether a segment's end is more than a claim; nothing is asked.

        Where it is not, the end of the log is read before an end is answered that no
        other segment confirms: that of the partition, and those of segments that
        overlap.

        Implementers: the default is right where the end is part of a key, or where
        ``describe`` has seen it in the log. Return False where a manifest claims it.

        Args:
            metadata: As ``describe`` returned it.
        """
        del metadata
        return True

    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        """Return the highest leader epoch in a segment's log, if its listing says it.

        Nothing is asked. Where the segments of a partition have different ones, one may
        be of a history that an election has ended: then they are described before they
        are read.

        Implementers: the default, None, is right where a key does not say it.

        Args:
            metadata: As it was listed.
        """
        del metadata
        return None

    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        """Compare what a segment's key says beyond its metadata with its log.

        Implementers: the default is right where a key says no more.

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
        """Tell whether a segment is still what was listed.

        Implementers: the default is right where names are never used again.

        Args:
            metadata: As it was listed.
            last_offset: The last offset that its log holds, if the log has been read:
                where that is not the segment's last one, the segment's end is looked at
                too.
        """
        del metadata, last_offset
        return True

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Return ``metadata`` with every field told.

        What was told stays as it is, but for the size of a segment that a broker is
        writing: that becomes the end of its last whole batch.

        Implementers: the default is right where the listing says everything.

        Args:
            metadata: As it was listed.
            indexes: What ``fetch_all_indexes`` of this segment gave, if it was asked:
                it saves requests, and changes nothing of what is returned.

        Raises:
            NotFoundError: The segment is gone.
            CorruptDataError: The segment contradicts itself.
        """
        del indexes
        return metadata

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes that segments take in the store, with their indexes.

        Implementers: the default, nothing, says that it is not known.

        Args:
            partition: As ``list_partitions`` gave it.

        Returns:
            Bytes by start offset and id; segments whose size is not known are left out.
        """
        del partition
        return {}

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Tell whether a cleaner may have removed batches from a partition's log.

        It is asked when a segment's log ends before its last offset, which is an error
        unless this is true. Implementers: the default, no, is right where only
        segments that Kafka would tier are kept.

        Args:
            partition: As ``list_partitions`` gave it.
        """
        del partition
        return False

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return how to call a segment in an error; nothing is asked.

        It names the store, and has no secret of its URL.

        Args:
            metadata: Any of the partition.
        """
        return f"{self.store.url}: {metadata}"

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment; it is visible only when it is whole.

        When it returns, every reader sees the segment. When it raises, or the process
        dies, they see all of it or nothing, and what is left of it is found by
        ``scrub``; copying again completes it. Copying again what was copied is success
        and changes nothing.

        Args:
            metadata: Its partition, id, first and last offset; the rest is read from
                the log.
            data: The log and its indexes. What Kafka always has and is not given may be
                made from the log.

        Returns:
            The plugin's custom metadata, at most 128 bytes. Readers that did not list
            the segment put it into the metadata they ask with.

        Raises:
            UnsupportedOperationError: The layout is read only, or cannot hold such a
                log. The former is the default.
            InvalidArgumentError: ``metadata`` does not say where the segment ends.
            NotFoundError: There is no such file of the log.
            CorruptDataError: The log or an index is malformed, or is not that of the
                segment; or the log has an abort, and there is no transaction index
                (see ``inspect_copy``). Nothing was stored.
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
        """Store a segment whose log is read where it lies: see ``copy_log_segment``.

        Implementers: the default copies the log first, into memory or a temporary file.
        A layout that stores it as it is can put it from there.

        Args:
            metadata: As in ``copy_log_segment``.
            log: Its log, of which each byte is the same whenever it is read, or a
                CorruptObjectError.
            indexes: The bytes of each index there is.

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
        it raises, or the process dies, they see either of them, and by default none:
        replacing again puts it right.

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
        one left either never becomes visible, or is completed by the next to append. A
        writer is known by the segment's id, which no other has: called again with the
        same segment after an error, it succeeds if it had succeeded, or goes on.

        Args:
            metadata: As in ``copy_log_segment``; its id is this append's own.
            data: Likewise.

        Returns:
            The plugin's custom metadata, at most 128 bytes.

        Raises:
            AlreadyExistsError: Another writer was first, or the log does not end at the
                segment's start offset; nothing was stored.
            UnsupportedOperationError: The layout has no way to see who was first. That
                is the default.
        """
        del data
        msg = f"{self!r} cannot be appended to: {metadata}"
        raise UnsupportedOperationError(msg)

    def cancel_copying(self, partition: TopicIdPartition) -> None:
        """Remove what copies of a partition that did not end have left.

        Whole segments stay as they are. When it returns, ``scrub`` finds nothing; when
        it raises, or the process dies, some of it may be left: call it again. It is for
        whoever is in charge of a partition, while nobody copies to it: a copy that is
        under way looks like one that never ended, and would be cut.

        Implementers: the default deletes what ``scrub`` yields.

        Args:
            partition: Whose copies; it need not have a segment.

        Raises:
            UnsupportedOperationError: The layout is read only.
        """
        self._need_write(f"remove what copies of {partition} left")
        self.store.delete([leftover.key for leftover in self.scrub(partition)])

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield what copies of a partition that did not end have left.

        A copy that is under way looks the same. Readers skip all of it, so it costs
        space and nothing else. Whole segments that cannot be read are ``survey``'s.

        Implementers: the default, nothing, is right where a copy is one put.

        Args:
            partition: Whose copies; it need not have a segment.
        """
        del partition
        yield from ()

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete a segment; one that is not there is success.

        When it returns, nobody lists it. When it raises, or the process dies, it is
        listed whole or not at all; deleting again removes what is left of it.

        Args:
            metadata: As ``fetch_log_segment`` takes it.

        Raises:
            UnsupportedOperationError: The layout is read only. That is the default.
        """
        msg = f"{self!r} is read only: it cannot delete {metadata}"
        raise UnsupportedOperationError(msg)

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete all of a partition; one that is not there is success.

        When it returns, there is no such partition, nothing that copies to it left, and
        every other one is as it was. When it raises, or the process dies, each of its
        segments is there whole or not at all: call it again. Nobody may be copying to
        it meanwhile.

        Implementers: the default deletes one segment after the other. A layout that
        can name all of a partition's objects deletes them at once, damaged ones too.

        Args:
            partition: As ``list_partitions`` gave it.

        Raises:
            UnsupportedOperationError: The layout is read only.
            CorruptDataError: What lies in a segment's place is none, where the layout
                has nothing better than the default.
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

        This one goes on under its own, and stays open when the other is closed.

        Args:
            policy: How long and how often each request may try.
        """
        view = self._shared_with(copy(self))
        view.store = self.store.with_policy(policy)
        return view

    def _shared_with(self, view: Self) -> Self:
        """Let a view leave what it shares with this storage when it is closed."""
        view._view = _VIEW
        return view

    _view: _View | None = None
    """Whether this is a view of another storage."""

    def __init_subclass__(cls) -> None:
        """Let views leave what they share open, whatever a plugin has to close."""
        super().__init_subclass__()
        if "close" in vars(cls):
            cls.close = _unless_view(cls.close)  # type: ignore[assignment] # of each subclass

    def close(self) -> None:  # noqa: B027 - most plugins hold nothing
        """Let go of what the plugin holds; the store is the caller's.

        Closing again does nothing, and closing a view leaves open what it shares.
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
