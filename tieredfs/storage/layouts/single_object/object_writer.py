"""Write the objects of segments: by one put, or where the log ends."""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

from tieredfs.format.segment.key import SegmentKey
from tieredfs.format.segment.key_scheme import KeyScheme
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.objects import ObjectStore
from tieredfs.storage.layouts.single_object.case_check import CaseCheck
from tieredfs.storage.layouts.single_object.known_objects import KnownObjects
from tieredfs.storage.layouts.single_object.offset_claims import OffsetClaims
from tieredfs.storage.layouts.single_object.segment_object import write_segment
from tieredfs.storage.layouts.single_object.stored_log import Compression
from tieredfs.storage.segment_log.source import LogContent, LogSource
from tieredfs.storage.segment_log.spool import is_put_in_place, open_spool

__all__ = ["ObjectWriter"]


@dataclass(frozen=True, slots=True)
class ObjectWriter:
    """Assemble objects from logs and indexes, and store them.

    Attributes:
        store: Where they are stored.
        keys: How they are named.
        compression: How the log is stored.
        known: Records every object that is written.
        case: Rejects a topic that the disk confuses with another one.
    """

    store: ObjectStore
    keys: KeyScheme
    compression: Compression | None
    known: KnownObjects
    case: CaseCheck

    def put(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> tuple[SegmentKey, bytes]:
        """Store a segment in one put, whole or not at all.

        Args:
            metadata: The segment's partition, id, first and last offset.
            log: Its log.
            indexes: The bytes of each index that exists.

        Returns:
            The fields of the object's key, and the object's tail.

        Raises:
            InvalidArgumentError: ``metadata`` has no end offset, or contains no offset.
            CorruptBatchError: A batch is malformed or outside the segment.
            CorruptIndexError: An index is malformed or inconsistent with the log.
            AlreadyExistsError: The disk has a topic whose name differs only in case.
        """
        topic = self.keys.topic_prefix(metadata.partition.topic)
        with self.case.writing(self.store, topic):
            key, tail = self._put(metadata, log, indexes)
        self._record(metadata, key)
        self.known.add_verified(metadata.partition, self.keys.stem(key))
        return key, tail

    def append(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> SegmentKey:
        """Store a segment unless another one was appended at its start offset.

        What holds after an error or a crash is said in ``OffsetClaims.append``.

        Args:
            metadata: The segment's partition, id, first and last offset.
            log: Its log.
            indexes: The bytes of each index that exists.

        Returns:
            The fields of the object's key.

        Raises:
            AlreadyExistsError: Another writer was first; nothing was stored. Or as in
                ``put``.
            StorageUnavailableError: As in ``OffsetClaims.append``.
            CorruptBatchError: As in ``put``.
            CorruptIndexError: As in ``put``.
        """
        partition = metadata.partition
        whole = BytesIO()
        with self.case.writing(self.store, self.keys.topic_prefix(partition.topic)):
            key, tail = write_segment(
                metadata, log, indexes, whole.write, self.compression
            )
            whole.write(tail)
            claims = OffsetClaims(self.store, self.keys)
            claims.append(partition, key, whole.getvalue())
        self._record(metadata, key)
        return key

    def _put(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> tuple[SegmentKey, bytes]:
        if is_put_in_place(log) and self.compression is None:
            key, tail = write_segment(metadata, log, indexes, lambda _: None, None)
            content = LogContent(log, tail)
            self.store.put_file(self._path(metadata, key), content, overwrite=True)
            return key, tail
        with open_spool(log.size) as spool:
            key, tail = write_segment(
                metadata, log, indexes, spool.file.write, self.compression
            )
            spool.file.write(tail)
            spool.put(self.store, self._path(metadata, key))
        return key, tail

    def _path(self, metadata: SegmentMetadata, key: SegmentKey) -> str:
        return self.keys.object_key(metadata.partition, self.keys.stem(key))

    def _record(self, metadata: SegmentMetadata, key: SegmentKey) -> None:
        self.known.add(metadata.partition, key, self.keys.stem(key))
