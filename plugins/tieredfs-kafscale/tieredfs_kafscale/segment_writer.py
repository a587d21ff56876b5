"""Write the objects of a segment."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from tieredfs import (
    IndexType,
    InvalidArgumentError,
    ObjectStore,
    SegmentMetadata,
    UnsupportedOperationError,
)
from tieredfs.storage import (
    LogContent,
    LogSource,
    crc32c,
    inspect_copy,
    is_put_in_place,
    log_in_memory,
    open_spool,
    read_log,
    timestamp_range,
)
from tieredfs_kafscale.custom_metadata import CustomMetadata
from tieredfs_kafscale.object_names import Suffix
from tieredfs_kafscale.prior_objects import PriorObjects
from tieredfs_kafscale.segment_content import SegmentContent
from tieredfs_kafscale.segment_file import SegmentFooter, SegmentHeader
from tieredfs_kafscale.segment_indexes import build_index
from tieredfs_kafscale.segment_placement import SegmentObjects, SegmentPlacement
from tieredfs_kafscale.time_sidecar import TimeSidecar

__all__ = ["SIDECARS", "SegmentWriter"]

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
        clock: Returns a time in seconds that only grows.
        sleep: Waits some seconds.
    """

    store: ObjectStore
    index_interval: int
    time_index: bool
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], object] = time.sleep

    def put(
        self,
        folder: str,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
        listed: Callable[[], int | None] | None,
    ) -> CustomMetadata:
        """Store a segment, once its log and its indexes are checked.

        Args:
            folder: The partition's folder.
            metadata: The segment's first and last offset.
            log: Its log.
            indexes: The bytes of each index that exists.
            listed: Returns the checksum of the segment that is listed at this offset,
                None for none: only what is not listed is replaced. None to replace any.

        Returns:
            Which log it is.

        Raises:
            AlreadyExistsError: Another segment is listed at this offset.
            InvalidArgumentError: ``metadata`` has no end offset.
            UnsupportedOperationError: The log is compacted, or has no batch.
            CorruptDataError: The log or an index is malformed.
        """
        if metadata.end_offset is None:
            raise InvalidArgumentError(f"{metadata}: the segment has no end offset")
        if is_put_in_place(log):
            found = self._measure(metadata, log, indexes)
            return self._put(folder, metadata, log, found, indexes, listed)
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
            return self._put(folder, metadata, steady, found, indexes, listed)

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
        index = build_index(log, self.index_interval)
        facts = inspection.facts
        return _Measured(
            # The time of the newest record: a copy that is made again has equal bytes.
            SegmentHeader(
                metadata.start_offset, facts.record_count, facts.max_timestamp_ms
            ),
            SegmentFooter(checksum, inspection.last_offset),
            index,
            inspection.rebuilt,
        )

    def _put(
        self,
        folder: str,
        metadata: SegmentMetadata,
        log: LogSource,
        found: _Measured,
        indexes: Mapping[IndexType, bytes],
        listed: Callable[[], int | None] | None,
    ) -> CustomMetadata:
        base, checksum = metadata.start_offset, found.footer.checksum
        beside = _beside(indexes, found.rebuilt)
        prior = PriorObjects(self.store, folder, base, self.clock, self.sleep)
        objects = SegmentObjects(
            f"{self.store.url}/{folder}segment-{base:020d}",
            SegmentContent(found.header.encode(), log, found.footer.encode()),
            checksum,
            found.index,
            self.index_interval,
            _times(log, metadata).encode() if self.time_index else None,
            beside,
        )
        placement = SegmentPlacement(prior, objects)
        if listed is None:
            placement.replace()
        else:
            placement.create(listed)
        return CustomMetadata(checksum, frozenset(beside))


def _beside(
    indexes: Mapping[IndexType, bytes], rebuilt: Mapping[IndexType, bytes]
) -> dict[Suffix, bytes]:
    """Return the indexes that a reader could not rebuild from the log."""
    found: dict[Suffix, bytes] = {}
    for kind, suffix in SIDECARS.items():
        given = bytes(indexes.get(kind, b""))
        is_rebuilt = kind is not IndexType.TRANSACTION and given == rebuilt[kind]
        if given and not is_rebuilt:
            found[suffix] = given
    return found


def _times(log: LogSource, metadata: SegmentMetadata) -> TimeSidecar:
    data = (batches.without(batches.is_control) for batches in read_log(log))
    smallest, largest = timestamp_range(chain.from_iterable(data))
    return TimeSidecar(
        smallest, largest, metadata.start_offset, metadata.end_offset or 0
    )
