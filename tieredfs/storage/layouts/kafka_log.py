"""``kafka-log``: a broker's log directory on disk.

One folder a partition, ``<topic>-<partition>``, with ``<20-digit start>.log`` and the
indexes beside it. The last segment is the one the broker writes to: its indexes are
padded with zeros, its log may end in part of a batch, and both may grow while they are
read: only what existed when it was listed is read. Compaction rewrites a segment under
its name, so a segment's ``version`` is the size and modification time of its log. Read
only.

A listing is not a snapshot: see ``log_directory``. So ``is_current`` lists again when a
segment has been read.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import NotFoundError
from tieredfs.format.index.leader_epochs import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.padding import without_padding
from tieredfs.format.index.time import TimeIndex
from tieredfs.model import (
    IndexType,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage.contract import Capability, RemoteStorageManager
from tieredfs.storage.layouts.kafka_files import (
    CLEANER_CHECKPOINT,
    LOG_START_CHECKPOINT,
    LOG_SUFFIX,
    SUFFIXES,
    broker_file,
    describe_segment,
    fetch_log,
)
from tieredfs.storage.layouts.log_directory import (
    CLEANER_SUFFIXES,
    ListedLog,
    LogDirectory,
    is_partition_file,
)
from tieredfs.storage.segment_log.content_id import ContentId

__all__ = ["KafkaLog"]

_OF_AN_OFFSET = re.compile(
    r"(\d{20})\.(?:log|index|timeindex|txnindex|snapshot)", re.ASCII
)
"""A file of a segment, under its final name."""

_ACTIVE = b"active"
"""The custom metadata of a segment that a broker may be writing."""

_OF_THE_BROKER = frozenset(
    {
        ".lock",
        ".kafka_cleanshutdown",
        "bootstrap.checkpoint",
        CLEANER_CHECKPOINT,
        LOG_START_CHECKPOINT,
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }
)
_ENTRY_SIZES = {
    IndexType.OFFSET: OffsetIndex.ENTRY_SIZE,
    IndexType.TIMESTAMP: TimeIndex.ENTRY_SIZE,
}


class KafkaLog(RemoteStorageManager):
    """Read a broker's log directory."""

    capabilities = frozenset({Capability.RANGE_READ})

    @property
    def _directory(self) -> LogDirectory:
        return LogDirectory(self.store)

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return the share of keys that are files of a broker."""
        mine = sum(key in _OF_THE_BROKER or is_partition_file(key) for key in keys)
        segments = any(is_partition_file(key) for key in keys)
        return mine / len(keys) if segments else 0.0

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder.

        Folders that the broker is deleting (``-delete``), moving (``-future``) or has
        found to be foreign (``-stray``) are left out.
        """
        return self._directory.partitions(topic)

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments in their order; each ends where the next begins.

        Only the last segment's end is not known: it may be growing. A segment that the
        cleaner is replacing is listed, and reading it before that is done raises
        NotFoundError. Segments that end before the broker's log start offset are not
        listed.

        Raises:
            NotFoundError: There is no such partition, or it belongs to another topic of
                the same name.
            CorruptObjectError: Its partition.metadata contains no topic id.
            StorageUnavailableError: The broker changes it faster than it is listed.
        """
        logs = self._directory.stable_logs(partition)
        min_offset = max(min_offset, self._directory.log_start(partition))
        return [
            segment
            for segment in _segments(partition, logs)
            if segment.end_offset is None or segment.end_offset >= min_offset
        ]

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log file, up to its size when it was listed."""
        del layout
        key = _key(metadata, LOG_SUFFIX)
        return fetch_log(self.store, key, metadata, start, end)

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index as the broker would tier it.

        Zero padding is cut off; the producer snapshot is the one taken where the next
        segment begins; the leader epochs are those up to the segment's end. The active
        segment's indexes are cut at the end of the log as it was listed: they may have
        grown since, and after a crash they may be ahead of the log.
        """
        if index_type is IndexType.LEADER_EPOCH:
            return self._leader_epochs(metadata)
        file = broker_file(metadata, index_type)
        if file is None:
            msg = f"not found: {metadata} is being written and has no snapshot yet"
            raise NotFoundError(msg)
        data = self.store.get(f"{metadata.partition}/{file}")
        if index_type in _ENTRY_SIZES:
            entry_size = _ENTRY_SIZES[index_type]
            if self.is_active(metadata):  # it may have been copied as it was extended
                data = data[: len(data) - len(data) % entry_size]
            data = without_padding(data, entry_size)
        if self.is_active(metadata):
            name = f"{self.name_of(metadata)}.{SUFFIXES[index_type]}"
            return _within(data, metadata, index_type, name)
        return data

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Read the other fields from the indexes and the end of the log."""
        if metadata.max_timestamp_ms is not None:
            return metadata
        return describe_segment(
            self,
            metadata,
            indexes,
            active=self.is_active(metadata),
            compacted=True,
        )

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes of the files named by a segment's offset: one listing."""
        folder = f"{partition}/"
        sizes: dict[tuple[int, SegmentId], int] = {}
        for entry in self.store.list(folder, delimiter="/"):
            match = _OF_AN_OFFSET.fullmatch(entry.key[len(folder) :])
            if match is not None:
                start = int(match[1])
                segment = start, _segment_id(partition, start)
                sizes[segment] = sizes.get(segment, 0) + (entry.size or 0)
        return sizes

    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        """Return the snapshot that was taken where the segment begins."""
        return self.store.get(_key(metadata, SUFFIXES[IndexType.PRODUCER_SNAPSHOT]))

    def owns(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment is one that a log directory lists: by its id."""
        partition, start = metadata.partition, metadata.start_offset
        return metadata.id == _segment_id(partition, start)

    def has_log(self, metadata: SegmentMetadata) -> bool:
        """Return whether the log of a segment is there, changed or not."""
        try:
            self.store.head(_key(metadata, LOG_SUFFIX))
        except NotFoundError:
            return False
        return True

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the URL of a segment's files, without their suffixes."""
        place = f"{metadata.partition}/{metadata.start_offset:020d}"
        return f"{self.store.url}/{place}"

    def is_active(self, metadata: SegmentMetadata) -> bool:
        """Return whether it was the last segment of its partition when listed."""
        return metadata.custom_metadata == _ACTIVE

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Look the partition up in the cleaner's checkpoint."""
        try:
            data = self.store.get(CLEANER_CHECKPOINT)
        except NotFoundError:
            return False
        lines = bytes(data).decode("ascii", "replace").splitlines()
        cleaned = {tuple(line.split()[:2]) for line in lines}
        return (partition.topic, str(partition.partition)) in cleaned

    def is_current(
        self, metadata: SegmentMetadata, last_offset: int | None = None
    ) -> bool:
        """Return whether the log is still the one that was listed, or has only grown.

        If the log ends before the segment's end offset, the folder is listed again: the
        segment must still end there, and no file of a segment that begins in between
        may be left.
        """
        end = metadata.end_offset
        if end is None or last_offset is None or last_offset >= end:
            return self._is_same_log(metadata)
        try:
            logs = self._directory.logs(metadata.partition)
            self._directory.check_topic(metadata.partition)
        except NotFoundError:
            return False
        listed = (metadata.start_offset, end, metadata.version)
        found = _segments(metadata.partition, logs)
        if listed not in {(s.start_offset, s.end_offset, s.version) for s in found}:
            return False
        reached = max(last_offset, metadata.start_offset)
        files = self._directory.segment_files(metadata.partition)
        if any(reached < start <= end for start, _ in files):
            return False
        # Until the checkpoint records that the log was cleaned, files of the cleaner
        # show that it is being cleaned.
        return self.is_compacted(metadata.partition) or not any(
            start == metadata.start_offset and name.endswith(CLEANER_SUFFIXES)
            for start, name in files
        )

    def _is_same_log(self, metadata: SegmentMetadata) -> bool:
        try:
            found = self.store.head(_key(metadata, LOG_SUFFIX))
        except NotFoundError:
            return False
        if self.is_active(metadata):
            return (found.size or 0) >= (metadata.size or 0)
        return found.version == metadata.version

    def _leader_epochs(self, metadata: SegmentMetadata) -> memoryview:
        key = f"{metadata.partition}/leader-epoch-checkpoint"
        name = f"{self.store.url}/{key}"
        epochs = parse_leader_epochs(self.store.get(key), name=name)
        end = metadata.end_offset
        kept = tuple(e for e in epochs.entries if end is None or e.start_offset <= end)
        return memoryview(format_leader_epochs(LeaderEpochs(kept)))


def _segments(
    partition: TopicIdPartition, logs: Sequence[ListedLog]
) -> Iterator[SegmentMetadata]:
    """Build segments from logs, each ending where the next begins."""
    for log in logs:
        yield SegmentMetadata(
            partition,
            _segment_id(partition, log.start),
            log.start,
            end_offset=None if log.end is None else log.end - 1,
            size=log.size,
            version=log.version,
            custom_metadata=_ACTIVE if log.end is None else b"",
        )


def _within(
    data: memoryview, metadata: SegmentMetadata, index_type: IndexType, name: str
) -> memoryview:
    """Cut an index at the end of the log, if that is known."""
    base = metadata.start_offset
    if index_type is IndexType.OFFSET and metadata.size is not None:
        positions = OffsetIndex.parse(data, base, name=name).positions
        kept = int(np.searchsorted(positions, metadata.size))
        return data[: kept * OffsetIndex.ENTRY_SIZE]
    if index_type is IndexType.TIMESTAMP and metadata.end_offset is not None:
        offsets = TimeIndex.parse(data, base, name=name).offsets
        kept = int(np.searchsorted(offsets, metadata.end_offset, side="right"))
        return data[: kept * TimeIndex.ENTRY_SIZE]
    return data


def _key(metadata: SegmentMetadata, suffix: str) -> str:
    return f"{metadata.partition}/{metadata.start_offset:020d}.{suffix}"


def _segment_id(partition: TopicIdPartition, start_offset: int) -> SegmentId:
    """Derive a segment's id from what never changes while it is stored."""
    return ContentId(partition, start_offset).finish()
