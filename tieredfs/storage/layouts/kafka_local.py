"""``kafka-local``: the layout of Kafka's LocalTieredStorage, on any store.

One folder a partition, ``<topic>-<partition>-<topic id>``, and in it a file for the log
and one for each index of a segment: ``<20-digit start>-<segment id>.log`` and so on.
Nothing is packed, and a name contains only the start offset of a segment. A broker can
read what is written here.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnsupportedOperationError,
)
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)
from tieredfs.objects import ObjectInfo, ObjectStore
from tieredfs.objects.content import Content
from tieredfs.storage.contract import Capability, Leftover, RemoteStorageManager
from tieredfs.storage.layouts.kafka_files import (
    LOG_SUFFIX,
    SUFFIXES,
    describe_segment,
    fetch_log,
    is_offset,
)
from tieredfs.storage.object_copy import CopiedObject, copy_objects
from tieredfs.storage.segment_log.inspection import inspect_copy
from tieredfs.storage.segment_log.source import LogContent, LogSource, open_log
from tieredfs.storage.segment_log.spool import is_put_in_place, open_spool

__all__ = ["KafkaLocal"]

_ROOT = "kafka-tiered-storage/"
_PARTITION = re.compile(r"(.+)-(0|[1-9]\d{0,9})-([A-Za-z0-9_-]{22})", re.ASCII)
_FILE = re.compile(r"(\d{20})-([A-Za-z0-9_-]{22})\.([a-z_]+)", re.ASCII)
_ALWAYS = {
    LOG_SUFFIX,
    SUFFIXES[IndexType.OFFSET],
    SUFFIXES[IndexType.TIMESTAMP],
    SUFFIXES[IndexType.LEADER_EPOCH],
    SUFFIXES[IndexType.PRODUCER_SNAPSHOT],
}
"""Files that LocalTieredStorage writes for every segment; all are required."""

_KINDS = {suffix: kind for kind, suffix in SUFFIXES.items()}
_NOTHING = memoryview(b"")

_Files = dict[tuple[int, SegmentId], dict[str, ObjectInfo]]


class KafkaLocal(RemoteStorageManager):
    """Read and write what a broker tiers with LocalTieredStorage."""

    capabilities = frozenset({Capability.WRITE, Capability.RANGE_READ})

    def __init__(self, store: ObjectStore) -> None:
        """Keep ``store``, whose root holds the folders of the partitions.

        Args:
            store: The folder that LocalTieredStorage writes to, or its parent.
        """
        super().__init__(store)
        self._root: str | None = None

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return the share of keys that are files of segments."""
        mine = sum(_is_file(key.removeprefix(_ROOT)) for key in keys)
        return mine / len(keys) if keys else 0.0

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder."""
        root = self._find_root()
        folders = self.store.list(root, delimiter="/")
        found = (
            _partition(entry.key[len(root) : -1])
            for entry in folders
            if entry.is_prefix
        )
        return sorted(p for p in found if p is not None and topic in {None, p.topic})

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments whose required files all exist."""
        files, empty = self._files(partition)
        if empty:
            msg = f"not found: {partition} in {self.store.url}"
            raise NotFoundError(msg)
        del min_offset  # a name does not contain its segment's end offset
        return [
            SegmentMetadata(
                partition,
                segment_id,
                start,
                size=parts[LOG_SUFFIX].size,
                index_sizes=_index_sizes(parts),
                stored_size=_stored_size(parts),
            )
            for (start, segment_id), parts in sorted(files.items())
            if parts.keys() >= _ALWAYS
        ]

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log file."""
        del layout
        key = self._key(metadata, LOG_SUFFIX)
        return fetch_log(self.store, key, metadata, start, end)

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return the file of one index."""
        return self.store.get(self._key(metadata, SUFFIXES[index_type]))

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment, one request for each with an entry.

        What was listed as empty, or not at all, is not requested. If that is so, or one
        is missing, the log is looked up: while a segment is deleted, its log is the
        first to go, so that no index is taken for one that it never had.
        """
        wanted = list(index_types)
        sizes = metadata.index_sizes
        if sizes is None:
            sizes = dict.fromkeys(wanted, 1)
        filled = [kind for kind in wanted if sizes.get(kind)]
        found = super().fetch_indexes(metadata, filled)
        if found.keys() != set(wanted):
            self.store.head(self._key(metadata, LOG_SUFFIX))
        empty = (kind for kind in wanted if sizes.get(kind) == 0)
        return SegmentIndexes({**found, **dict.fromkeys(empty, _NOTHING)})

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Read the other fields from the indexes and the end of the log."""
        if metadata.end_offset is not None:
            return metadata
        return describe_segment(self, metadata, indexes)

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes of each segment's files: one listing."""
        files, _ = self._files(partition)
        return {
            segment: sum(entry.size or 0 for entry in parts.values())
            for segment, parts in files.items()
        }

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the URL of a segment's files, without their suffixes."""
        place = f"{self._root or ''}{_name(metadata.partition)}{_stem(metadata)}"
        return f"{self.store.url}/{place}"

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store the files of a segment: concurrently, on a store of another machine.

        The segment is listed when all files exist. A crash leaves files that are not
        listed; copying again replaces them. An index that Kafka always has and that
        ``data`` lacks is rebuilt from the log. A log with a transaction index, without
        which it would be listed, too, is stored last.

        Returns:
            Empty: the names are those of the segment.

        Raises:
            InvalidArgumentError: ``metadata`` has no end offset.
            CorruptBatchError: A batch is malformed or outside the segment.
            CorruptIndexError: An index is malformed or inconsistent with the log, or
                the log has an aborted transaction and the transaction index is missing.
            UnsupportedOperationError: The log is compacted.
        """
        with open_log(data.log, str(metadata)) as log:
            return self.copy_open_log(metadata, log, data.indexes)

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment, from a log that is read in place."""
        if metadata.end_offset is None:
            msg = f"{metadata}: the segment has no end offset"
            raise InvalidArgumentError(msg)
        if is_put_in_place(log):
            files = self._checked_indexes(metadata, log, indexes, lambda _: None)
            return self._copy(metadata, files, LogContent(log))
        with open_spool(log.size) as spool:
            files = self._checked_indexes(metadata, log, indexes, spool.file.write)
            return self._copy(metadata, files, spool.content())

    def _copy(
        self,
        metadata: SegmentMetadata,
        indexes: Mapping[IndexType, bytes],
        log: bytes | Content,
    ) -> bytes:
        """Store the files of a segment."""
        # All in one folder, even if another process creates the other root meanwhile.
        stem = f"{self._folder(metadata.partition)}{_stem(metadata)}"
        files = [
            CopiedObject(f"{stem}.{SUFFIXES[kind]}", bytes(index))
            for kind, index in indexes.items()
        ]
        mark = CopiedObject(f"{stem}.{LOG_SUFFIX}", log)
        name = self.name_of(metadata)
        if IndexType.TRANSACTION in indexes:  # no reader would miss it
            copy_objects(self.store, name, files, mark)
        else:
            copy_objects(self.store, name, [*files, mark])
        return b""

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Overwrite the files of a segment."""
        custom = self.copy_open_log(metadata, log, indexes)
        if IndexType.TRANSACTION not in indexes:  # a stored one does not belong to it
            key = self._key(metadata, SUFFIXES[IndexType.TRANSACTION])
            self.store.delete([key])
        return custom

    def _checked_indexes(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
        write: Callable[[memoryview], object],
    ) -> dict[IndexType, bytes]:
        """Check a log, and return its indexes, with those that a broker always has.

        Args:
            metadata: The segment.
            log: Its log.
            indexes: The bytes of each index that exists.
            write: Takes each piece of the log that was checked, in order.
        """
        measured = replace(metadata, size=log.size)
        inspection = inspect_copy(log, write, measured, indexes)
        if inspection.is_compacted:
            raise UnsupportedOperationError(
                f"{self.name_of(metadata)}: its log is compacted, and kafka-local "
                "stores only logs without holes, as a broker tiers them"
            )
        made = inspection.rebuilt.items()
        always = {kind: index for kind, index in made if SUFFIXES[kind] in _ALWAYS}
        return {**always, **indexes}

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete the files of a segment, its log first, so that it is no longer listed.

        A crash leaves files that are not listed: ``scrub`` finds them, and deleting
        again removes them.
        """
        stem = f"{self._folder(metadata.partition)}{_stem(metadata)}"
        self.store.delete([f"{stem}.{LOG_SUFFIX}"])
        self.store.delete(f"{stem}.{suffix}" for suffix in SUFFIXES.values())

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield the files of incomplete segments."""
        files, _ = self._files(partition)
        for (start, segment_id), parts in sorted(files.items()):
            lacking = ", ".join(sorted(_ALWAYS - parts.keys()))
            for suffix, entry in parts.items() if lacking else ():
                reason = f"segment {start:020d}-{segment_id} has no {lacking}"
                log_start = start if suffix == LOG_SUFFIX else None
                yield Leftover(entry.key, entry.size or 0, reason, log_start)

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete the files of all segments, the logs first, so that none is listed."""
        files, _ = self._files(partition)
        logs = [p[LOG_SUFFIX].key for p in files.values() if LOG_SUFFIX in p]
        self.store.delete(logs)
        others = {entry.key for parts in files.values() for entry in parts.values()}
        self.store.delete(others.difference(logs))

    def _files(self, partition: TopicIdPartition) -> tuple[_Files, bool]:
        """Return the files of each segment, and whether the folder is empty."""
        folder = self._folder(partition)
        files: _Files = {}
        empty = True
        for entry in self.store.list(folder, delimiter="/"):
            empty = False
            parsed = _file(entry.key[len(folder) :])
            if parsed is not None:
                start, segment_id, suffix = parsed
                files.setdefault((start, segment_id), {})[suffix] = entry
        return files, empty

    def _key(self, metadata: SegmentMetadata, suffix: str) -> str:
        return f"{self._folder(metadata.partition)}{_stem(metadata)}.{suffix}"

    def _folder(self, partition: TopicIdPartition) -> str:
        return f"{self._find_root()}{_name(partition)}"

    def _find_root(self) -> str:
        """Determine whether the store is the folder itself or its parent.

        If neither exists, this call assumes the folder itself, and the next call checks
        again: a broker may begin to write meanwhile.
        """
        if self._root is None:
            folders = {e.key for e in self.store.list(delimiter="/") if e.is_prefix}
            if any(_partition(folder[:-1]) for folder in folders):
                self._root = ""
            elif _ROOT in folders:
                self._root = _ROOT
        return self._root or ""


