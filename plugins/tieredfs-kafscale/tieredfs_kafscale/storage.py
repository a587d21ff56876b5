"""``kafscale``: the layout of KafScale's brokers, read and written.

A segment is two objects: its record batches between a header and a footer, and a sparse
index. It has the offsets of its name, so there is one segment at most of a base offset.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace

from tieredfs import (
    ByteRange,
    Capability,
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
    parse_leader_epochs,
)
from tieredfs.storage import LogSource, open_log
from tieredfs_kafscale.custom_metadata import CustomMetadata
from tieredfs_kafscale.object_names import (
    Suffix,
    object_key,
    parse_key,
    parse_partition,
    partition_folder,
    sidecar_key,
)
from tieredfs_kafscale.prior_objects import delete_objects
from tieredfs_kafscale.restore import last_complete, may_be_log
from tieredfs_kafscale.segment_file import FOOTER_SIZE, HEADER_SIZE, SegmentFooter
from tieredfs_kafscale.segment_indexes import (
    fetch_offset_index,
    largest_timestamp,
    rebuild_indexes,
)
from tieredfs_kafscale.segment_listing import KnownEnds, SegmentListing
from tieredfs_kafscale.segment_log import checked_log
from tieredfs_kafscale.segment_writer import SIDECARS, SegmentWriter

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
            namespace: The brokers' namespace: the first part of each key.
            index_interval: Number of records between two entries of an index that is
                written.
            time_index: Whether a segment that is written gets a ``.kfst``, too.

        Raises:
            InvalidArgumentError: An option is of the wrong type or value.
        """
        super().__init__(store)
        _check_options(namespace, index_interval, time_index)
        self._namespace = namespace
        self._index_interval = index_interval
        self._time_index = time_index
        self._known: KnownEnds = {}

    def __getstate__(self) -> dict[str, object]:
        """Return what another process needs: not what was read of objects."""
        return {**vars(self), "_known": {}}

    @property
    def _listing(self) -> SegmentListing:
        return SegmentListing(self.store, self._known)

    @property
    def _writer(self) -> SegmentWriter:
        return SegmentWriter(self.store, self._index_interval, self._time_index)

    @property
    def identity(self) -> str:
        """The layout, the store and the namespace."""
        return f"{super().identity}\0{self._namespace}"

    @property
    def keeps_topic_ids(self) -> bool:
        """No: a key has only the name of a topic."""
        return False

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
        segment, custom = self._measured(metadata)
        log = self._key(segment, Suffix.LOG)
        found: dict[IndexType, memoryview] = {}
        for kind, suffix in SIDECARS.items():
            # The log is not accepted without its transaction index.
            is_needed = kind in wanted or kind is IndexType.TRANSACTION
            if suffix in custom.sidecars and is_needed:
                key = self._sidecar(segment, custom.checksum, suffix)
                found[kind] = self.store.get(key)
        if IndexType.OFFSET in wanted:
            key = self._key(segment, Suffix.INDEX)
            offsets = fetch_offset_index(self.store, key, segment)
            if offsets is not None:
                found[IndexType.OFFSET] = memoryview(offsets)
        missing = wanted - found.keys() - {IndexType.TRANSACTION}
        if missing:
            transactions = found.get(IndexType.TRANSACTION)
            rebuilt = rebuild_indexes(
                self.store, log, segment, custom.checksum, transactions
            )
            found |= {kind: memoryview(rebuilt[kind]) for kind in missing}
        elif wanted - found.keys():
            self.store.head(log)  # it is not one that is being deleted
        return SegmentIndexes({kind: found[kind] for kind in wanted if kind in found})

    def is_txn_index_empty(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment was listed without a transaction index."""
        custom = CustomMetadata.parse(metadata.custom_metadata)
        return custom is not None and Suffix.TRANSACTIONS not in custom.sidecars

    def log_checksum(self, metadata: SegmentMetadata) -> int | None:
        """Return the CRC-32C that the footer of the log has."""
        custom = CustomMetadata.parse(metadata.custom_metadata)
        return None if custom is None else custom.checksum

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Read the largest timestamp and the leader epochs, from the log."""
        if metadata.is_described:
            return metadata
        segment, _ = self._measured(metadata)
        if indexes is None:
            kinds = [IndexType.TIMESTAMP, IndexType.LEADER_EPOCH]
            indexes = self.fetch_indexes(segment, kinds)
        name = f"{self.name_of(segment)}: leader epochs"
        epochs = parse_leader_epochs(indexes[IndexType.LEADER_EPOCH], name=name)
        end = segment.end_offset or 0
        return replace(
            segment,
            max_timestamp_ms=largest_timestamp(indexes[IndexType.TIMESTAMP]),
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
        """Store a segment, from a log that is read in place.

        What a copy of another log has left at its offset is replaced; a segment is not.
        """
        partition, start = metadata.partition, metadata.start_offset

        def listed() -> int | None:
            try:
                segments = self.list_segments(partition, start)
            except NotFoundError:
                return None
            found = [one for one in segments if one.start_offset == start]
            custom = found and CustomMetadata.parse(found[0].custom_metadata)
            return custom.checksum if custom else None

        folder = self._folder(partition)
        return self._writer.put(folder, metadata, log, indexes, listed).encode()

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment in place of any other that begins at its offset.

        The log of that is deleted first: readers see no half of either, and a crash may
        leave neither.
        """
        folder = self._folder(metadata.partition)
        return self._writer.put(folder, metadata, log, indexes, None).encode()

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete the objects of a segment, its log first, so that it is not listed.

        Of another segment that has been stored at its offset meanwhile nothing is
        deleted.
        """
        if CustomMetadata.parse(metadata.custom_metadata) is not None:
            with suppress(NotFoundError):
                if not self._is_same_log(metadata):
                    return
        folder = self._folder(metadata.partition)
        delete_objects(self.store, folder, metadata.start_offset)

    def is_current(
        self, metadata: SegmentMetadata, last_offset: int | None = None
    ) -> bool:
        """Return whether the log is still the one that was listed: 16 bytes are read.

        A base offset may be used again, by another log.
        """
        del last_offset
        try:
            return self._is_same_log(metadata)
        except NotFoundError:
            return False

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
            for kind, entry in found.own.items() if is_half else ():
                reason, size = f"{name} has no {half}", entry.size or 0
                start = log = None
                if kind is Suffix.LOG:  # its index may have been lost
                    start = base
                    if may_be_log(entry):
                        log = ByteRange(HEADER_SIZE, size - FOOTER_SIZE)
                yield Leftover(entry.key, size, reason, start, log)
            for (checksum, _), entry in found.sidecars.items():
                if custom is None or custom.checksum != checksum:
                    reason = f"{name} has no log with the checksum {checksum:08x}"
                    # Beside a log that may be the only copy of its records it may be
                    # that of their transactions.
                    start = base if Suffix.LOG in found.own else None
                    yield Leftover(entry.key, entry.size or 0, reason, start)
            for entry in found.claims.values():
                reason = f"what a copy had left of {name} was being replaced"
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

    def _is_same_log(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment's log is the one that its metadata state.

        Raises:
            NotFoundError: There is none.
        """
        custom = CustomMetadata.parse(metadata.custom_metadata)
        key = self._key(metadata, Suffix.LOG)
        try:
            size = self._log_size(key) if metadata.size is None else metadata.size
            footer = self._footer(key, size)
        except CorruptObjectError:
            return False  # it ends elsewhere
        return custom is None or custom.checksum == footer.checksum

    def _log_size(self, key: str) -> int:
        size = self.store.head(key).size or 0
        return max(size - HEADER_SIZE - FOOTER_SIZE, 0)

    def _footer(self, key: str, size: int) -> SegmentFooter:
        start = HEADER_SIZE + size
        data = self.store.get_range(key, start, start + FOOTER_SIZE)
        return SegmentFooter.parse(data, f"{self.store.url}/{key}")

    def _measured(
        self, metadata: SegmentMetadata
    ) -> tuple[SegmentMetadata, CustomMetadata]:
        """Return a segment with its size and end offset, and which log it is.

        What was copied has no size; and a broker may not pass on what a copy returns.
        """
        custom = CustomMetadata.parse(metadata.custom_metadata)
        size, end = metadata.size, metadata.end_offset
        if custom is not None and size is not None and end is not None:
            return metadata, custom
        key = self._key(metadata, Suffix.LOG)
        size = self._log_size(key) if size is None else size
        footer = self._footer(key, size)
        if custom is None:
            custom = self._listing.custom_metadata(
                self._folder(metadata.partition), metadata.start_offset, footer
            )
        end = footer.last_offset if end is None else end
        return replace(metadata, size=size, end_offset=end), custom


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
