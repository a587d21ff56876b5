"""``single-object``: the native layout, one immutable object a segment.

A copy is one atomic put, so a segment is stored whole or not at all. The key contains
all that a planner needs. All indexes are in the tail, which one range read fetches. The
log may be stored in chunks, compressed with zstd. Source: ``formats.md`` of the
project.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import (
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    TieredFSError,
)
from tieredfs.format.segment.key import SegmentFlag
from tieredfs.format.segment.key_scheme import OWN_FOLDER, KeyScheme
from tieredfs.format.segment.native_keys import NativeKeys
from tieredfs.format.segment.tail import parse_tail
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage.contract import (
    Capability,
    Leftover,
    PlannedFetch,
    RemoteStorageManager,
)
from tieredfs.storage.layouts.single_object.case_check import CaseCheck
from tieredfs.storage.layouts.single_object.known_objects import KnownObjects
from tieredfs.storage.layouts.single_object.listing import SegmentListing
from tieredfs.storage.layouts.single_object.object_reader import ObjectReader
from tieredfs.storage.layouts.single_object.object_writer import ObjectWriter
from tieredfs.storage.layouts.single_object.offset_claims import OffsetClaims
from tieredfs.storage.layouts.single_object.segment_object import epochs_of
from tieredfs.storage.layouts.single_object.stored_log import Compression
from tieredfs.storage.segment_log.source import LogSource, open_log

__all__ = ["SingleObject"]


class SingleObject(RemoteStorageManager):
    """Keep each segment, its indexes and its manifest in one object.

    A subclass with other ``keys`` is the same layout under other names.
    """

    keys: ClassVar[KeyScheme] = NativeKeys()
    """How the objects are named."""

    capabilities = frozenset(
        {
            Capability.WRITE,
            Capability.RANGE_READ,
            Capability.ATOMIC_COPY,
            Capability.SINGLE_REQUEST_INDEXES,
            Capability.PLAN_FROM_LISTING,
        }
    )

    def __init__(
        self, store: ObjectStore, *, compression: Compression | None = None
    ) -> None:
        """Keep ``store``, without sending a request.

        Args:
            store: Where the objects are.
            compression: How the logs that are copied from now on are stored: ``zstd``,
                or None for unchanged. Stored logs are read either way.

        Raises:
            InvalidArgumentError: ``compression`` is another value.
        """
        super().__init__(store)
        if compression not in (None, "zstd"):
            msg = f"invalid compression {compression!r}: give 'zstd', or omit it"
            raise InvalidArgumentError(msg)
        self.compression = compression
        self._known = KnownObjects()
        self._case = CaseCheck()

    @property
    def _listing(self) -> SegmentListing:
        return SegmentListing(self.store, self.keys, self._known)

    @property
    def _writer(self) -> ObjectWriter:
        return ObjectWriter(
            self.store, self.keys, self.compression, self._known, self._case
        )

    @property
    def _claims(self) -> OffsetClaims:
        return OffsetClaims(self.store, self.keys)

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return the share of keys that are segments or of this layout's own folder."""
        mine = sum(
            key.startswith(OWN_FOLDER) or cls.keys.is_segment_key(key) for key in keys
        )
        return mine / len(keys) if keys else 0.0

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder.

        Unrecognised directories and the layout's own, ``@tieredfs``, are skipped.
        """
        return self._listing.partitions(topic)

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments that end at ``min_offset`` or later.

        Raises:
            NotFoundError: There is no such partition.
            CorruptObjectError: An object's size is not the one in its key.
            UnsupportedFormatError: A segment was written by a newer release.
        """
        return self._listing.segments(partition, min_offset)

    def list_segments_lazily(
        self, partition: TopicIdPartition
    ) -> Sequence[SegmentMetadata]:
        """Return the segments as a ``SegmentTable``.

        A subclass that overrides only ``list_segments`` returns what that returns.

        Raises:
            TieredFSError: As in ``list_segments``.
        """
        if type(self).list_segments is not SingleObject.list_segments:
            return super().list_segments_lazily(partition)
        return self._listing.table(partition)

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return one page of the first segments that end at ``offset`` or later.

        If the page is full, only its first half is returned: segments that overlap the
        last ones may be on the next page.

        Raises:
            NotFoundError: There is no such partition, or no segment ends so late.
            CorruptObjectError: The size of an object on the page is not the one in its
                key.
            UnsupportedFormatError: A segment was written by a newer release.
        """
        return self._listing.seek(partition, offset)

    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or its error, in the order of their end offsets.

        If several objects hold one segment, the first is used.

        Raises:
            NotFoundError: There is no such partition.
        """
        return (one for _, one in self._listing.survey(partition))

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log: one request, two when it is stored in chunks.

        With ``layout``, the manifest that ``fetch_indexes`` returned, chunks also need
        only one request. Before the first byte of a log is returned, the object is
        checked against its key. That needs the end of the object, which is fetched in
        the same request or separately.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log is shorter than ``end``, a chunk is not what was
                stored, or the object belongs to another segment.
        """
        return self._object(metadata).log(start, end, layout)

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log, and the rest of its last chunk."""
        return self._object(metadata).log_ahead(start, end, layout)

    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        """Plan a fetch; the manifest is read if the log is stored in chunks.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The manifest is not what was stored.
        """
        return self._object(metadata).plan(start, end, layout, after)

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index, with the request that fetches all of them.

        Raises:
            NotFoundError: The segment is gone, or has no such index.
            CorruptObjectError: The tail is not what was stored.
            CorruptIndexError: An index is not what was stored.
        """
        indexes = self.fetch_all_indexes(metadata)
        if index_type not in indexes:
            msg = f"not found: {metadata} has no {index_type} index"
            raise NotFoundError(msg)
        return indexes[index_type]

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes in one range read."""
        found = self.fetch_all_indexes(metadata)
        wanted = {kind: found[kind] for kind in index_types if kind in found}
        return SegmentIndexes(wanted, found.layout)

    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Return all indexes and the manifest in one range read, checked.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The tail is not what was stored.
            CorruptIndexError: An index is not what was stored.
        """
        tail = self._object(metadata).tail()
        return SegmentIndexes(tail.indexes, bytes(tail.manifest_bytes))

    def is_txn_index_empty(self, metadata: SegmentMetadata) -> bool:
        """Return whether a segment has no aborted transaction, from its key."""
        stem = metadata.custom_metadata.decode("ascii", "replace")
        key = self.keys.parse_stem(stem) if stem else None
        return key is not None and not key.flags & SegmentFlag.TRANSACTIONS

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Read the epochs, record count and size of a chunked log from the tail."""
        known = (metadata.leader_epochs, metadata.size, metadata.record_count)
        if None not in known:
            return metadata
        found = self._object(metadata)
        if indexes is not None and indexes.layout:
            manifest = found.manifest(indexes.layout)
        else:
            manifest = found.tail().manifest
        facts = manifest.segment
        return SegmentMetadata(
            metadata.partition,
            metadata.id,
            facts.start_offset,
            facts.end_offset,
            facts.max_timestamp_ms,
            epochs_of(manifest),
            manifest.log.original_length,
            metadata.version,
            metadata.custom_metadata,
            facts.record_count,
            stored_size=metadata.stored_size,
        )

    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        """Return the highest leader epoch in a segment's log, from its key."""
        stem = metadata.custom_metadata.decode("ascii", "replace")
        epoch = self.keys.epoch_of(stem) if stem else NO_EPOCH
        return None if epoch == NO_EPOCH else epoch

    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        """Compare the leader epoch in the key with the highest one in the log.

        Raises:
            CorruptObjectError: They differ.
        """
        found = self._object(metadata)
        if found.key.epoch != epoch:
            msg = (
                f"{found.name}: its key has leader epoch {found.key.epoch}, the "
                f"highest in its log is {epoch}"
            )
            raise CorruptObjectError(msg)

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes of each segment's object, from its key: one listing."""
        keys = (
            self.keys.parse_stem(one.custom_metadata.decode())
            for one in self.survey(partition)
            if isinstance(one, SegmentMetadata)
        )
        return {(key.start_offset, key.id): key.size for key in keys if key is not None}

    def is_compacted(self, partition: TopicIdPartition) -> bool:
        """Return True: the key gives the object's size, so holes are the cleaner's."""
        del partition
        return True

    def name_of(self, metadata: SegmentMetadata) -> str:
        """Return the object's URL, if it is known without a request."""
        stems = metadata.custom_metadata.decode("ascii", "replace")
        known = stems or next(iter(self._known.stems(metadata)), "")
        if not known:
            return super().name_of(metadata)
        return f"{self.store.url}/{self.keys.object_key(metadata.partition, known)}"

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield the whole log in order, checked against its manifest at the end.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log is not what was stored.
        """
        yield from self._object(metadata).stream()

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment in one put, whole or not at all.

        A segment that this storage has copied, or listed row by row, under the same
        offsets and id, and that still exists, is not put again; what
        ``list_segments_lazily`` lists in columns is not recorded. A crash leaves
        nothing behind.

        Args:
            metadata: The segment's partition, id, first and last offset; the rest is
                read from the log.
            data: The log and its indexes.

        Returns:
            The last part of the object's key without its suffix: 126 bytes.

        Raises:
            InvalidArgumentError: ``metadata`` has no end offset, or contains no offset.
            NotFoundError: The log's file does not exist.
            CorruptBatchError: A batch is malformed or outside the segment.
            CorruptIndexError: An index is malformed or inconsistent with the log, or
                the log has an aborted transaction and the transaction index is missing.
            UnsupportedFormatError: A batch is of an unsupported version.
            AlreadyExistsError: The disk is case-insensitive and has a topic whose name
                differs only in case.
        """
        with open_log(data.log, str(metadata)) as log:
            return self.copy_open_log(metadata, log, data.indexes)

    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Store a segment in one put, and return its indexes and manifest."""
        stored = self._stem_of_copy(metadata)
        if stored:
            return stored, None
        with open_log(data.log, str(metadata)) as log:
            key, tail = self._writer.put(metadata, log, data.indexes)
        stem = self.keys.stem(key).encode()
        copied = replace(metadata, custom_metadata=stem)
        found = parse_tail(tail, key.log_length, key.flags, name=self.name_of(copied))
        return stem, SegmentIndexes(found.indexes, bytes(found.manifest_bytes))

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment in one put, from a log that is read in place."""
        stored = self._stem_of_copy(metadata)
        if stored:
            return stored
        key, _ = self._writer.put(metadata, log, indexes)
        return self.keys.stem(key).encode()

    def _stem_of_copy(self, metadata: SegmentMetadata) -> bytes:
        """Return the stem of a segment that is known and exists; empty otherwise."""
        for stem in self._known.stems(metadata):
            if self._is_there(self.keys.object_key(metadata.partition, stem)):
                return stem.encode()
        self._known.forget(metadata)  # another process has deleted it
        return b""

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Overwrite the damaged object, then delete other objects of the segment.

        Readers see either the old or the new object at any time, also after a crash.
        """
        partition = metadata.partition
        key, _ = self._writer.put(metadata, log, indexes)
        stem = self.keys.stem(key)
        new = self.keys.object_key(partition, stem)
        found = self._listing.objects_of(partition, key)
        self.store.delete([other for other in found if other != new])
        self._known.forget(metadata)
        self._known.add(partition, key, stem)
        self._known.add_verified(partition, stem)
        return stem.encode()

    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment unless another one was appended at its start offset.

        Afterwards the segment exists whole or not at all. If a writer dies in between,
        the next writer that appends completes what it left. Appending the same segment
        again continues where the first attempt ended.

        Raises:
            AlreadyExistsError: Another writer was first; nothing was stored.
            StorageUnavailableError: ``cancel_copying`` removed the segment while it was
                appended, and nothing was stored. Or the store failed.
            CorruptBatchError: A batch is malformed or outside the segment.
        """
        with open_log(data.log, str(metadata)) as log:
            key = self._writer.append(metadata, log, data.indexes)
        return self.keys.stem(key).encode()

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete every object of a segment; succeed if there is none.

        It costs two listings besides the deletion: another process may have stored the
        segment with another compression, and so under another key; and an append that
        died may have left a staged object from which the next append would create the
        segment again.
        """
        try:
            found = self._object(metadata)
        except NotFoundError:
            return
        others = self._listing.objects_of(metadata.partition, found.key)
        self._claims.remove_staged(found.stem)
        self.store.delete([found.path, *others])
        self._known.forget(replace(metadata, end_offset=found.key.end_offset))

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield the objects that appends have staged; a copy leaves nothing."""
        return self._claims.staged(partition)

    def leftover_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the listed partitions, and those that only have staged objects."""
        staged = self._claims.staged_partitions()
        found = {one for one in staged if topic in {None, one.topic}}
        return sorted(found.union(self.list_partitions(topic)))

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete every segment, damaged ones too.

        The claims of its offsets stay, so that a writer that is still appending cannot
        claim one of them again.
        """
        prefix = self.keys.partition_prefix(partition)
        found = (entry.key for entry in self.store.list(prefix))
        segments = [key for key in found if self.keys.is_segment_key(key)]
        # First the staged objects from which a listed segment could be created again.
        self.cancel_copying(partition)
        self.store.delete(segments)

    def _object(self, metadata: SegmentMetadata) -> ObjectReader:
        """Return a segment's object; a listed or copied segment needs no request."""
        partition = metadata.partition
        stem = metadata.custom_metadata.decode("ascii", "replace")
        if not stem:
            known = self._known.stems(metadata) or self._listing.stems_of(metadata)
            if not known:
                msg = f"not found: {metadata} in {self.store.url}"
                raise NotFoundError(msg)
            stem = known[0]
        key = self.keys.parse_stem(stem)
        if key is None or key.id != metadata.id:
            msg = f"{metadata}: its custom metadata is not of this layout"
            raise InvalidArgumentError(msg)
        path = self.keys.object_key(partition, stem)
        return ObjectReader(self.store, partition, key, stem, path, self._known)

    def _is_there(self, path: str) -> bool:
        try:
            self.store.head(path)
        except NotFoundError:
            return False
        return True