def _name(partition: TopicIdPartition) -> str:
    return f"{partition}-{partition.topic_id}/"


def _stem(metadata: SegmentMetadata) -> str:
    return f"{metadata.start_offset:020d}-{metadata.id}"


def _index_sizes(parts: Mapping[str, ObjectInfo]) -> dict[IndexType, int] | None:
    """Return the size of each index; None if the store does not list one of them."""
    sizes: dict[IndexType, int] = {}
    for suffix, entry in parts.items():
        if suffix in _KINDS:
            if entry.size is None:
                return None
            sizes[_KINDS[suffix]] = entry.size
    return sizes


def _stored_size(parts: Mapping[str, ObjectInfo]) -> int | None:
    """Return the size of all files; None if the store does not list one of them."""
    sizes = [entry.size for entry in parts.values()]
    return sum(size or 0 for size in sizes) if None not in sizes else None


def _is_file(key: str) -> bool:
    folder, _, name = key.partition("/")
    return _partition(folder) is not None and _file(name) is not None


def _partition(folder: str) -> TopicIdPartition | None:
    match = _PARTITION.fullmatch(folder)
    if match is None:
        return None
    try:
        return TopicIdPartition(match[1], int(match[2]), Uuid(match[3]))
    except InvalidArgumentError:  # an unrecognised directory
        return None


def _file(name: str) -> tuple[int, SegmentId, str] | None:
    match = _FILE.fullmatch(name)
    if match is None or match[3] not in {LOG_SUFFIX, *SUFFIXES.values()}:
        return None
    try:
        start = int(match[1])
        if not is_offset(start):
            return None
        return start, SegmentId(match[2]), match[3]
    except InvalidArgumentError:  # a foreign object
        return None
