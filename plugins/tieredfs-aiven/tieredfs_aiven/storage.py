"""``aiven``: the layout of Aiven's tiered-storage plugin for Apache Kafka, read only.

A segment is three objects: its log in chunks, its indexes one behind the other, and the
manifest that says where they lie. The manifest is written last.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tieredfs import (
    ByteRange,
    Capability,
    CorruptIndexError,
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TieredFSError,
    TopicIdPartition,
    check_max_timestamp,
    parse_leader_epochs,
)
from tieredfs_aiven.custom_metadata import parse_custom_metadata
from tieredfs_aiven.encryption import DataKey, KeyRing, WrongTagError
from tieredfs_aiven.key_prefix import find_prefix, warn_of_others
from tieredfs_aiven.manifest import Manifest, SegmentFacts, parse_manifest
from tieredfs_aiven.object_names import (
    Suffix,
    main_path,
    parse_file,
    parse_key,
    parse_partition,
    partition_folder,
)
from tieredfs_aiven.stored_log import read_log

__all__ = ["Aiven"]

_PIECE: Final = 8 << 20
"""Bytes of a log that are fetched at once when all of it is read, about."""


_TIME_ENTRY: Final = 12
"""Bytes of an entry of a time index."""


class Aiven(RemoteStorageManager):
    """Read the segments that Aiven's plugin for Kafka has tiered."""

    capabilities = frozenset({Capability.RANGE_READ})

    def __init__(
        self,
        store: ObjectStore,
        *,
        key_prefix: str | None = None,
        encryption_keys: Mapping[str, str | Path] | None = None,
    ) -> None:
        """Keep ``store``, and read the keys.

        Args:
            store: The bucket or the folder that the plugin writes to.
            key_prefix: The plugin's ``key.prefix``, character by character; None to
                find it out from the listing.
            encryption_keys: Private RSA keys by their ids, the plugin's
                ``encryption.key.pairs``: each as PEM text or as the path of a file.

        Raises:
            InvalidArgumentError: An option is of the wrong type, or one of the keys is
                no private RSA key.
        """
        super().__init__(store)
        if not isinstance(key_prefix, str | None):
            raise InvalidArgumentError(f"key_prefix is a text, not {key_prefix!r}")
        self._given_prefix = self._prefix = key_prefix
        self._keys = KeyRing(encryption_keys)

    @property
    def identity(self) -> str:
        """The layout, the store and the key prefix, as it was given.

        A store may hold two tiers of the same segments, encrypted apart: the manifest
        of the one would have the other's log taken for plain bytes.
        """
        return f"{super().identity}\0{self._given_prefix!r}"

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return the share of keys that are objects of segments."""
        mine = sum(parse_key(key) is not None for key in keys)
        return mine / len(keys) if keys else 0.0

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder: a request, and one a topic.

        Of one topic it is a request, and one for each of its ids.

        A TieredFSWarning names the key prefixes whose topics are left out, where none
        was given or the one that was given has no topic.
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
        """Return the segments whose three objects are all there.

        Their names do not say where they end; ``describe`` does.
        """
        del min_offset
        found = self.survey(partition)
        return [segment for segment in found if isinstance(segment, SegmentMetadata)]

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or that an object of a finished one is missing.

        One without a manifest was never finished, and is skipped.
        """
        folder = f"{self._find_prefix()}{partition_folder(partition)}"
        found: dict[tuple[int, SegmentId], set[Suffix]] = {}
        entry = None
        for entry in self.store.list(folder):
            name = parse_file(entry.key[len(folder) :])
            if name is not None:
                identity = (name.start_offset, name.segment_id)
                found.setdefault(identity, set()).add(name.suffix)
        if entry is None:
            raise NotFoundError(f"not found: {partition} in {self.store.url}")
        for (start, segment_id), suffixes in sorted(found.items()):
            segment = SegmentMetadata(partition, segment_id, start)
            missing = set(Suffix) - suffixes
            if not missing:
                yield segment
            elif Suffix.MANIFEST in suffixes:
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

        With ``layout``, the manifest that ``fetch_indexes`` gave, it is one request.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log is shorter than ``end``, a chunk is not what was
                stored, or the manifest is damaged or that of another segment.
            UnsupportedFormatError: The manifest is of a version that is not read.
            PermissionDeniedError: A key is missing, or the wrong one.
        """
        stem = self._stem(metadata)
        manifest = self._parse(metadata, stem, layout or self._manifest(stem))
        stop = manifest.chunks.size if end is None else end
        return self._read(manifest, stem, start, stop)[: stop - start]

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log, and what else its last chunk has."""
        stem = self._stem(metadata)
        manifest = self._parse(metadata, stem, layout or self._manifest(stem))
        return self._read(manifest, stem, start, end)

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield the whole log in order: the manifest, and whole chunks at a time."""
        stem = self._stem(metadata)
        manifest = self._parse(metadata, stem, self._manifest(stem))
        size = manifest.chunks.size
        whole = 1 if manifest.is_plain else manifest.chunks.chunk_size
        step = max(_PIECE // whole, 1) * whole
        for start in range(0, size, step):
            yield self._read(manifest, stem, start, min(start + step, size))

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
        stem = self._stem(metadata)
        layout = bytes(self._manifest(stem))
        manifest = self._parse(metadata, stem, layout)
        return SegmentIndexes(self._indexes(manifest, stem, index_types), layout)

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Ask the manifest, the end of the time index and the leader epochs.

        The manifest has only a part of the epochs, and its largest timestamp is what
        the time index confirms.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The manifest is damaged, or contradicts the time index.
            CorruptIndexError: An index is not what was stored.
        """
        if metadata.is_described:
            return metadata
        stem = self._stem(metadata)
        layout = b"" if indexes is None else indexes.layout
        manifest = self._parse(metadata, stem, layout or self._manifest(stem))
        facts = manifest.segment
        if facts is None:
            raise CorruptObjectError(
                f"{self._name(stem, Suffix.MANIFEST)}: it does not say where the "
                "segment ends: it has no remoteLogSegmentMetadata"
            )
        found: Mapping[IndexType, memoryview]
        if indexes is None:
            ends = replace(manifest, indexes=_ends_of_indexes(manifest))
            found = self._indexes(ends, stem, ends.indexes)
        else:
            found = indexes
        name = self._name(stem, Suffix.INDEXES)
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
            claim=f"{self._name(stem, Suffix.MANIFEST)}: maxTimestampMs",
            index=f"{name}: time index",
        )
        return replace(claimed, max_timestamp_ms=latest)

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes of each segment's three objects: one listing."""
        folder = f"{self._find_prefix()}{partition_folder(partition)}"
        sizes: dict[tuple[int, SegmentId], int] = {}
        for entry in self.store.list(folder):
            name = parse_file(entry.key[len(folder) :])
            if name is not None:
                segment = name.start_offset, name.segment_id
                sizes[segment] = sizes.get(segment, 0) + (entry.size or 0)
        return sizes

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Tell that a manifest only claims where its segment ends."""
        del metadata
        return False

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return what the keys of a segment's objects share, if it is known."""
        if self._prefix is None and not metadata.custom_metadata:
            return super().name_of(metadata)
        return f"{self.store.url}/{self._stem(metadata)}"

    def _find_prefix(self) -> str:
        if self._prefix is None:
            self._prefix = find_prefix(self.store)
        return self._prefix or ""

    def _folders(self, prefix: str) -> Iterator[str]:
        for entry in self.store.list(prefix, delimiter="/"):
            if entry.is_prefix:
                yield entry.key[len(prefix) : -1]

    def _stem(self, metadata: SegmentMetadata) -> str:
        """Return what the keys of a segment's objects share."""
        given = parse_custom_metadata(metadata.custom_metadata)
        main = given.main_path or main_path(
            metadata.partition, metadata.start_offset, metadata.id
        )
        prefix = self._find_prefix() if given.prefix is None else given.prefix
        return f"{prefix}{main}"

    def _name(self, stem: str, suffix: Suffix) -> str:
        return f"{self.store.url}/{stem}.{suffix}"

    def _manifest(self, stem: str) -> memoryview:
        return self.store.get(f"{stem}.{Suffix.MANIFEST}")

    def _parse(
        self, metadata: SegmentMetadata, stem: str, data: bytes | memoryview
    ) -> Manifest:
        """Return a manifest that is the segment's, as far as it says."""
        name = self._name(stem, Suffix.MANIFEST)
        manifest = parse_manifest(data, name)
        if manifest.segment is not None:
            _check_identity(manifest.segment, metadata, name)
        return manifest

    def _key(self, manifest: Manifest, stem: str) -> DataKey | None:
        if manifest.wrapped_key is None:
            return None
        return self._keys.unwrap(
            manifest.wrapped_key, self._name(stem, Suffix.MANIFEST)
        )

    def _read(self, manifest: Manifest, stem: str, start: int, end: int) -> memoryview:
        name = self._name(stem, Suffix.LOG)
        size = manifest.chunks.size
        if not 0 <= start <= end:
            raise InvalidArgumentError(f"{name}: not a range: [{start}, {end})")
        if end > size:
            raise CorruptObjectError(
                f"{name}: its log has {size} bytes, asked for are [{start}, {end})"
            )
        return read_log(
            lambda first, last: self.store.get_range(
                f"{stem}.{Suffix.LOG}", first, last
            ),
            manifest,
            self._key(manifest, stem),
            start,
            end,
            name=name,
        )

    def _indexes(
        self, manifest: Manifest, stem: str, index_types: Iterable[IndexType]
    ) -> dict[IndexType, memoryview]:
        """Fetch those of some indexes that a segment has, in one range."""
        wanted = set(index_types)
        places = {kind: at for kind, at in manifest.indexes.items() if kind in wanted}
        if not places:
            return {}
        start = min(place.start for place in places.values())
        end = max(place.end for place in places.values())
        stored = self.store.get_range(f"{stem}.{Suffix.INDEXES}", start, end)
        key = self._key(manifest, stem)
        found: dict[IndexType, memoryview] = {}
        for kind, place in places.items():
            data = stored[place.start - start : place.end - start]
            try:
                found[kind] = key.decrypt(data) if key and data else data
            except WrongTagError as error:
                msg = f"{self._name(stem, Suffix.INDEXES)}: {kind}: {error}"
                raise CorruptIndexError(msg) from error
        return found


