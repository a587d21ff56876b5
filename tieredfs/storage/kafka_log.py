"""``kafka-log``: a broker's log directory, as it lies on disk.

One folder a partition, ``<topic>-<partition>``, with ``<20-digit start>.log`` and the
indexes beside it. The last segment is the one the broker writes to: its indexes are
padded with zeros, its log may end in part of a batch, and both may grow while they are
read: what was there when it was listed is what is read. Compaction rewrites a segment
under its name, so a segment's ``version`` is the size and modification time of its log.
Read only.
"""

import re
from collections.abc import Collection
from itertools import pairwise

import numpy as np

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.format.leader_epoch_checkpoint import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tieredfs.format.offset_index import OffsetIndex
from tieredfs.format.padding import without_padding
from tieredfs.format.time_index import TimeIndex
from tieredfs.model import (
    UNKNOWN_TOPIC_ID,
    IndexType,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)
from tieredfs.storage.capability import Capability
from tieredfs.storage.content_id import ContentId
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.kafka_files import (
    LOG_SUFFIX,
    SUFFIXES,
    describe_segment,
    fetch_log,
    is_offset,
)

__all__ = ["KafkaLog"]

_PARTITION = re.compile(r"(.+)-(\d{1,10})", re.ASCII)
_LOG = re.compile(r"(\d{20})\.log(\.swap)?", re.ASCII)
"""A log, or what the cleaner is about to put in place of logs it has taken away."""

_FILE = re.compile(
    r"(\d{20}\.(log|index|timeindex|txnindex|snapshot)"
    r"|leader-epoch-checkpoint|partition\.metadata)",
    re.ASCII,
)
_ACTIVE = b"active"
"""The custom metadata of a segment that a broker may be writing."""

_CLEANED = "cleaner-offset-checkpoint"
_OF_THE_BROKER = frozenset(
    {
        ".lock",
        ".kafka_cleanshutdown",
        "bootstrap.checkpoint",
        _CLEANED,
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
    }
)
_TOPIC_ID = re.compile(r"topic_id:\s*(\S+)", re.ASCII)
_ENTRY_SIZES = {
    IndexType.OFFSET: OffsetIndex.ENTRY_SIZE,
    IndexType.TIMESTAMP: TimeIndex.ENTRY_SIZE,
}


