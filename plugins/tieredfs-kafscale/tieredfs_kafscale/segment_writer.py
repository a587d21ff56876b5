"""Write the objects of a segment."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tieredfs import (
    IndexType,
    InvalidArgumentError,
    ObjectStore,
    SegmentMetadata,
    UnsupportedOperationError,
)
from tieredfs.format.checksum import crc32c
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.storage import (
    CopiedObject,
    LogContent,
    LogSource,
    copy_objects,
    inspect_copy,
)
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.storage.segment_log.spool import is_put_in_place, open_spool
from tieredfs.storage.segment_log.stream import read_log
from tieredfs_kafscale.custom_metadata import CustomMetadata
from tieredfs_kafscale.index_file import SparseIndexBuilder
from tieredfs_kafscale.object_names import Suffix, object_key, parse_name, sidecar_key
from tieredfs_kafscale.segment_content import SegmentContent
from tieredfs_kafscale.segment_file import HEADER_SIZE, SegmentFooter, SegmentHeader
from tieredfs_kafscale.time_sidecar import TimeSidecar

__all__ = ["SIDECARS", "SegmentWriter", "delete_objects"]

_MAGIC: Final = 2

SIDECARS: Final = {
    IndexType.TRANSACTION: Suffix.TRANSACTIONS,
    IndexType.PRODUCER_SNAPSHOT: Suffix.PRODUCERS,
    IndexType.LEADER_EPOCH: Suffix.EPOCHS,
}
"""The indexes that are stored beside a segment, if its log alone does not give them."""


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is written of a log besides its batches.

    Attributes:
        header: The bytes before it.
        footer: Its checksum and last offset.
        index: The sparse index.
        rebuilt: The indexes that a reader rebuilds from the log.
    """

    header: SegmentHeader
    footer: SegmentFooter
    index: bytes
    rebuilt: Mapping[IndexType, bytes]


@dataclass(frozen=True, slots=True)
class SegmentWriter:
    """Assemble the objects of segments, and store them.

    Attributes:
        store: Where they are stored.
        index_interval: Number of records between two entries of an index.
        time_index: Whether the times of a segment are stored, too.
    """

    store: ObjectStore
    index_interval: int
    time_index: bool

    def put(
        self,
        folder: str,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> CustomMetadata:
        """Store a segment.

        Args:
            folder: The partition's folder.
            metadata: The segment's first and last offset.
            log: Its log.
            indexes: The bytes of each index that exists.

        Returns:
            Which log it is.

        Raises:
            AlreadyExistsError: Another segment has this base offset.
            InvalidArgumentError: ``metadata`` has no end offset.
            UnsupportedOperationError: The log is compacted, or has no batch.
            CorruptDataError: The log or an index is malformed.
        """
        if metadata.end_offset is None:
            raise InvalidArgumentError(f"{metadata}: the segment has no end offset")
        if is_put_in_place(log):
            found = self._measure(metadata, log, indexes)
            return self._put(folder, metadata, log, found, indexes)
        with open_spool(log.size) as spool:
            for piece in log.pieces():
                spool.file.write(piece)
            content = spool.content()
            steady = (
                content.log
                if isinstance(content, LogContent)
                else log_in_memory(content, log.name)
            )
            found = self._measure(metadata, steady, indexes)
            return self._put(folder, metadata, steady, found, indexes)

    def replace(
        self,
        folder: str,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> CustomMetadata:
        """Store a segment in place of any other of its base offset.

        Its log goes first, so that readers see no half of either; a crash may leave
        neither. Arguments and errors are those of ``put``.
        """
        delete_objects(self.store, folder, metadata.start_offset)
        return self.put(folder, metadata, log, indexes)

    def _measure(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> _Measured:
        """Check a log and its indexes, and compute what is written with it."""
        checksum = 0

        def add(piece: memoryview) -> None:
            nonlocal checksum
            checksum = crc32c(piece, checksum)

        measured = replace(metadata, size=log.size)
        inspection = inspect_copy(log, add, measured, indexes)
        if inspection.is_compacted or not log.size:
            what = "is compacted" if log.size else "has no batch"
            raise UnsupportedOperationError(
                f"{metadata}: its log {what}, and KafScale stores only logs with every "
                "offset of their segment"
            )
        index = SparseIndexBuilder(self.index_interval)
        for batches in read_log(log):
            columns = ("base_offset", "position", "record_count", "magic")
            for base, position, count, magic in zip(
                *(batches[name].tolist() for name in columns), strict=True
            ):
                if magic != _MAGIC:
                    raise UnsupportedOperationError(
                        f"{metadata}: its log has batches of version {magic}, and "
                        f"KafScale stores only version {_MAGIC}"
                    )
                index.add(base, position + HEADER_SIZE, count)
        facts = inspection.facts
        return _Measured(
            # The time of the newest record: a copy that is made again has equal bytes.
            SegmentHeader(
                metadata.start_offset, facts.record_count, facts.max_timestamp_ms
            ),
            SegmentFooter(checksum, inspection.last_offset),
            index.encode(),
            inspection.rebuilt,
        )

    def _put(
        self,
        folder: str,
        metadata: SegmentMetadata,
        log: LogSource,
        found: _Measured,
        indexes: Mapping[IndexType, bytes],
    ) -> CustomMetadata:
        base, checksum = metadata.start_offset, found.footer.checksum
        beside = {
            suffix: bytes(indexes[kind])
            for kind, suffix in SIDECARS.items()
            if bytes(indexes.get(kind, b"")) not in {b"", found.rebuilt.get(kind, b"")}
            or (kind is IndexType.TRANSACTION and indexes.get(kind))
        }
        sidecars = [
            CopiedObject(sidecar_key(folder, base, checksum, suffix), data)
            for suffix, data in beside.items()
        ]
        content = SegmentContent(found.header.encode(), log, found.footer.encode())
        objects = [
            CopiedObject(
                object_key(folder, base, Suffix.LOG), content, overwrite=False
            ),
            CopiedObject(
                object_key(folder, base, Suffix.INDEX), found.index, overwrite=False
            ),
        ]
        if self.time_index:
            key = object_key(folder, base, Suffix.TIMES)
            times = time_sidecar(log, metadata)
            objects.append(CopiedObject(key, times.encode()))
        name = f"{self.store.url}/{folder}segment-{base:020d}"
        # No reader would miss one of these.
        copy_objects(self.store, name, sidecars)
        copy_objects(self.store, name, objects)
        return CustomMetadata(checksum, frozenset(beside))


def time_sidecar(log: LogSource, metadata: SegmentMetadata) -> TimeSidecar:
    """Return the smallest and largest timestamp of a log's records."""
    decoder = RecordDecoder("", 0, ("timestamp",))
    stamps = [
        pc.min_max(found["timestamp"].cast(pa.int64()))
        for batches in read_log(log)
        for found in decoder.decode([batches])
        if found.num_rows
    ]
    return TimeSidecar(
        min((one["min"].as_py() for one in stamps), default=-1),
        max((one["max"].as_py() for one in stamps), default=-1),
        metadata.start_offset,
        metadata.end_offset or 0,
    )


def delete_objects(store: ObjectStore, folder: str, base_offset: int) -> None:
    """Delete all objects of a base offset, the log first: then it is not listed."""
    store.delete([object_key(folder, base_offset, Suffix.LOG)])
    prefix = f"{folder}segment-{base_offset:020d}."
    others = (entry.key for entry in store.list(prefix))
    store.delete([key for key in others if parse_name(key[len(folder) :])])
