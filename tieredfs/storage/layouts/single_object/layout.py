"""``single-object``: the native layout, one immutable object a segment.

A copy is one atomic put, so a segment is stored whole or not at all. The key contains
all that a planner needs. All indexes are in the tail, which one range read fetches. The
log may be stored in chunks, compressed with zstd. Source: ``formats.md`` of the
project.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from io import BytesIO

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import (
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    TieredFSError,
)
from tieredfs.format.segment.key import (
    OWN_FOLDER,
    SegmentFlag,
    SegmentKey,
    partition_prefix,
)
from tieredfs.format.segment.tail import Manifest, Tail, parse_manifest, parse_tail
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage.contract import Capability, Leftover, RemoteStorageManager
from tieredfs.storage.layouts.single_object.case_check import CaseCheck
from tieredfs.storage.layouts.single_object.known_objects import KnownObjects
from tieredfs.storage.layouts.single_object.listing import SegmentListing
from tieredfs.storage.layouts.single_object.offset_claim import (
    claim_offset,
    find_staged,
    remove_staged,
)
from tieredfs.storage.layouts.single_object.segment_object import (
    check_facts,
    epochs_of,
    is_segment_key,
    object_key,
    write_segment,
)
from tieredfs.storage.layouts.single_object.stored_log import (
    Compression,
    read_chunks,
    stream_stored,
)
from tieredfs.storage.segment_log.source import LogContent, LogSource, open_log
from tieredfs.storage.segment_log.spool import is_put_in_place, open_spool

__all__ = ["SingleObject"]


class SingleObject(RemoteStorageManager):
    """Keep each segment, its indexes and its manifest in one object."""

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
        return SegmentListing(self.store, self._known)

    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        """Return the share of keys that are segments or of this layout's own folder."""
        mine = sum(key.startswith(OWN_FOLDER) or is_segment_key(key) for key in keys)
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
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        """Yield every segment, or its error, in the order of their end offsets.

        If several objects hold one segment, the first is used.

        Raises:
            NotFoundError: There is no such partition.
        """
        return (one for _, one in self._listing.survey(partition, min_offset))

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
        path, key = self._find(metadata)
        partition = metadata.partition
        name = f"{self.store.url}/{path}"
        if not key.flags & SegmentFlag.TRANSFORMED:
            stop = key.log_length if end is None else end
            _check_range(start, stop, key.log_length, name)
            if self._known.is_verified(partition, key.stem):
                return self.store.get_range(path, start, stop)
            if not layout and stop == key.log_length:
                found = self.store.get_range(path, start, key.size)
                self._manifest(partition, key, found[stop - start :])
                return found[: stop - start]
            self._fetch_manifest(metadata, layout)
            return self.store.get_range(path, start, stop)
        log = self._fetch_manifest(metadata, layout).log
        stop = log.original_length if end is None else end
        _check_range(start, stop, log.original_length, name)
        fetch = partial(self.store.get_range, path)
        return read_chunks(fetch, log, start, stop, name=name)[: stop - start]

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a range of the log, and the rest of its last chunk."""
        path, key = self._find(metadata)
        if not key.flags & SegmentFlag.TRANSFORMED:
            return self.fetch_log_segment(metadata, start, end, layout=layout)
        log = self._fetch_manifest(metadata, layout).log
        name = f"{self.store.url}/{path}"
        _check_range(start, end, log.original_length, name)
        fetch = partial(self.store.get_range, path)
        return read_chunks(fetch, log, start, end, name=name)

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
        tail = self._tail(metadata)
        return SegmentIndexes(tail.indexes, bytes(tail.manifest_bytes))

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Read the epochs, record count and size of a chunked log from the tail."""
        known = (metadata.leader_epochs, metadata.size, metadata.record_count)
        if None not in known:
            return metadata
        if indexes is not None and indexes.layout:
            manifest = self._fetch_manifest(metadata, indexes.layout)
        else:
            manifest = self._tail(metadata).manifest
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
        )

    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        """Return the highest leader epoch in a segment's log, from its key."""
        stem = metadata.custom_metadata.decode("ascii", "replace")
        epoch = SegmentKey.epoch_of(stem) if stem else NO_EPOCH
        return None if epoch == NO_EPOCH else epoch

    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        """Compare the leader epoch in the key with the highest one in the log.

        Raises:
            CorruptObjectError: They differ.
        """
        path, key = self._find(metadata)
        if key.epoch != epoch:
            msg = (
                f"{self.store.url}/{path}: its key has leader epoch {key.epoch}, the "
                f"highest in its log is {epoch}"
            )
            raise CorruptObjectError(msg)

    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes of each segment's object, from its key: one listing."""
        keys = (
            SegmentKey.parse(one.custom_metadata.decode())
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
        return f"{self.store.url}/{object_key(metadata.partition, known)}"

    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        """Yield the whole log in order, checked against its manifest at the end.

        Raises:
            NotFoundError: The segment is gone.
            CorruptObjectError: The log is not what was stored.
        """
        path, _ = self._find(metadata)
        manifest = self._tail(metadata).manifest
        name = f"{self.store.url}/{path}"
        yield from stream_stored(
            lambda start, end: self.store.get_range(path, start, end),
            manifest.log,
            name=name,
        )

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment in one put, whole or not at all.

        A segment that this storage has listed or copied under the same offsets and id,
        and that still exists, is not put again. A crash leaves nothing behind.

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

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment in one put, from a log that is read in place."""
        partition = metadata.partition
        for stem in self._known.stems(metadata):
            if self._is_there(object_key(partition, stem)):
                return stem.encode()
        self._known.forget(metadata)  # another process has deleted it
        return self._copied(metadata, log, indexes).stem.encode()

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
        key = self._copied(metadata, log, indexes)
        new = object_key(partition, key.stem)
        found = self._listing.objects_of(partition, key)
        self.store.delete([other for other in found if other != new])
        self._known.forget(metadata)
        self._known.add(partition, key)
        self._known.add_verified(partition, key.stem)
        return key.stem.encode()

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
        partition = metadata.partition
        whole = BytesIO()
        with (
            self._case.writing(self.store, partition.topic),
            open_log(data.log, str(metadata)) as source,
        ):
            key, tail = write_segment(
                metadata, source, data.indexes, whole.write, self.compression
            )
            whole.write(tail)
            claim_offset(self.store, partition, key, whole.getvalue())
        self._known.add(partition, key)
        return key.stem.encode()

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete every object of a segment; succeed if there is none.

        It costs two listings besides the deletion: another process may have stored the
        segment with another compression, and so under another key; and an append that
        died may have left a staged object from which the next append would create the
        segment again.
        """
        try:
            path, key = self._find(metadata)
        except NotFoundError:
            return
        others = self._listing.objects_of(metadata.partition, key)
        remove_staged(self.store, key.stem)
        self.store.delete([path, *others])
        self._known.forget(replace(metadata, end_offset=key.end_offset))

    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        """Yield the objects that appends have staged; a copy leaves nothing."""
        return find_staged(self.store, partition)

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete every segment, damaged ones too.

        The claims of its offsets stay, so that a writer that is still appending cannot
        claim one of them again.
        """
        prefix = partition_prefix(partition)
        found = (entry.key for entry in self.store.list(prefix))
        segments = [key for key in found if is_segment_key(key)]
        # First the staged objects from which a listed segment could be created again.
        self.cancel_copying(partition)
        self.store.delete(segments)

    def _copied(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> SegmentKey:
        """Store the object of a segment, and remember it."""
        partition = metadata.partition
        with self._case.writing(self.store, partition.topic):
            key = self._put(metadata, log, indexes)
        self._known.add(partition, key)
        self._known.add_verified(partition, key.stem)
        return key

    def _put(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> SegmentKey:
        """Assemble the object of a segment, and store it."""
        partition = metadata.partition
        if is_put_in_place(log) and self.compression is None:
            key, tail = write_segment(metadata, log, indexes, lambda _: None, None)
            content = LogContent(log, tail)
            self.store.put_file(
                object_key(partition, key.stem), content, overwrite=True
            )
            return key
        with open_spool(log.size) as spool:
            key, tail = write_segment(
                metadata, log, indexes, spool.file.write, self.compression
            )
            spool.file.write(tail)
            spool.put(self.store, object_key(partition, key.stem))
        return key

    def _tail(self, metadata: SegmentMetadata) -> Tail:
        path, key = self._find(metadata)
        name = f"{self.store.url}/{path}"
        data = self.store.get_range(path, key.log_length, key.size)
        tail = parse_tail(data, key.log_length, key.flags, name=name)
        self._check(tail.manifest, metadata.partition, key)
        return tail

    def _fetch_manifest(self, metadata: SegmentMetadata, layout: bytes) -> Manifest:
        """Return the manifest of an object, checked against its key.

        A cached manifest may be that of an earlier object: of the same segment, which
        was deleted and copied again with another compression.
        """
        path, key = self._find(metadata)
        if layout:
            name = f"{self.store.url}/{path}"
            manifest = Manifest.parse(layout, name=f"{name}: manifest")
            facts, log = manifest.segment, manifest.log
            chunked = bool(key.flags & SegmentFlag.TRANSFORMED)
            is_other_form = (log.length, log.chunks is not None) != (
                key.log_length,
                chunked,
            )
            if facts.id != key.id or not is_other_form:
                return self._check(manifest, metadata.partition, key)
        tail = self.store.get_range(path, key.log_length, key.size)
        return self._manifest(metadata.partition, key, tail)

    def _manifest(
        self, partition: TopicIdPartition, key: SegmentKey, tail: memoryview
    ) -> Manifest:
        name = f"{self.store.url}/{object_key(partition, key.stem)}"
        manifest = parse_manifest(tail, key.log_length, key.flags, name=name)
        return self._check(manifest, partition, key)

    def _check(
        self, manifest: Manifest, partition: TopicIdPartition, key: SegmentKey
    ) -> Manifest:
        """Return the manifest if it matches the object's key, and remember that."""
        name = f"{self.store.url}/{object_key(partition, key.stem)}"
        check_facts(manifest, partition, key, name)
        self._known.add_verified(partition, key.stem)
        return manifest

    def _find(self, metadata: SegmentMetadata) -> tuple[str, SegmentKey]:
        """Return a segment's key; a listed or copied segment needs no request."""
        stem = metadata.custom_metadata.decode("ascii", "replace")
        if not stem:
            known = self._known.stems(metadata) or self._listing.stems_of(metadata)
            if not known:
                msg = f"not found: {metadata} in {self.store.url}"
                raise NotFoundError(msg)
            stem = known[0]
        key = SegmentKey.parse(stem)
        if key is None or key.id != metadata.id:
            msg = f"{metadata}: its custom metadata is not of this layout"
            raise InvalidArgumentError(msg)
        return object_key(metadata.partition, stem), key

    def _is_there(self, path: str) -> bool:
        try:
            self.store.head(path)
        except NotFoundError:
            return False
        return True


def _check_range(start: int, end: int, size: int, name: str) -> None:
    if not 0 <= start <= end:
        msg = f"{name}: not a range of its log: [{start}, {end})"
        raise InvalidArgumentError(msg)
    if end > size:
        msg = f"{name}: its log has {size} bytes, asked for are [{start}, {end})"
        raise CorruptObjectError(msg)