class KafkaLog(RemoteStorageManager):
    """Read a broker's log directory."""

    capabilities = frozenset({Capability.RANGE_READ})

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return the share of keys that a broker writes."""
        mine = sum(key in _OF_THE_BROKER or _is_file(key) for key in keys)
        segments = any(_is_file(key) for key in keys)
        return mine / len(keys) if segments else 0.0

    def list_partitions(self) -> list[TopicIdPartition]:
        """Return the partitions that have a folder.

        Folders that the broker is deleting (``-delete``), moving (``-future``) or has
        found to be none of its own (``-stray``) are left out.
        """
        found = []
        for entry in self.store.list(delimiter="/"):
            match = _PARTITION.fullmatch(entry.key[:-1]) if entry.is_prefix else None
            if match is None:
                continue
            try:
                found.append(
                    TopicIdPartition(match[1], int(match[2]), self._topic_id(entry.key))
                )
            except InvalidArgumentError:  # a stranger's folder
                continue
        return sorted(found)

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments in their order; each ends where the next begins.

        Only the last one's end is not told: it may be growing. One that the cleaner is
        replacing is left out, and lengthens no other.
        """
        folder = f"{partition}/"
        logs = []
        begins: list[int] = []
        empty = True
        for entry in self.store.list(folder, delimiter="/"):
            empty = False
            match = _LOG.fullmatch(entry.key[len(folder) :])
            if match is not None and is_offset(int(match[1])):
                begins.append(int(match[1]))
                if not match[2]:
                    logs.append((int(match[1]), entry))
        if empty:
            msg = f"not found: {partition} in {self.store.url}"
            raise NotFoundError(msg)
        ends = {before: after - 1 for before, after in pairwise(sorted({*begins}))}
        return [
            SegmentMetadata(
                partition,
                _segment_id(partition, start),
                start,
                end_offset=end,
                size=entry.size,
                version=entry.version,
                custom_metadata=_ACTIVE if end is None else b"",
            )
            for start, entry in logs
            for end in [ends.get(start)]
            if end is None or end >= min_offset
        ]

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log file, as far as it went when it was listed."""
        del layout
        key = _key(metadata, LOG_SUFFIX)
        return fetch_log(self.store, key, metadata, start, end)

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index as the broker would tier it.

        Zero padding is cut off; the producer snapshot is the one taken where the next
        segment begins; the leader epochs are those up to the segment's end. Of the
        active segment's indexes comes what lies inside the log as it was listed: they
        may have grown since, and after a crash they may be ahead of the log.
        """
        if index_type is IndexType.LEADER_EPOCH:
            return self._leader_epochs(metadata)
        if index_type is IndexType.PRODUCER_SNAPSHOT:
            if metadata.end_offset is None:
                msg = f"not found: {metadata} is still written: it has no snapshot yet"
                raise NotFoundError(msg)
            name = f"{metadata.end_offset + 1:020d}.{SUFFIXES[index_type]}"
            return self.store.get(f"{metadata.partition}/{name}")
        data = self.store.get(_key(metadata, SUFFIXES[index_type]))
        if index_type in _ENTRY_SIZES:
            data = without_padding(data, _ENTRY_SIZES[index_type])
        if self.is_active(metadata):
            name = f"{self.name_of(metadata)}.{SUFFIXES[index_type]}"
            return _within(data, metadata, index_type, name)
        return data

    def describe(self, metadata: SegmentMetadata) -> SegmentMetadata:
        """Ask the indexes and the end of the log what the name does not say."""
        if metadata.max_timestamp_ms is not None:
            return metadata
        return describe_segment(
            self, metadata, active=self.is_active(metadata), compacted=True
        )

    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        """Return the snapshot that was taken where the segment begins."""
        return self.store.get(_key(metadata, SUFFIXES[IndexType.PRODUCER_SNAPSHOT]))

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the place of a segment's files, without their suffixes."""
        place = f"{metadata.partition}/{metadata.start_offset:020d}"
        return f"{self.store.url}/{place}"

    def is_active(self, metadata: SegmentMetadata) -> bool:
        """Tell whether it was the last one of its partition when it was listed."""
        return metadata.custom_metadata == _ACTIVE

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Look the partition up in the cleaner's checkpoint."""
        try:
            data = self.store.get(_CLEANED)
        except NotFoundError:
            return False
        lines = bytes(data).decode("ascii", "replace").splitlines()
        cleaned = {tuple(line.split()[:2]) for line in lines}
        return (partition.topic, str(partition.partition)) in cleaned

    def is_current(self, metadata: SegmentMetadata) -> bool:
        """Tell whether the log is still the one that was listed, or has only grown."""
        try:
            found = self.store.head(_key(metadata, LOG_SUFFIX))
        except NotFoundError:
            return False
        if self.is_active(metadata):
            return (found.size or 0) >= (metadata.size or 0)
        return found.version == metadata.version

    def _topic_id(self, folder: str) -> Uuid:
        try:
            data = self.store.get(f"{folder}partition.metadata")
        except NotFoundError:  # written since Kafka 2.8
            return UNKNOWN_TOPIC_ID
        match = _TOPIC_ID.search(bytes(data).decode("ascii", "replace"))
        try:
            return Uuid(match[1]) if match else UNKNOWN_TOPIC_ID
        except InvalidArgumentError:  # a damaged id hides no partition
            return UNKNOWN_TOPIC_ID

    def _leader_epochs(self, metadata: SegmentMetadata) -> memoryview:
        key = f"{metadata.partition}/leader-epoch-checkpoint"
        name = f"{self.store.url}/{key}"
        epochs = parse_leader_epochs(self.store.get(key), name=name)
        end = metadata.end_offset
        kept = tuple(e for e in epochs.entries if end is None or e.start_offset <= end)
        return memoryview(format_leader_epochs(LeaderEpochs(kept)))


def _within(
    data: memoryview, metadata: SegmentMetadata, index_type: IndexType, name: str
) -> memoryview:
    """Cut an index at the end of the log, as far as that is known."""
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


def _is_file(key: str) -> bool:
    folder, _, name = key.partition("/")
    return bool(_PARTITION.fullmatch(folder) and _FILE.fullmatch(name))


def _key(metadata: SegmentMetadata, suffix: str) -> str:
    return f"{metadata.partition}/{metadata.start_offset:020d}.{suffix}"


def _segment_id(partition: TopicIdPartition, start_offset: int) -> SegmentId:
    """Name a segment by what never changes while it lies there."""
    return ContentId(partition, start_offset).finish()
