"""``kafka-log``: a broker's log directory on disk.

One folder a partition, ``<topic>-<partition>``, with ``<20-digit start>.log`` and the
indexes beside it. The last segment is the one the broker writes to: its indexes are
padded with zeros, its log may end in part of a batch, and both may grow while they are
read: only what existed when it was listed is read. Compaction rewrites a segment under
its name, so a segment's ``version`` is the size and modification time of its log. Read
only.

A listing is not a snapshot. While the cleaner replaces a segment (``.cleaned`` becomes
``.swap``, the old files ``.deleted``, ``.swap`` the new ones) a listing may contain it
under neither name. If a segment is missed, the one before it seems to extend to the one
after it, or the log to begin later. So two listings in a row have to agree, and
``is_current`` lists again when a segment has been read.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
)
from tieredfs.format.index.leader_epochs import (
    format_leader_epochs,
    parse_leader_epochs,
)
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.padding import without_padding
from tieredfs.format.index.time import TimeIndex
from tieredfs.model import (
    UNKNOWN_TOPIC_ID,
    IndexType,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)
from tieredfs.storage.contract import Capability, RemoteStorageManager
from tieredfs.storage.layouts.kafka_files import (
    LOG_SUFFIX,
    SUFFIXES,
    describe_segment,
    fetch_log,
    is_offset,
)
from tieredfs.storage.segment_log.content_id import ContentId

__all__ = ["KafkaLog"]

_PARTITION = re.compile(r"(.+)-(0|[1-9]\d{0,9})", re.ASCII)
_LOG = re.compile(r"(\d{20})\.log(\.swap)?", re.ASCII)
"""A log, or the file with which the cleaner is about to replace removed logs."""

_OF_A_SEGMENT = re.compile(r"(\d{20})\.(?!snapshot).+", re.ASCII)
"""Any file of a segment, including those that the cleaner has renamed. Snapshots are
excluded, because a snapshot may outlive its segment."""

_OF_AN_OFFSET = re.compile(
    r"(\d{20})\.(?:log|index|timeindex|txnindex|snapshot)", re.ASCII
)
"""A file of a segment, under its final name."""

_OF_THE_CLEANER = (".cleaned", ".swap", ".deleted")
"""Suffixes of the files that the cleaner writes, moves into place and removes."""

_MAX_LISTINGS = 6
"""Maximum listings of a folder, until two in a row have the same logs."""

_MAX_SWAP_LISTINGS = 2
"""Maximum of these that wait for the cleaner to rename a ``.swap`` log."""

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
        """Return the share of keys that are files of a broker."""
        mine = sum(key in _OF_THE_BROKER or _is_file(key) for key in keys)
        segments = any(_is_file(key) for key in keys)
        return mine / len(keys) if segments else 0.0

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder.

        Folders that the broker is deleting (``-delete``), moving (``-future``) or has
        found to be foreign (``-stray``) are left out.
        """
        found: list[tuple[str, int, Uuid | None]] = []
        for entry in self.store.list(delimiter="/"):
            match = _PARTITION.fullmatch(entry.key[:-1]) if entry.is_prefix else None
            if match is None or topic not in {None, match[1]}:
                continue
            try:
                topic_id = self._topic_id(entry.key)
            except (PermissionDeniedError, CorruptObjectError):
                topic_id = None  # reported when its segments are listed
            found.append((match[1], int(match[2]), topic_id))
        return sorted(_partitions(found))

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments in their order; each ends where the next begins.

        Only the last segment's end is not known: it may be growing. A segment that the
        cleaner is replacing is listed, and reading it before that is done raises
        NotFoundError.

        Raises:
            NotFoundError: There is no such partition, or it belongs to another topic of
                the same name.
            CorruptObjectError: Its partition.metadata contains no topic id.
            StorageUnavailableError: The broker changes it faster than it is listed.
        """
        return [
            segment
            for segment in _segments(partition, self._stable_logs(partition))
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
        if index_type is IndexType.PRODUCER_SNAPSHOT:
            if metadata.end_offset is None:
                msg = f"not found: {metadata} is being written and has no snapshot yet"
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
            data = self.store.get(_CLEANED)
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
            logs = self._logs(metadata.partition)
            self._check_topic(metadata.partition)
        except NotFoundError:
            return False
        listed = (metadata.start_offset, end, metadata.version)
        found = _segments(metadata.partition, logs)
        if listed not in {(s.start_offset, s.end_offset, s.version) for s in found}:
            return False
        reached = max(last_offset, metadata.start_offset)
        names = self._names(metadata.partition)
        matches = [m for m in map(_OF_A_SEGMENT.fullmatch, names) if m is not None]
        if any(reached < int(match[1]) <= end for match in matches):
            return False
        # Until the checkpoint records that the log was cleaned, files of the cleaner
        # show that it is being cleaned.
        return self.is_compacted(metadata.partition) or not any(
            int(match[1]) == metadata.start_offset
            and match[0].endswith(_OF_THE_CLEANER)
            for match in matches
        )

    def _is_same_log(self, metadata: SegmentMetadata) -> bool:
        try:
            found = self.store.head(_key(metadata, LOG_SUFFIX))
        except NotFoundError:
            return False
        if self.is_active(metadata):
            return (found.size or 0) >= (metadata.size or 0)
        return found.version == metadata.version

    def _stable_logs(self, partition: TopicIdPartition) -> list["_Log"]:
        """List the logs of a partition until two listings in a row agree.

        A ``.swap`` log is renamed soon, unless a crashed broker has left it.
        """
        logs = self._logs(partition)
        for number in range(1, _MAX_LISTINGS):
            before, logs = logs, self._logs(partition)
            is_soon = number < _MAX_SWAP_LISTINGS and any(log.is_swap for log in logs)
            if _starts(before) == _starts(logs) and not is_soon:
                self._check_topic(partition)  # after the listing that counts
                return logs
        msg = f"{self.store.url}/{partition}: the broker is replacing segments"
        raise StorageUnavailableError(f"{msg}: read again")

    def _logs(self, partition: TopicIdPartition) -> list["_Log"]:
        """List the logs of a partition once, in order, one for each start offset."""
        folder = f"{partition}/"
        found: dict[int, _Log] = {}
        is_empty = True
        for entry in self.store.list(folder, delimiter="/"):
            is_empty = False
            match = _LOG.fullmatch(entry.key[len(folder) :])
            if match is None or not is_offset(int(match[1])):
                continue
            start, is_swap = int(match[1]), match[2] is not None
            if start not in found or not is_swap:
                found[start] = _Log(start, entry.size, entry.version, is_swap)
        if is_empty:
            raise NotFoundError(f"not found: {partition} in {self.store.url}")
        return [found[start] for start in sorted(found)]

    def _check_topic(self, partition: TopicIdPartition) -> None:
        """Check that a partition's folder is that of its topic, not of a later one.

        Raises:
            NotFoundError: The topic was recreated.
            CorruptObjectError: As in ``list_segments``.
        """
        topic_id = self._topic_id(f"{partition}/")
        if partition.topic_id not in {UNKNOWN_TOPIC_ID, topic_id}:
            msg = f"not found: {partition} of topic {partition.topic_id}"
            raise NotFoundError(f"{msg} in {self.store.url}: it was recreated")

    def _names(self, partition: TopicIdPartition) -> list[str]:
        """List the names of all files in a partition's folder."""
        folder = f"{partition}/"
        entries = self.store.list(folder, delimiter="/")
        return [entry.key[len(folder) :] for entry in entries]

    def _topic_id(self, folder: str) -> Uuid:
        key = f"{folder}partition.metadata"
        try:
            data = self.store.get(key)
        except NotFoundError:  # written since Kafka 2.8
            return UNKNOWN_TOPIC_ID
        match = _TOPIC_ID.search(bytes(data).decode("ascii", "replace"))
        with suppress(InvalidArgumentError):
            if match is not None:
                return Uuid(match[1])
        msg = f"{self.store.url}/{key}: no topic id in it: remove it if there is none"
        raise CorruptObjectError(msg)

    def _leader_epochs(self, metadata: SegmentMetadata) -> memoryview:
        key = f"{metadata.partition}/leader-epoch-checkpoint"
        name = f"{self.store.url}/{key}"
        epochs = parse_leader_epochs(self.store.get(key), name=name)
        end = metadata.end_offset
        kept = tuple(e for e in epochs.entries if end is None or e.start_offset <= end)
        return memoryview(format_leader_epochs(LeaderEpochs(kept)))


