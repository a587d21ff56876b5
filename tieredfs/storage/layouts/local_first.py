"""A broker's log directory in front of its tier: what is on this machine is read there.

A broker deletes a segment from its directory some time after it has tiered it. So the
directory holds the end of a log, and the tier what comes before it, and also copies of
what the directory still holds. These are left out of a listing. A segment that the
broker deletes after it was listed is read from its copy in the tier: a log is the same
bytes in both.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NoReturn, Self, TypeVar

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import NotFoundError, TieredFSError, UnsupportedOperationError
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import RequestObserver, RequestPolicy
from tieredfs.storage.contract import (
    PlannedFetch,
    RemoteStorageManager,
)
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.wrapper import StorageWrapper

__all__ = ["LocalFirst"]

_T = TypeVar("_T")


class LocalFirst(StorageWrapper):
    """Read segments from a broker's log directory, and those it lacks from its tier.

    It is read only.

    Attributes:
        local: The log directory.
    """

    def __init__(self, inner: RemoteStorageManager, local: KafkaLog) -> None:
        """Put a log directory in front of a tier, without sending a request.

        Args:
            inner: The tier.
            local: The log directory.
        """
        super().__init__(inner)
        self.local = local
        self.capabilities = inner.capabilities & local.capabilities

    @property
    def identity(self) -> str:
        """Identifier of the segments of both."""
        return f"{self.inner.identity}\0{self.local.identity}"

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that either has."""
        local = self.local.list_partitions(topic)
        return sorted({*local, *self.inner.list_partitions(topic)})

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the local segments, and those of the tier that are not copies of them.

        The directory is listed first: a segment that leaves it meanwhile is in the tier
        by then.

        Raises:
            NotFoundError: Neither has the partition.
        """
        local = self._held(partition)
        if not local:
            return self.inner.list_segments(partition, min_offset)
        try:
            tiered = self.inner.list_segments(partition)
        except NotFoundError:
            tiered = []
        found = [
            one
            for one in (*local, *self._not_in(local, tiered))
            if one.end_offset is None or one.end_offset >= min_offset
        ]
        return sorted(found, key=lambda one: one.start_offset)

    def _held(self, partition: TopicIdPartition) -> list[SegmentMetadata]:
        """Return the local segments; none if the directory has no such partition."""
        try:
            return self.local.list_segments(partition)
        except NotFoundError:
            return []

    def _not_in(
        self, local: list[SegmentMetadata], tiered: list[SegmentMetadata]
    ) -> Iterator[SegmentMetadata]:
        """Yield the segments of the tier that the directory does not hold as well."""
        first, active = local[0].start_offset, local[-1]
        last_epoch = self._last_epoch(active)
        if last_epoch is not None and self._highest_epoch(tiered) > last_epoch:
            yield from tiered  # the directory is that of a replica that fell behind
            return
        for one in tiered:
            end = one.start_offset if one.end_offset is None else one.end_offset
            if one.start_offset < first or end >= active.start_offset:
                yield one

    def _highest_epoch(self, tiered: Iterable[SegmentMetadata]) -> int:
        epochs = map(self.inner.highest_epoch, tiered)
        return max((one for one in epochs if one is not None), default=NO_EPOCH)

    def _last_epoch(self, active: SegmentMetadata) -> int | None:
        """Return the last epoch that the directory knows; None if it keeps none."""
        try:
            data = self.local.fetch_index(active, IndexType.LEADER_EPOCH)
        except NotFoundError:
            return None
        entries = parse_leader_epochs(data, name=self.local.name_of(active)).entries
        return entries[-1].epoch if entries else NO_EPOCH

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return the segments that end at ``offset`` or later."""
        return self.list_segments(partition, offset)

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment."""
        yield from self.list_segments(partition)

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes of each segment where it is read."""
        sizes: dict[tuple[int, SegmentId], int] = {}
        for storage in (self.inner, self.local):
            with suppress(NotFoundError):
                sizes |= storage.stored_sizes(partition)
        return sizes

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log, from the directory if it is there."""
        return self._read(
            metadata,
            lambda storage, one: storage.fetch_log_segment(
                one, start, end, layout=layout
            ),
        )

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log or more, from the directory if it is there."""
        return self._read(
            metadata,
            lambda storage, one: storage.fetch_log_ahead(
                one, start, end, layout=layout
            ),
        )

    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        """Plan a fetch from where the segment was listed."""
        storage = self._of(metadata)
        return storage.plan_fetch(metadata, start, end, layout=layout, after=after)

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield the whole log from where the segment was listed."""
        return self._of(metadata).stream_log(metadata)

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index of a segment."""
        return self._read(
            metadata, lambda storage, one: storage.fetch_index(one, index_type)
        )

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment."""
        wanted = list(index_types)
        if self._has_left(metadata):
            return self._from_tier(
                metadata, lambda storage, one: storage.fetch_indexes(one, wanted)
            )
        return self._of(metadata).fetch_indexes(metadata, wanted)

    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Return all indexes of a segment."""
        return self.fetch_indexes(metadata, IndexType)

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Return ``metadata`` with every field known."""
        if not self.local.owns(metadata):
            return self.inner.describe(metadata, indexes)

        def ask(storage: RemoteStorageManager, one: SegmentMetadata) -> SegmentMetadata:
            known = storage.describe(one, indexes)
            return replace(
                metadata,
                end_offset=known.end_offset,
                max_timestamp_ms=known.max_timestamp_ms,
                leader_epochs=known.leader_epochs,
                size=known.size,
                record_count=known.record_count,
            )

        return self._read(metadata, ask)

    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        """Return the producer snapshot that was taken where a segment begins."""
        return self._of(metadata).fetch_producers_before(metadata)

    def is_active(self, metadata: SegmentMetadata) -> bool:
        """Return whether the broker may still be writing a segment."""
        return self._of(metadata).is_active(metadata)

    def is_current(
        self, metadata: SegmentMetadata, last_offset: int | None = None
    ) -> bool:
        """Return whether a segment is still the one that was listed, in either."""
        if self._of(metadata).is_current(metadata, last_offset):
            return True
        return self._has_left(metadata) and self._copy_of(metadata) is not None

    def is_layout_current(self, metadata: SegmentMetadata, layout: bytes) -> bool:
        """Return whether a layout's data can be those of a segment as it is listed."""
        return self._of(metadata).is_layout_current(metadata, layout)

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Return whether a cleaner may have removed batches of a partition.

        If the directory has the partition, its cleaner's checkpoint says so: a tier
        that only may have been cleaned would excuse what is missing here.
        """
        if self._held(partition):
            return self.local.is_compacted(partition)
        return self.inner.is_compacted(partition)

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment's end offset has been verified."""
        return self._of(metadata).is_end_checked(metadata)

    def note_checked_end(self, metadata: SegmentMetadata) -> None:
        """Take note that the end of a segment's log was read."""
        self._of(metadata).note_checked_end(metadata)

    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        """Return the highest leader epoch in a segment's log, if it is listed."""
        return self._of(metadata).highest_epoch(metadata)

    def is_txn_index_empty(self, metadata: SegmentMetadata) -> bool:
        """Return whether a listing shows that a segment has no aborted transaction."""
        return self._of(metadata).is_txn_index_empty(metadata)

    def log_checksum(self, metadata: SegmentMetadata) -> int | None:
        """Return the CRC-32C of a segment's log, if it is listed."""
        return self._of(metadata).log_checksum(metadata)

    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        """Compare what a segment's key states beyond its metadata with its log."""
        self._of(metadata).check_key(metadata, epoch)

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the name of a segment where it was listed."""
        return self._of(metadata).name_of(metadata)

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return the same storage, both parts of it under ``policy``."""
        view = super().with_policy(policy)
        view.local = self.local.with_policy(policy)
        return view

    def with_observer(self, observer: RequestObserver) -> Self:
        """Return the same storage, the requests of both parts observed."""
        view = super().with_observer(observer)
        view.local = self.local.with_observer(observer)
        return view

    def close(self) -> None:
        """Release the resources of both."""
        self.local.close()
        super().close()

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Refuse: the broker copies."""
        del data
        self._refuse(f"copy {metadata}")

    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Refuse: the broker copies."""
        del data
        self._refuse(f"copy {metadata}")

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Refuse: the broker copies."""
        del log, indexes
        self._refuse(f"copy {metadata}")

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Refuse: the broker copies."""
        del log, indexes
        self._refuse(f"replace {metadata}")

    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Refuse: the broker appends."""
        del data
        self._refuse(f"append {metadata}")

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Refuse: the broker deletes."""
        self._refuse(f"delete {metadata}")

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Refuse: the broker deletes."""
        self._refuse(f"delete {partition}")

    def cancel_copying(self, partition: TopicIdPartition) -> None:
        """Refuse: the broker may be copying."""
        self._refuse(f"remove incomplete copies of {partition}")

    def _refuse(self, what: str) -> NoReturn:
        msg = f"{self!r} is read beside a broker's log directory: it cannot {what}"
        raise UnsupportedOperationError(msg)

    def _of(self, metadata: SegmentMetadata) -> RemoteStorageManager:
        """Return where a segment was listed."""
        return self.local if self.local.owns(metadata) else self.inner

    def _read(
        self,
        metadata: SegmentMetadata,
        ask: Callable[[RemoteStorageManager, SegmentMetadata], _T],
    ) -> _T:
        """Read from where a segment was listed, or from its copy if it has left."""
        storage = self._of(metadata)
        try:
            return ask(storage, metadata)
        except NotFoundError:
            if not self._has_left(metadata):
                raise
        return self._from_tier(metadata, ask)

    def _from_tier(
        self,
        metadata: SegmentMetadata,
        ask: Callable[[RemoteStorageManager, SegmentMetadata], _T],
    ) -> _T:
        copied = self._copy_of(metadata)
        if copied is None:
            raise NotFoundError(
                f"not found: {self.name_of(metadata)}, nor a copy of it"
            )
        return ask(self.inner, copied)

    def _has_left(self, metadata: SegmentMetadata) -> bool:
        """Return whether the broker has deleted the log of a local segment."""
        return self.local.owns(metadata) and not self.local.has_log(metadata)

    def _copy_of(self, metadata: SegmentMetadata) -> SegmentMetadata | None:
        """Return the copy of a local segment in the tier, if it has the same log.

        A segment that was active may have grown before it was copied.
        """
        start, size = metadata.start_offset, metadata.size or 0
        is_active = self.local.is_active(metadata)
        try:
            listed = self.inner.list_segments(metadata.partition, start)
        except NotFoundError:
            return None
        for one in listed:
            if one.start_offset == start:
                known = self.inner.describe(one)
                if known.size == size or (is_active and (known.size or 0) > size):
                    return known
        return None