def _is_topic(folder: str, topic: str | None) -> bool:
    """Tell whether a folder is that of a topic, or of any if None is given."""
    first = parse_partition(folder, "0")
    return first is not None and topic in {None, first.topic}


def _ends_of_indexes(manifest: Manifest) -> dict[IndexType, ByteRange]:
    """Return where the end of the time index lies, and the leader epochs.

    An encrypted index cannot be read in parts.
    """
    times = manifest.indexes[IndexType.TIMESTAMP]
    if manifest.wrapped_key is None:
        times = ByteRange(max(times.start, times.end - _TIME_ENTRY), times.end)
    epochs = manifest.indexes[IndexType.LEADER_EPOCH]
    return {IndexType.TIMESTAMP: times, IndexType.LEADER_EPOCH: epochs}


def _check_identity(facts: SegmentFacts, metadata: SegmentMetadata, name: str) -> None:
    """Check that a manifest is that of a segment.

    Raises:
        CorruptObjectError: It is that of another one.
        InvalidArgumentError: The prefix of the keys was taken for a part of the topic.
    """
    mine, theirs = metadata.partition, facts.partition
    if (facts.id, facts.start_offset, theirs.topic_id, theirs.partition) != (
        metadata.id,
        metadata.start_offset,
        mine.topic_id,
        mine.partition,
    ):
        segment = f"{theirs}/{facts.start_offset:020d}-{facts.id}"
        raise CorruptObjectError(f"{name}: it is the manifest of {segment}")
    if theirs.topic == mine.topic:
        return
    if mine.topic.endswith(theirs.topic):
        raise InvalidArgumentError(
            f"{name}: it is a manifest of the topic {theirs.topic!r}: the option "
            f"key_prefix has to end in {mine.topic.removesuffix(theirs.topic)!r}"
        )
    raise CorruptObjectError(f"{name}: it is a manifest of the topic {theirs.topic!r}")