@dataclass(frozen=True, slots=True)
class _Log:
    """A log as it is listed.

    Attributes:
        start: First offset of its segment.
        size: Bytes.
        version: Of the file.
        is_swap: Whether the cleaner has yet to rename it.
    """

    start: int
    size: int | None
    version: str
    is_swap: bool


def _starts(logs: Sequence[_Log]) -> list[int]:
    return [log.start for log in logs]


def _partitions(
    found: Sequence[tuple[str, int, Uuid | None]],
) -> Iterator[TopicIdPartition]:
    """Build partitions from folders; an unreadable id is replaced by the topic's."""
    for topic, number, topic_id in found:
        others = {each for name, _, each in found if name == topic and each is not None}
        known = topic_id or (others.pop() if len(others) == 1 else UNKNOWN_TOPIC_ID)
        try:
            yield TopicIdPartition(topic, number, known)
        except InvalidArgumentError:  # a foreign folder
            continue


def _segments(
    partition: TopicIdPartition, logs: Sequence[_Log]
) -> Iterator[SegmentMetadata]:
    """Build segments from logs, each ending where the next begins."""
    for log, following in zip_longest(logs, logs[1:]):
        yield SegmentMetadata(
            partition,
            _segment_id(partition, log.start),
            log.start,
            end_offset=None if following is None else following.start - 1,
            size=log.size,
            version=log.version,
            custom_metadata=_ACTIVE if following is None else b"",
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


def _is_file(key: str) -> bool:
    folder, _, name = key.partition("/")
    return bool(_PARTITION.fullmatch(folder) and _FILE.fullmatch(name))


def _key(metadata: SegmentMetadata, suffix: str) -> str:
    return f"{metadata.partition}/{metadata.start_offset:020d}.{suffix}"


def _segment_id(partition: TopicIdPartition, start_offset: int) -> SegmentId:
    """Derive a segment's id from what never changes while it is stored."""
    return ContentId(partition, start_offset).finish()
