"""Write the objects of a segment."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

from tieredfs import (
    AlreadyExistsError,
    IndexType,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    StoreCapability,
    UnsupportedOperationError,
)
from tieredfs.storage import (
    CopiedObject,
    LogContent,
    LogSource,
    copy_objects,
    crc32c,
    inspect_copy,
    is_put_in_place,
    log_in_memory,
    open_spool,
    read_log,
    timestamp_range,
)
from tieredfs_kafscale.custom_metadata import CustomMetadata
from tieredfs_kafscale.index_file import SparseIndexBuilder
from tieredfs_kafscale.object_names import Suffix, object_key, parse_name, sidecar_key
from tieredfs_kafscale.segment_content import SegmentContent
from tieredfs_kafscale.segment_file import HEADER_SIZE, SegmentFooter, SegmentHeader
from tieredfs_kafscale.time_sidecar import TimeSidecar

__all__ = ["SIDECARS", "SegmentWriter", "delete_objects"]

_MAGIC: Final = 2

_ATTEMPTS: Final = 3
"""How often a segment is put where copies of others have left something."""

_LOOKS: Final = 20
"""How often it is looked whether such a copy ends, within the deadline of a request."""

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
        listed: Callable[[], int | None] | None,
    ) -> CustomMetadata:
        base, checksum = metadata.start_offset, found.footer.checksum
        beside = _beside(indexes, found.rebuilt)
        name = f"{self.store.url}/{folder}segment-{base:020d}"
        content = SegmentContent(found.header.encode(), log, found.footer.encode())
        own: dict[Suffix, bytes | SegmentContent] = {
            Suffix.LOG: content,
            Suffix.INDEX: found.index,
        }
        if self.time_index:
            own[Suffix.TIMES] = _times(log, metadata).encode()

        def copy(
            *,
            overwrite: bool,
            besides: frozenset[Suffix] = frozenset(),
            recheck: bool = True,
        ) -> CustomMetadata:
            # No reader would miss one of these.
            sidecars = [
                CopiedObject(
                    sidecar_key(folder, base, checksum, suffix), data, overwrite
                )
                for suffix, data in beside.items()
            ]
            copy_objects(self.store, name, sidecars, recheck=recheck)
            objects = [
                CopiedObject(object_key(folder, base, suffix), data, overwrite)
                for suffix, data in own.items()
                if suffix not in besides
            ]
            copy_objects(self.store, name, objects, recheck=recheck)
            return CustomMetadata(checksum, frozenset(beside))

        if listed is None:
            delete_objects(self.store, folder, base)
            return copy(overwrite=True)
        can_create = StoreCapability.EXCLUSIVE_CREATE in self.store.probe_capabilities()
        for attempt in range(_ATTEMPTS):
            if can_create:
                with suppress(AlreadyExistsError):
                    return copy(overwrite=False, recheck=attempt > 0)
            there = self._settled(folder, base, listed)
            if there == checksum:
                # The index may be that of another log, which a copy has left.
                return copy(overwrite=True, besides=frozenset({Suffix.LOG}))
            if there is not None:
                raise AlreadyExistsError(f"{name}: another segment begins there")
            # What a copy of another log has left here goes first.
            delete_objects(self.store, folder, base)
            if not can_create:
                return copy(overwrite=True)
        raise AlreadyExistsError(f"{name}: another process copies a segment there")

    def _settled(
        self, folder: str, base: int, listed: Callable[[], int | None]
    ) -> int | None:
        """Return what is listed at an offset, once no copy can be under way there.

        One half alone may be that of a copy whose other half is being put: it has the
        time that a request has.
        """
        deadline = self.store.policy.deadline
        begun = self.clock()
        while True:
            there = listed()
            halves = (
                object_key(folder, base, kind) for kind in (Suffix.LOG, Suffix.INDEX)
            )
            if there is not None or not any(map(self._exists, halves)):
                return there
            if self.clock() - begun >= deadline:
                return None
            self.sleep(deadline / _LOOKS)

    def _exists(self, key: str) -> bool:
        try:
            self.store.head(key)
        except NotFoundError:
            return False
        return True


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


def delete_objects(store: ObjectStore, folder: str, base_offset: int) -> None:
    """Delete all objects of a base offset, the log first: then it is not listed."""
    store.delete([object_key(folder, base_offset, Suffix.LOG)])
    prefix = f"{folder}segment-{base_offset:020d}."
    others = (entry.key for entry in store.list(prefix))
    store.delete([key for key in others if parse_name(key[len(folder) :])])
