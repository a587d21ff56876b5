"""What a user of a storage calls: every method, each with a default that is right.

The defaults need only what the author of a layout implements; a layout overrides those
that it can do in fewer requests.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import wraps
from types import TracebackType
from typing import Any, Self

from tieredfs.errors import NotFoundError, UnsupportedOperationError
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import RequestCounts, RequestObserver, RequestPolicy
from tieredfs.objects.content import PIECE_BYTES
from tieredfs.storage.contract.capability import Capability
from tieredfs.storage.contract.planned_fetch import PlannedFetch
from tieredfs.storage.contract.verification import StorageVerification
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.spool import spooled

__all__ = ["RemoteStorageManager"]


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


class RemoteStorageManager(StorageVerification):
    """Read and write the segments of topics in an object store, in one layout.

    It combines Kafka's RemoteStorageManager (KIP-405) with the fetch of all indexes in
    one call (KIP-1002), and adds the listing that Kafka keeps in a topic of its own.

    Plugins subclass it. ``StorageLayout`` has what the author of one implements, and
    the terms that all methods keep; the defaults here and in ``StorageVerification``
    are built on that.
    """

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment, without those it does not have.

        Each is what ``fetch_index`` returns.

        Implementers: the default fetches each index separately. A layout that stores
        them in one object fetches one range. One that stores them in several looks at
        the end, if one was missing, whether the segment is still there: while it is
        deleted, an index that is already gone is not one that it never had.

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

    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        """Plan the requests that ``fetch_log_ahead`` would send now, retries apart.

        The log is not read. What the layout itself needs to plan, such as a manifest,
        may be; that changes nothing for the fetches that are planned.

        Implementers: the default is one request for the range itself. A layout that
        sends another request, such as for a manifest, or fetches more than the range,
        overrides it.

        Args:
            metadata: As ``fetch_log_segment`` takes it.
            start: First byte.
            end: Byte after the last one that is needed, inside the log.
            layout: As ``fetch_log_ahead`` will be given it.
            after: The plan of the segment's fetch before this one, if one is planned.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: What is needed to plan is not what was stored.
        """
        del metadata, layout, after
        by_verb = {"get_range": 1 if start < end else 0}
        return PlannedFetch(RequestCounts.of(by_verb, end - start), end)

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
        for start in range(0, size, PIECE_BYTES):
            end = min(start + PIECE_BYTES, size)
            yield self.fetch_log_segment(metadata, start, end)

    def list_segments_lazily(
        self, partition: TopicIdPartition
    ) -> Sequence[SegmentMetadata]:
        """Return the segments that ``list_segments`` returns, as a sequence.

        All are listed by the call; only their metadata may be made later.

        Implementers: the default returns the list. A layout whose listing contains the
        end and the largest timestamp of every segment returns a ``SegmentTable``: a
        long log is then planned from its columns, in little time and memory. A layout
        that cannot list sizes gains nothing, as every segment is described.

        Args:
            partition: As ``list_partitions`` gave it.

        Raises:
            TieredFSError: As in ``list_segments``.
        """
        return self.list_segments(partition)

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return at least the first segment that ends at ``offset`` or later.

        The result is sorted as in ``list_segments``. It may hold further segments, but
        then all that end at ``offset`` or later and not after the last of them: of
        copies of the same offsets it holds all or none. It may also hold segments that
        end before ``offset``.

        Implementers: the default returns what ``list_segments`` does. A layout whose
        listing can begin at an offset fetches one page.

        Args:
            partition: As ``list_partitions`` gave it.
            offset: Offset to seek to; at least 0.

        Raises:
            NotFoundError: There is no such partition; or no segment ends at ``offset``
                or later, where the result is not just empty.
        """
        return self.list_segments(partition, offset)

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

    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Store a segment, as ``copy_log_segment`` does, and return its indexes.

        Implementers: the default does not know the indexes as they are stored.

        Args:
            metadata: As in ``copy_log_segment``.
            data: As in ``copy_log_segment``.

        Returns:
            The plugin's custom metadata, at most 128 bytes; and what
            ``fetch_all_indexes`` returns now, None where that is not known without a
            request.

        Raises:
            TieredFSError: As in ``copy_log_segment``.
        """
        return self.copy_log_segment(metadata, data), None

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
        it raises, or the process dies, readers see the log and each index of one of the
        two, or with the default implementation possibly no segment: replacing again
        repairs it.

        Implementers: the default deletes the segment as it is listed, with its custom
        metadata, and copies it. A layout that can overwrite its objects does that
        instead.

        Args:
            metadata: As in ``copy_open_log``.
            log: As in ``copy_open_log``.
            indexes: As in ``copy_open_log``.

        Returns:
            The plugin's custom metadata, at most 128 bytes.

        Raises:
            TieredFSError: As in ``copy_log_segment``.
        """
        name = metadata.start_offset, metadata.id
        with suppress(NotFoundError):
            for stored in self.list_segments(metadata.partition, metadata.start_offset):
                if (stored.start_offset, stored.id) == name:
                    self.delete_log_segment(stored)
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
        self._need_write(f"remove incomplete copies of {partition}")
        self.store.delete([leftover.key for leftover in self.scrub(partition)])

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete all of a partition; succeed if it does not exist.

        When it returns, the partition does not exist, nor anything that copies to it
        left, and every other partition is unchanged. When it raises, or the process
        dies, each of its segments exists whole or not at all: call it again. No process
        may copy to the partition meanwhile.

        Implementers: the default deletes one segment after the other. A layout that can
        name all of a partition's objects deletes them in one call, damaged ones too:
        first those that make a segment whole, as the store may delete any of the keys
        of a call that fails.

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

    def with_observer(self, observer: RequestObserver) -> Self:
        """Return the same storage, on the same connections, with one more observer.

        What else ``with_policy`` promises holds.

        Args:
            observer: Is notified of every request of the returned storage.
        """
        view = self.with_policy(self.store.policy)
        view.store = self.store.with_observer(observer)
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

    def close(self) -> None:
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

    def _need_write(self, what: str) -> None:
        if Capability.WRITE not in self.capabilities:
            msg = f"{self!r} is read only: it cannot {what}"
            raise UnsupportedOperationError(msg)
