"""``aiven``: the layout of Aiven's tiered-storage plugin for Apache Kafka.

A segment is three objects: its log in chunks, its concatenated indexes, and the
manifest that contains their positions. The manifest is written last. What is written
here is what the plugin would write with the same settings.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

from tieredfs import (
    ByteRange,
    Capability,
    CorruptDataError,
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    Leftover,
    LogSegmentData,
    NotFoundError,
    ObjectInfo,
    ObjectStore,
    PlannedFetch,
    RemoteStorageManager,
    RequestCounts,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TieredFSError,
    TopicIdPartition,
    UnsupportedFormatError,
    check_max_timestamp,
    parse_leader_epochs,
)
from tieredfs.storage import LogSource, open_log
from tieredfs_aiven.custom_metadata import (
    format_custom_metadata,
    parse_custom_metadata,
    parse_fields,
)
from tieredfs_aiven.encryption import KeyRing
from tieredfs_aiven.key_prefix import find_prefix, warn_of_others
from tieredfs_aiven.manifest import Manifest, parse_manifest
from tieredfs_aiven.object_names import (
    Suffix,
    main_path,
    parse_file,
    parse_key,
    parse_partition,
    partition_folder,
)
from tieredfs_aiven.segment_copy import (
    delete_segment,
    replace_segment,
    store_segment,
)
from tieredfs_aiven.segment_encoder import (
    DEFAULT_CHUNK_SIZE,
    MAX_CHUNK_SIZE,
    EncodedSegment,
    SegmentEncoder,
)
from tieredfs_aiven.stored_log import stored_range
from tieredfs_aiven.stored_segment import StoredSegment

__all__ = ["Aiven"]

_PIECE: Final = 8 << 20
"""Approximate bytes of each request when a whole log is read."""


_TIME_ENTRY: Final = 12
"""Bytes of an entry of a time index."""


_Objects = dict[tuple[int, SegmentId], dict[Suffix, ObjectInfo]]


class Aiven(RemoteStorageManager):
    """Read and write segments as Aiven's plugin for Kafka tiers them."""

    capabilities = frozenset({Capability.WRITE, Capability.RANGE_READ})

    def __init__(  # noqa: PLR0913 - the options of the layout
        self,
        store: ObjectStore,
        *,
        key_prefix: str | None = None,
        encryption_keys: Mapping[str, str | Path] | None = None,
        encryption_key_id: str | None = None,
        compression: str | None = None,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        custom_metadata: Collection[str] = (),
    ) -> None:
        """Keep ``store``, and read the keys.

        Reading takes the first two options: a manifest states the rest.

        Args:
            store: The bucket or the folder that the plugin writes to.
            key_prefix: The plugin's ``key.prefix``, exactly; None to detect it from the
                listing, and to write without one where nothing is stored yet.
            encryption_keys: RSA keys by their ids, the plugin's
                ``encryption.key.pairs``: each as PEM text or as the path of a file.
                Reading takes a private key, writing a public one.
            encryption_key_id: Which of them encrypts what is copied from now on, the
                plugin's ``encryption.key.pair.id``; None to encrypt nothing.
            compression: How the logs that are copied from now on are stored: ``zstd``,
                as with the plugin's ``compression.enabled``, or None for unchanged.
            chunk_size: The plugin's ``chunk.size``: bytes of a log that are compressed
                and encrypted together, 1 to 1073741823.
            custom_metadata: The plugin's ``custom.metadata.fields.include``: any of
                ``REMOTE_SIZE``, ``OBJECT_PREFIX`` and ``OBJECT_KEY``.

        Raises:
            InvalidArgumentError: An option is wrong, or one of the keys is not an RSA
                key.
        """
        super().__init__(store)
        if not isinstance(key_prefix, str | None):
            raise InvalidArgumentError(
                f"key_prefix must be a string, not {key_prefix!r}"
            )
        self._given_prefix = self._prefix = key_prefix
        self._keys = KeyRing(encryption_keys)
        if encryption_key_id is not None:
            self._keys.check_can_wrap(encryption_key_id)
        if compression not in {None, "zstd"}:
            raise InvalidArgumentError(
                f"invalid compression {compression!r}: give 'zstd', or omit it"
            )
        if type(chunk_size) is not int or not 1 <= chunk_size <= MAX_CHUNK_SIZE:
            raise InvalidArgumentError(
                f"chunk_size must be 1 to {MAX_CHUNK_SIZE} bytes, not {chunk_size!r}"
            )
        self._custom_fields = parse_fields(custom_metadata)
        self._encoder = SegmentEncoder(
            self._keys, chunk_size, compression is not None, encryption_key_id
        )

    @property
    def identity(self) -> str:
        """The layout, the store and the key prefix, as given.

        A store may contain two tiers of the same segments with different encryption:
        the manifest of one would make the log of the other look like plaintext.
        """
        return f"{super().identity}\0{self._given_prefix!r}"

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return the share of keys that are objects of segments."""
        mine = sum(parse_key(key) is not None for key in keys)
        return mine / len(keys) if keys else 0.0

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder: one request, and one per topic.

        For a single topic it is one request, and one for each of its ids.

        A TieredFSWarning names the key prefixes whose topics are left out, if no prefix
        was given or the given one has no topic.
        """
        prefix = self._find_prefix()
        found = (
            parse_partition(folder, number)
            for folder in self._folders(prefix)
            if _is_topic(folder, topic)
            for number in self._folders(f"{prefix}{folder}/")
        )
        partitions = sorted(p for p in found if p is not None)
        if not partitions and topic is None and self._given_prefix is not None:
            warn_of_others(self.store, self._given_prefix)
        return partitions

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments whose three objects all exist.

        Their names do not contain end offsets; ``describe`` reads them.
        """
        del min_offset
        found = self.survey(partition)
        return [segment for segment in found if isinstance(segment, SegmentMetadata)]

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or an error for a finished one with a missing object.

        A segment without a manifest was never finished, and is skipped.
        """
        found = self._objects(partition)
        if found is None:
            raise NotFoundError(f"not found: {partition} in {self.store.url}")
        for (start, segment_id), parts in sorted(found.items()):
            sizes = [entry.size for entry in parts.values()]
            known = None if None in sizes else sum(size or 0 for size in sizes)
            segment = SegmentMetadata(partition, segment_id, start, stored_size=known)
            missing = set(Suffix) - parts.keys()
            if not missing:
                yield segment
            elif Suffix.MANIFEST in parts:
                names = " and ".join(f".{suffix}" for suffix in sorted(missing))
                yield NotFoundError(f"not found: {self.name_of(segment)}{names}")

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log: the manifest, and one range of whole chunks.

        With ``layout``, the manifest that ``fetch_indexes`` returned, it is one
        request.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log is shorter than ``end``, a chunk is not what was
                stored, or the manifest is damaged or belongs to another segment.
            UnsupportedFormatError: The manifest is of an unsupported version.
            PermissionDeniedError: A key is missing, or the wrong one.
        """
        stored = self._stored(metadata)
        manifest = stored.parse(metadata, layout or stored.fetch_manifest())
        stop = manifest.chunks.size if end is None else end
        return stored.read_log(manifest, start, stop)[: stop - start]

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log, and the rest of its last chunk."""
        stored = self._stored(metadata)
        manifest = stored.parse(metadata, layout or stored.fetch_manifest())
        return stored.read_log(manifest, start, end)

    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        """Plan the manifest, unless it is cached, and one range of whole chunks."""
        stored = self._stored(metadata)
        known = layout or (after.layout if after else b"") or stored.fetch_manifest()
        manifest = stored.parse(metadata, known)
        (stored_start, stored_end), reached = stored_range(manifest, start, end)
        by_verb = {"get": 0 if layout else 1, "get_range": 1 if start < end else 0}
        size = stored_end - stored_start + (0 if layout else len(known))
        return PlannedFetch(RequestCounts.of(by_verb, size), reached, bytes(known))

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield the whole log in order: the manifest, and whole chunks at a time."""
        stored = self._stored(metadata)
        manifest = stored.parse(metadata, stored.fetch_manifest())
        size = manifest.chunks.size
        whole = 1 if manifest.is_plain else manifest.chunks.chunk_size
        step = max(_PIECE // whole, 1) * whole
        for start in range(0, size, step):
            yield stored.read_log(manifest, start, min(start + step, size))

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index: the manifest, and one range.

        Raises:
            NotFoundError: The segment is gone, or has no such index.
            CorruptIndexError: The index is not what was stored.
            CorruptObjectError: The indexes are cut off, or the manifest is damaged.
        """
        found = self.fetch_indexes(metadata, [index_type])
        if index_type not in found:
            msg = f"not found: {self.name_of(metadata)}: it has no {index_type} index"
            raise NotFoundError(msg)
        return found[index_type]

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes and the manifest: two requests, however many.

        Raises:
            NotFoundError: The segment is gone.
            CorruptIndexError: An index is not what was stored.
            CorruptObjectError: The indexes are cut off, or the manifest is damaged.
        """
        stored = self._stored(metadata)
        layout = bytes(stored.fetch_manifest())
        manifest = stored.parse(metadata, layout)
        return SegmentIndexes(stored.read_indexes(manifest, index_types), layout)

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Read the manifest, the end of the time index and the leader epochs.

        The manifest has only a part of the epochs, and its largest timestamp is
        confirmed by the time index.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The manifest is damaged, or contradicts the time index.
            CorruptIndexError: An index is not what was stored.
        """
        if metadata.is_described:
            return metadata
        stored = self._stored(metadata)
        layout = b"" if indexes is None else indexes.layout
        manifest = stored.parse(metadata, layout or stored.fetch_manifest())
        facts = manifest.segment
        if facts is None:
            raise CorruptObjectError(
                f"{stored.name(Suffix.MANIFEST)}: it has no end offset of the "
                "segment: remoteLogSegmentMetadata is missing"
            )
        found: Mapping[IndexType, memoryview]
        if indexes is None:
            ends = replace(manifest, indexes=_ends_of_indexes(manifest))
            found = stored.read_indexes(ends, ends.indexes)
        else:
            found = indexes
        name = stored.name(Suffix.INDEXES)
        epochs = parse_leader_epochs(
            found[IndexType.LEADER_EPOCH], name=f"{name}: leader epochs"
        )
        claimed = replace(
            metadata,
            end_offset=facts.end_offset,
            max_timestamp_ms=facts.max_timestamp_ms,
            leader_epochs=tuple(
                e for e in epochs.entries if e.start_offset <= facts.end_offset
            ),
            size=manifest.chunks.size,
        )
        latest = check_max_timestamp(
            self,
            claimed,
            found[IndexType.TIMESTAMP],
            claim=f"{stored.name(Suffix.MANIFEST)}: maxTimestampMs",
            index=f"{name}: time index",
        )
        return replace(claimed, max_timestamp_ms=latest)

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes of each segment's three objects: one listing."""
        found = self._objects(partition) or {}
        return {
            segment: sum(entry.size or 0 for entry in parts.values())
            for segment, parts in found.items()
        }

    def is_layout_current(self, metadata: SegmentMetadata, layout: bytes) -> bool:
        """Return whether a manifest states the size that the listing shows.

        A segment that was deleted and copied again has the same keys. The range of an
        unencrypted log that an old manifest states would be read without an error.
        """
        listed = metadata.stored_size
        return listed is None or listed == _size_stated(layout)

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Return False: only the manifest states where its segment ends."""
        del metadata
        return False

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the common part of the keys of a segment's objects, if known."""
        if self._prefix is None and not metadata.custom_metadata:
            return super().name_of(metadata)
        return f"{self.store.url}/{self._stem(metadata)}"

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment: its log and its indexes concurrently, and the manifest last.

        The segment is listed when its manifest exists. A crash leaves objects that are
        not listed; copying again replaces them. An index that Kafka always has and that
        ``data`` lacks is rebuilt from the log.

        Returns:
            The fields that the option ``custom_metadata`` includes; empty for none.

        Raises:
            InvalidArgumentError: ``metadata`` has no end offset.
            AlreadyExistsError: Another log is stored under this id, or another process
                is copying the segment.
            PermissionDeniedError: An encrypted copy is stored already, and there is no
                private key to verify it.
            CorruptBatchError: A batch is malformed or outside the segment.
            CorruptIndexError: An index is malformed or inconsistent with the log, or
                the log has an aborted transaction and the transaction index is missing.
            UnsupportedOperationError: The log is compacted, is too large for the
                plugin's reader, or has more than 128 bytes of custom metadata.
        """
        return self.copy_with_indexes(metadata, data)[0]

    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Store a segment, and return its indexes with its manifest.

        Those of a segment that was stored before are not known.
        """
        with open_log(data.log, str(metadata)) as log:
            return self._copy(metadata, log, data.indexes, store_segment)

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment, from a log that is read in place."""
        return self._copy(metadata, log, indexes, store_segment)[0]

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Overwrite the objects of a segment, or delete them first.

        They are deleted first if the stored manifest does not fit the new objects, as
        that of an encrypted segment never does.
        """
        return self._copy(metadata, log, indexes, replace_segment)[0]

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete a segment, its manifest first, so that it is no longer listed.

        A crash leaves objects that are not listed: ``scrub`` finds them, and deleting
        again removes them.
        """
        delete_segment(self.store, self._stem(metadata))

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield the objects of segments without a manifest."""
        for (start, segment_id), parts in sorted(
            (self._objects(partition) or {}).items()
        ):
            for entry in parts.values() if Suffix.MANIFEST not in parts else ():
                reason = f"segment {start:020d}-{segment_id} has no {Suffix.MANIFEST}"
                yield Leftover(entry.key, entry.size or 0, reason)

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete all objects, the manifests first, so that no segment is listed."""
        found = (self._objects(partition) or {}).values()
        keys: dict[Suffix, list[str]] = {suffix: [] for suffix in Suffix}
        for parts in found:
            for suffix, entry in parts.items():
                keys[suffix].append(entry.key)
        self.store.delete(keys[Suffix.MANIFEST])
        self.store.delete(keys[Suffix.LOG] + keys[Suffix.INDEXES])

    def _copy(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
        put: Callable[[StoredSegment, EncodedSegment], bytes],
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Store a segment under the key prefix, whatever its custom metadata are."""
        prefix = self._find_prefix()
        path = main_path(metadata.partition, metadata.start_offset, metadata.id)
        with self._encoder.encode(metadata, log, indexes) as segment:
            custom = self._custom_metadata(
                segment.layout, segment.manifest, prefix, path
            )
            target = StoredSegment(self.store, f"{prefix}{path}", self._keys)
            stored = put(target, segment)
            if stored is segment.manifest:
                views = {
                    kind: memoryview(bytes(index)).toreadonly()
                    for kind, index in segment.plain_indexes.items()
                }
                return custom, SegmentIndexes(views, stored)
        layout = parse_manifest(stored, f"{prefix}{path}")
        return self._custom_metadata(layout, stored, prefix, path), None

    def _custom_metadata(
        self, layout: Manifest, manifest: bytes, prefix: str, path: str
    ) -> bytes:
        size = layout.chunks.total_stored_size + layout.indexes_size + len(manifest)
        return format_custom_metadata(self._custom_fields, size, prefix, path)

    def _objects(self, partition: TopicIdPartition) -> _Objects | None:
        """Return the objects of each segment; None if the folder is empty."""
        folder = f"{self._find_prefix()}{partition_folder(partition)}"
        found: _Objects = {}
        entry = None
        for entry in self.store.list(folder):
            name = parse_file(entry.key[len(folder) :])
            if name is not None:
                segment = name.start_offset, name.segment_id
                found.setdefault(segment, {})[name.suffix] = entry
        return None if entry is None else found

    def _find_prefix(self) -> str:
        if self._prefix is None:
            self._prefix = find_prefix(self.store)
        return self._prefix or ""

    def _folders(self, prefix: str) -> Iterator[str]:
        for entry in self.store.list(prefix, delimiter="/"):
            if entry.is_prefix:
                yield entry.key[len(prefix) : -1]

    def _stored(self, metadata: SegmentMetadata) -> StoredSegment:
        return StoredSegment(self.store, self._stem(metadata), self._keys)

    def _stem(self, metadata: SegmentMetadata) -> str:
        """Return the common part of the keys of a segment's objects."""
        given = parse_custom_metadata(metadata.custom_metadata)
        main = given.main_path or main_path(
            metadata.partition, metadata.start_offset, metadata.id
        )
        prefix = self._find_prefix() if given.prefix is None else given.prefix
        return f"{prefix}{main}"


@lru_cache(maxsize=256)
def _size_stated(manifest: bytes) -> int | None:
    """Return the bytes of the three objects of a segment; None if it is malformed."""
    try:
        stored = parse_manifest(manifest, "a cached manifest")
    except (CorruptDataError, UnsupportedFormatError):
        return None
    return stored.chunks.total_stored_size + stored.indexes_size + len(manifest)


def _is_topic(folder: str, topic: str | None) -> bool:
    """Return whether a folder is that of a topic, or of any topic if None is given."""
    first = parse_partition(folder, "0")
    return first is not None and topic in {None, first.topic}


def _ends_of_indexes(manifest: Manifest) -> dict[IndexType, ByteRange]:
    """Return the positions of the time index's end and of the leader epochs.

    An encrypted index cannot be read in parts.
    """
    times = manifest.indexes[IndexType.TIMESTAMP]
    if manifest.wrapped_key is None:
        times = ByteRange(max(times.start, times.end - _TIME_ENTRY), times.end)
    epochs = manifest.indexes[IndexType.LEADER_EPOCH]
    return {IndexType.TIMESTAMP: times, IndexType.LEADER_EPOCH: epochs}
