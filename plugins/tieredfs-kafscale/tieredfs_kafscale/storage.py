"""``kafscale``: the layout of KafScale's brokers, read and written.

A segment is two objects: its record batches between a header and a footer, and a sparse
index. It has the offsets of its name, so there is one segment at most of a base offset.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tieredfs import (
    Capability,
    CorruptIndexError,
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    Leftover,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TieredFSError,
    TopicIdPartition,
    UnsupportedFormatError,
    parse_leader_epochs,
)
from tieredfs.format.checksum import crc32c
from tieredfs.format.index.time import TimeIndex
from tieredfs.integers import MAX_INT64
from tieredfs.storage import LogSource, inspect_copy
from tieredfs.storage.segment_log.source import open_log
from tieredfs_kafscale.custom_metadata import CustomMetadata
from tieredfs_kafscale.index_file import parse_index, to_offset_index
from tieredfs_kafscale.object_names import (
    Suffix,
    object_key,
    parse_key,
    parse_partition,
    partition_folder,
    sidecar_key,
)
from tieredfs_kafscale.restore import last_complete
from tieredfs_kafscale.segment_file import FOOTER_SIZE, HEADER_SIZE, SegmentFooter
from tieredfs_kafscale.segment_listing import SegmentListing
from tieredfs_kafscale.segment_log import check_checksum, checked_log
from tieredfs_kafscale.segment_writer import SIDECARS, SegmentWriter, delete_objects

__all__ = ["KafScale"]

_MAX_INTERVAL = (1 << 31) - 1


class KafScale(RemoteStorageManager):
    """Read and write the segments of KafScale's brokers."""

    capabilities = frozenset({Capability.WRITE, Capability.RANGE_READ})

    def __init__(
        self,
        store: ObjectStore,
        *,
        namespace: str = "default",
        index_interval: int = 100,
        time_index: bool = False,
    ) -> None:
        """Keep ``store``, without sending a request.

        Args:
            store: The bucket, or the folder in it.
            namespace: The brokers' ``KAFSCALE_S3_NAMESPACE``: the first part of each
                key.
            index_interval: Number of records between two entries of an index that is
                written.
            time_index: Whether a segment that is written gets a ``.kfst``, too.

        Raises:
            InvalidArgumentError: An option is of the wrong type or value.
        """
        super().__init__(store)
        _check_options(namespace, index_interval, time_index)
        self._namespace = namespace
        self._listing = SegmentListing(store)
        self._writer = SegmentWriter(store, index_interval, time_index)

    @property
    def identity(self) -> str:
        """The layout, the store and the namespace."""
        return f"{super().identity}\0{self._namespace}"

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return the share of keys that are objects of segments."""
        mine = sum(parse_key(key) is not None for key in keys)
        return mine / len(keys) if keys else 0.0

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder: one listing, and one per topic."""
        root = f"{self._namespace}/"
        topics = self._folders(root) if topic is None else [topic]
        found = (
            parse_partition(name, number)
            for name in topics
            for number in self._folders(f"{root}{name}/")
        )
        return sorted(partition for partition in found if partition is not None)

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments of a partition: one listing, and each footer once.

        What is listed of a half is said in ``restore``.
        """
        return [
            found
            for found in self.survey(partition)
            if isinstance(found, SegmentMetadata)
            and (found.end_offset or 0) >= min_offset
        ]

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or an error for a log without its footer."""
        yield from self._listing.segments(partition, self._folder(partition))

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log: one request, for a segment that was listed.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log ends before ``end``.
            InvalidArgumentError: ``start`` is negative or greater than ``end``.
        """
        del layout
        key = self._key(metadata, Suffix.LOG)
        size = metadata.size
        if size is None:
            size = self._log_size(key)
        stop = size if end is None else end
        if stop > size:
            raise CorruptObjectError(
                f"{self.store.url}/{key}: its log has {size} bytes, not {stop}"
            )
        if start < 0 or start > stop:
            raise InvalidArgumentError(f"{metadata}: invalid range [{start}, {stop})")
        return self.store.get_range(key, start + HEADER_SIZE, stop + HEADER_SIZE)

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield the whole log in order, checked against its footer at the end."""
        key = self._key(metadata, Suffix.LOG)
        size = self._log_size(key) if metadata.size is None else metadata.size
        footer = self._footer(key, size)
        yield from checked_log(
            self.store, key, size, metadata.start_offset, footer.checksum
        )

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index, from the log if it is not stored.

        Raises:
            NotFoundError: The segment is gone, or has no such index.
        """
        found = self.fetch_indexes(metadata, [index_type])
        if index_type not in found:
            msg = f"not found: {self.name_of(metadata)}: it has no {index_type} index"
            raise NotFoundError(msg)
        return found[index_type]

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment.

        The offset index is KafScale's, converted, or rebuilt from the log if it is
        missing, malformed or of another log. The others are rebuilt: that takes the
        whole log, a piece at a time; except those that were stored beside it.

        Raises:
            NotFoundError: The segment is gone.
            CorruptDataError: The log or one of the indexes is malformed.
        """
        wanted = set(index_types)
        segment = self._measured(metadata)
        custom = CustomMetadata.parse(segment.custom_metadata)
        beside = custom.sidecars if custom else frozenset()
        found: dict[IndexType, memoryview] = {}
        for kind, suffix in SIDECARS.items():
            if custom and suffix in beside and kind in wanted:
                key = self._sidecar(segment, custom.checksum, suffix)
                found[kind] = self.store.get(key)
        if IndexType.OFFSET in wanted:
            offsets = self._offset_index(segment)
            if offsets is not None:
                found[IndexType.OFFSET] = memoryview(offsets)
        missing = wanted - found.keys() - {IndexType.TRANSACTION}
        if missing:
            rebuilt = self._rebuilt(segment, custom)
            found |= {kind: memoryview(rebuilt[kind]) for kind in missing}
        elif wanted - found.keys():
            self.store.head(self._key(segment, Suffix.LOG))  # not one that is deleted
        return SegmentIndexes(found)

    def is_txn_index_empty(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment was listed without a transaction index."""
        custom = CustomMetadata.parse(metadata.custom_metadata)
        return custom is not None and Suffix.TRANSACTIONS not in custom.sidecars

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Read the largest timestamp and the leader epochs, from the log."""
        if metadata.is_described:
            return metadata
        segment = self._measured(metadata)
        name = self.name_of(segment)
        if indexes is None:
            kinds = [IndexType.TIMESTAMP, IndexType.LEADER_EPOCH]
            indexes = self.fetch_indexes(segment, kinds)
        times = TimeIndex.parse(
            indexes[IndexType.TIMESTAMP], segment.start_offset, name=name
        )
        epochs = parse_leader_epochs(indexes[IndexType.LEADER_EPOCH], name=name)
        end = segment.end_offset or 0
        return replace(
            segment,
            max_timestamp_ms=times.lookup(MAX_INT64).timestamp if len(times) else -1,
            leader_epochs=tuple(e for e in epochs.entries if e.start_offset <= end),
        )

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the URL of a segment's objects, without their suffixes."""
        folder = self._folder(metadata.partition)
        return f"{self.store.url}/{folder}segment-{metadata.start_offset:020d}"

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment: its log and its index concurrently.

        When it returns, every reader sees the segment. When it raises, or the process
        dies, one half may be left; copying again completes it. A transaction index, a
        producer snapshot and leader epochs that the log alone does not give are stored
        before, in objects of their own that KafScale ignores.

        Returns:
            The checksum of the log, and which objects are stored beside it.

        Raises:
            AlreadyExistsError: Another segment begins at this offset.
            InvalidArgumentError: ``metadata`` has no end offset.
            UnsupportedOperationError: The log is compacted, has no batch, or batches
                before version 2.
            CorruptDataError: The log or an index is malformed.
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
        folder = self._folder(metadata.partition)
        return self._writer.put(folder, metadata, log, indexes).encode()

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment in place of any other that begins at its offset."""
        folder = self._folder(metadata.partition)
        return self._writer.replace(folder, metadata, log, indexes).encode()

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete the objects of a segment, its log first, so that it is not listed."""
        folder = self._folder(metadata.partition)
        delete_objects(self.store, folder, metadata.start_offset)

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield the objects that are not part of a segment, and those of one half."""
        try:
            objects = self._listing.objects(self._folder(partition))
        except NotFoundError:
            return
        newest = last_complete(objects)
        listed = {
            segment.start_offset: CustomMetadata.parse(segment.custom_metadata)
            for segment in self.list_segments(partition)
        }
        for base, found in objects.items():
            custom = listed.get(base)
            name = f"segment {base}"
            half = "log" if Suffix.LOG not in found.own else "index"
            is_half = Suffix.LOG not in found.own or (
                Suffix.INDEX not in found.own and base > newest
            )
            for entry in found.own.values() if is_half else ():
                yield Leftover(entry.key, entry.size or 0, f"{name} has no {half}")
            for (checksum, _), entry in found.sidecars.items():
                if custom is None or custom.checksum != checksum:
                    reason = f"{name} has no log with the checksum {checksum:08x}"
                    yield Leftover(entry.key, entry.size or 0, reason)

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes of each segment's objects."""
        return {
            (one.start_offset, one.id): one.stored_size
            for one in self.list_segments(partition)
            if one.stored_size is not None
        }

    def _folders(self, prefix: str) -> Iterator[str]:
        for entry in self.store.list(prefix, delimiter="/"):
            if entry.is_prefix:
                yield entry.key[len(prefix) : -1]

    def _folder(self, partition: TopicIdPartition) -> str:
        return partition_folder(self._namespace, partition)

    def _key(self, metadata: SegmentMetadata, suffix: Suffix) -> str:
        folder = self._folder(metadata.partition)
        return object_key(folder, metadata.start_offset, suffix)

    def _sidecar(self, metadata: SegmentMetadata, checksum: int, suffix: Suffix) -> str:
        folder = self._folder(metadata.partition)
        return sidecar_key(folder, metadata.start_offset, checksum, suffix)

    def _log_size(self, key: str) -> int:
        size = self.store.head(key).size or 0
        return max(size - HEADER_SIZE - FOOTER_SIZE, 0)

    def _footer(self, key: str, size: int) -> SegmentFooter:
        start = HEADER_SIZE + size
        data = self.store.get_range(key, start, start + FOOTER_SIZE)
        return SegmentFooter.parse(data, f"{self.store.url}/{key}")

    def _measured(self, metadata: SegmentMetadata) -> SegmentMetadata:
        """Return a segment with its size and end offset, which a copy may lack."""
        if metadata.size is not None and metadata.end_offset is not None:
            return metadata
        key = self._key(metadata, Suffix.LOG)
        size = self._log_size(key)
        return replace(
            metadata, size=size, end_offset=self._footer(key, size).last_offset
        )

    def _offset_index(self, segment: SegmentMetadata) -> bytes | None:
        """Return the stored index, converted; None if it has to be rebuilt."""
        key = self._key(segment, Suffix.INDEX)
        try:
            entries = parse_index(self.store.get(key), f"{self.store.url}/{key}")
        except (NotFoundError, CorruptIndexError, UnsupportedFormatError):
            return None
        base, end = segment.start_offset, segment.end_offset or 0
        return to_offset_index(entries, base, end, segment.size or 0)

    def _rebuilt(
        self, segment: SegmentMetadata, custom: CustomMetadata | None
    ) -> Mapping[IndexType, bytes]:
        """Rebuild the indexes of a segment from its log, which is checked."""
        key = self._key(segment, Suffix.LOG)
        size, name = segment.size or 0, self.name_of(segment)
        checksum = 0

        def add(piece: memoryview) -> None:
            nonlocal checksum
            checksum = crc32c(piece, checksum)

        def fetch(start: int, end: int) -> memoryview:
            return self.store.get_range(key, start + HEADER_SIZE, end + HEADER_SIZE)

        log = LogSource(size, name, fetch, is_steady=False)
        known: dict[IndexType, memoryview] = {}
        if custom and Suffix.TRANSACTIONS in custom.sidecars:
            beside = self._sidecar(segment, custom.checksum, Suffix.TRANSACTIONS)
            known[IndexType.TRANSACTION] = self.store.get(beside)
        found = inspect_copy(log, add, segment, known)
        stored = custom.checksum if custom else self._footer(key, size).checksum
        check_checksum(checksum, stored, f"{self.store.url}/{key}")
        return found.rebuilt


def _check_options(
    namespace: object, index_interval: object, time_index: object
) -> None:
    """Check what a user has given.

    Raises:
        InvalidArgumentError: An option is of the wrong type or value.
    """
    if not isinstance(namespace, str) or not namespace or "/" in namespace:
        raise InvalidArgumentError(
            f"namespace must be a text without a slash, not {namespace!r}"
        )
    if not isinstance(time_index, bool):
        raise InvalidArgumentError(
            f"time_index must be true or false, not {time_index!r}"
        )
    if type(index_interval) is not int or not 1 <= index_interval <= _MAX_INTERVAL:
        raise InvalidArgumentError(
            f"index_interval must be a number from 1 on, not {index_interval!r}"
        )
