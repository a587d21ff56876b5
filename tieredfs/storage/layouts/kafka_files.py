"""Shared code of Kafka's two layouts: a segment is a log file with index files."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, assert_never

import numpy as np

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    CorruptObjectError,
)
from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.batch.reader import claimed_size
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.integers import MAX_INT32, MAX_INT64
from tieredfs.model import ByteRange, IndexType, SegmentIndexes, SegmentMetadata
from tieredfs.objects import ObjectStore
from tieredfs.storage.changed_segment import changed_error
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.stored_batches import fetch_each_batch

__all__ = [
    "CLEANER_CHECKPOINT",
    "LOG_START_CHECKPOINT",
    "LOG_SUFFIX",
    "SUFFIXES",
    "broker_file",
    "describe_segment",
    "fetch_log",
    "is_offset",
]

LOG_SUFFIX: Final = "log"

CLEANER_CHECKPOINT: Final = "cleaner-offset-checkpoint"
"""File of a log directory in which the broker notes what its cleaner has cleaned."""

LOG_START_CHECKPOINT: Final = "log-start-offset-checkpoint"
"""File of a log directory in which the broker notes where its logs begin."""

SUFFIXES: Final = {
    IndexType.OFFSET: "index",
    IndexType.TIMESTAMP: "timeindex",
    IndexType.PRODUCER_SNAPSHOT: "snapshot",
    IndexType.LEADER_EPOCH: "leader_epoch_checkpoint",
    IndexType.TRANSACTION: "txnindex",
}

_DESCRIBING = (
    IndexType.OFFSET,
    IndexType.TIMESTAMP,
    IndexType.PRODUCER_SNAPSHOT,
    IndexType.LEADER_EPOCH,
)

_SIZE_AT = 12  # end of a batch's length field


def broker_file(segment: SegmentMetadata, kind: IndexType) -> str | None:
    """Return the name of an index's file in a broker's log directory.

    Returns:
        The name; None if the segment has no such file. The leader epochs have one for
        the whole partition, and the producer snapshot has one once the segment's end is
        known.
    """
    match kind:
        case IndexType.OFFSET | IndexType.TIMESTAMP | IndexType.TRANSACTION:
            offset = segment.start_offset
        case IndexType.PRODUCER_SNAPSHOT:
            if segment.end_offset is None:
                return None
            offset = segment.end_offset + 1  # before which it was taken
        case IndexType.LEADER_EPOCH:
            return None
        case _:
            assert_never(kind)
    return f"{offset:020d}.{SUFFIXES[kind]}"


def describe_segment(
    storage: RemoteStorageManager,
    metadata: SegmentMetadata,
    indexes: SegmentIndexes | None = None,
    *,
    active: bool = False,
    compacted: bool = False,
) -> SegmentMetadata:
    """Return a segment with its end, largest timestamp and epochs.

    The indexes give the position to read from; the values come from the log from there
    on. So an index that was cut off costs a longer read and never gives a wrong result,
    and an index that is inconsistent with the log is an error.

    Args:
        storage: Where the segment is.
        metadata: As it was listed.
        indexes: Its indexes; None to fetch them.
        active: Whether a broker may be writing it: then the log may end in part of a
            batch, which the size excludes.
        compacted: Whether offsets may be missing from the log, because a cleaner ran
            here or where the log was replicated from. If False, missing offsets are
            accepted only if the log has holes elsewhere.

    Raises:
        CorruptIndexError: An index is malformed or inconsistent with the log.
        CorruptBatchError: A batch at the end of the log is malformed or out of place.
        StorageUnavailableError: The broker has replaced or truncated the log since it
            was listed.
    """
    try:
        return _described(
            storage, metadata, indexes, active=active, compacted=compacted
        )
    except CorruptDataError as error:
        if storage.is_current(metadata):
            raise
        raise changed_error(storage, metadata) from error


def _described(
    storage: RemoteStorageManager,
    metadata: SegmentMetadata,
    indexes: SegmentIndexes | None,
    *,
    active: bool,
    compacted: bool,
) -> SegmentMetadata:
    size = metadata.size or 0
    name = storage.name_of(metadata)
    if indexes is None:
        indexes = storage.fetch_indexes(metadata, _DESCRIBING)
    facts = _Facts(metadata, indexes, size, name, compacted=compacted)
    headers = _headers(storage, metadata, facts.position, active=active)
    if active and facts.is_ahead_of(headers):
        # A crash lost the end of the log, so index entries for it are ignored.
        headers = _headers(storage, metadata, 0, active=active)
        end = headers[-1].end if headers else 0
        torn = storage.fetch_log_segment(metadata, end, min(end + _SIZE_AT, size))
        if any(torn):
            facts.check_torn(end, torn)
        facts.forget_beyond(headers)
    try:
        facts.check(headers)
    except CorruptDataError:
        if compacted or not _has_holes(
            _headers(storage, metadata, 0, active=active), metadata.start_offset
        ):
            raise
        facts.compacted = True
        facts.check(headers)
    last = headers[-1] if headers else None
    end_offset = last.last_offset if last else metadata.start_offset - 1
    if end_offset - metadata.start_offset > MAX_INT32:
        msg = f"{name}: end offset {end_offset} is too large for a segment"
        raise CorruptBatchError(msg)
    if metadata.end_offset is not None:
        if end_offset > metadata.end_offset:
            msg = f"{name}: the log extends to offset {end_offset}"
            raise CorruptBatchError(msg)
        end_offset = metadata.end_offset
    if end_offset >= MAX_INT64:
        msg = f"{name}: end offset {end_offset} is too large for a log"
        raise CorruptBatchError(msg)
    return replace(
        metadata,
        end_offset=end_offset,
        max_timestamp_ms=max((h.max_timestamp for h in headers), default=-1),
        leader_epochs=tuple(
            entry for entry in facts.epochs.entries if entry.start_offset <= end_offset
        ),
        size=(last.end if last else 0) if active else size,
    )


def fetch_log(
    store: ObjectStore,
    key: str,
    metadata: SegmentMetadata,
    start: int,
    end: int | None,
) -> memoryview:
    """Return the bytes ``[start, end)`` of a log file.

    Args:
        store: Where it is.
        key: Its key.
        metadata: The segment. If its size is not known and ``end`` is None, the whole
            file is fetched.
        start: First byte.
        end: Byte after the last; None for the end of the log.

    Raises:
        NotFoundError: There is no such file.
        CorruptObjectError: It ends before the range does.
        InvalidArgumentError: ``start`` is negative or greater than ``end``.
    """
    stop = metadata.size if end is None else end
    if stop is not None:
        return store.get_range(key, start, stop)
    whole = store.get(key)
    span = ByteRange(start, max(start, len(whole)))  # raises for a negative start
    if span.end > len(whole):
        msg = f"{store.url}/{key}: byte {start} is past its end at {len(whole)}"
        raise CorruptObjectError(msg)
    return whole[start:]


def is_offset(number: int) -> bool:
    """Return whether a segment can begin at ``number``, with a record after it."""
    return 0 <= number < MAX_INT64


def _headers(
    storage: RemoteStorageManager,
    metadata: SegmentMetadata,
    start: int,
    *,
    active: bool,
) -> list[BatchHeader]:
    found = fetch_each_batch(storage, metadata, start=start, torn_tail=active)
    return [batch.header for batch in found]


def _has_holes(headers: list[BatchHeader], start_offset: int) -> bool:
    """Return whether offsets are missing from a log, other than before its last batch.

    There a hole may be damage: no checksum covers the offset of the last batch.
    """
    lasts = [start_offset - 1, *(header.last_offset for header in headers[:-1])]
    return any(
        header.record_count <= header.last_offset - header.base_offset
        or (header is not headers[-1] and header.base_offset > last + 1)
        for last, header in zip(lasts, headers, strict=False)
    )


class _Facts:
    """The contents of a segment's indexes, to be compared with its log."""

    def __init__(
        self,
        metadata: SegmentMetadata,
        indexes: SegmentIndexes,
        size: int,
        name: str,
        *,
        compacted: bool,
    ) -> None:
        self.base = base = metadata.start_offset
        self.name = name
        self.compacted = compacted
        self.offsets = OffsetIndex.parse(
            indexes.get(IndexType.OFFSET, b""),
            base,
            log_size=size,
            name=f"{self.name}.{SUFFIXES[IndexType.OFFSET]}",
        )
        self.times = TimeIndex.parse(
            indexes.get(IndexType.TIMESTAMP, b""),
            base,
            name=f"{self.name}.{SUFFIXES[IndexType.TIMESTAMP]}",
        )
        self.epochs = LeaderEpochs()
        self.has_epochs = IndexType.LEADER_EPOCH in indexes
        if self.has_epochs:
            self.epochs = parse_leader_epochs(
                indexes[IndexType.LEADER_EPOCH],
                name=f"{self.name}.{SUFFIXES[IndexType.LEADER_EPOCH]}",
            )
        self.producers = ProducerSnapshot()
        if IndexType.PRODUCER_SNAPSHOT in indexes:
            self.producers = ProducerSnapshot.parse(
                indexes[IndexType.PRODUCER_SNAPSHOT],
                name=f"{self.name}.{SUFFIXES[IndexType.PRODUCER_SNAPSHOT]}",
            )
        # The log is read from here on, so every later batch is seen even if the indexes
        # lack it.
        self.position = min(
            self.offsets.lookup(MAX_INT64).position,
            self.offsets.lookup(self.times.lookup(MAX_INT64).offset).position,
        )

    def is_ahead_of(self, headers: list[BatchHeader]) -> bool:
        """Return whether the offset or the time index extends past the last batch."""
        if not headers:
            return bool(len(self.offsets) or len(self.times))
        last = headers[-1]
        return (
            self.offsets.lookup(MAX_INT64).position >= last.end
            or self.times.lookup(MAX_INT64).offset > last.last_offset
        )

    def forget_beyond(self, headers: list[BatchHeader]) -> None:
        """Cut the offset and the time index at the last batch of the whole log."""
        end, last = (headers[-1].end, headers[-1].last_offset) if headers else (0, -1)
        kept = int(np.searchsorted(self.offsets.positions, end))
        self.offsets = replace(
            self.offsets,
            offsets=self.offsets.offsets[:kept],
            positions=self.offsets.positions[:kept],
        )
        kept = int(np.searchsorted(self.times.offsets, last, side="right"))
        self.times = replace(
            self.times,
            timestamps=self.times.timestamps[:kept],
            offsets=self.times.offsets[:kept],
        )
        self.position = 0

    def check_torn(self, position: int, begins: memoryview) -> None:
        """Check that a batch that is not whole can be the last one.

        Args:
            position: Where it begins.
            begins: Its first bytes, up to its length field if there are so many.
        """
        try:
            size = claimed_size(begins, 0)
        except CorruptBatchError:  # its length was not written
            size = None
        behind = self.offsets.upper_bound(position + 1)
        if behind is not None and behind.position < position + (size or _SIZE_AT):
            msg = (
                f"{self.name}: batch at position {position}: it is not whole, and "
                f"the offset index has one inside it, at {behind.position}"
            )
            raise CorruptBatchError(msg)

    def check(self, headers: list[BatchHeader]) -> None:
        """Compare the end of the log with the indexes.

        Args:
            headers: The batches from ``position`` on.
        """
        for detail in self._contradictions(headers):
            msg = f"{self.name}: {detail}"
            raise CorruptIndexError(msg)
        if not self.compacted and headers and not self._confirms(headers[-1]):
            before = headers[-2].last_offset if headers[1:] else self.base - 1
            if headers[-1].base_offset != before + 1 and (
                headers[1:] or not self.position
            ):
                # No checksum covers a batch's offset, and no batch follows the last.
                msg = (
                    f"{self.name}: batch at position {headers[-1].position}: offset "
                    f"{headers[-1].base_offset} follows {before}"
                )
                raise CorruptBatchError(msg)

    def _confirms(self, last: BatchHeader) -> bool:
        """Return whether an index has the offset of the last batch."""
        return (
            self.offsets.lookup(MAX_INT64).offset == last.last_offset
            or self.times.lookup(MAX_INT64).offset == last.last_offset
            or any(p.last_offset == last.last_offset for p in self.producers.producers)
        )

    def _contradictions(self, headers: list[BatchHeader]) -> Iterator[str]:
        if headers and headers[0].base_offset < self.base:
            yield f"its log begins at offset {headers[0].base_offset}"
        yield from self._inconsistent_offsets(headers)
        yield from self._inconsistent_times(headers)
        yield from self._inconsistent_epochs(headers)
        yield from self._inconsistent_producers(headers)

    def _inconsistent_offsets(self, headers: list[BatchHeader]) -> Iterator[str]:
        positions = {header.position for header in headers}
        lasts = {header.last_offset for header in headers}
        for number in range(len(self.offsets)):
            entry = self.offsets.entry(-1 - number)
            if entry.position < self.position:
                break
            if entry.position not in positions or entry.offset not in lasts:
                yield f"no batch matches the offset index entry: {entry}"

    def _inconsistent_times(self, headers: list[BatchHeader]) -> Iterator[str]:
        if not len(self.times):
            return
        entry = self.times.entry(-1)
        stamps = {
            header.max_timestamp
            for header in headers
            if header.base_offset <= entry.offset <= header.last_offset
        }
        if stamps != {entry.timestamp}:
            yield f"no batch matches the time index entry: {entry}"

    def _inconsistent_epochs(self, headers: list[BatchHeader]) -> Iterator[str]:
        # It may begin after the segment's start, where the whole log does, but not at
        # its end.
        last = headers[-1] if self.has_epochs and headers else None
        if last and last.leader_epoch > self.epochs.epoch_at(last.last_offset):
            yield (
                f"its checkpoint does not have leader epoch {last.leader_epoch}: it "
                "may be older than the log"
            )
        for header in headers:
            if not self.epochs.accepts(header.leader_epoch, header.base_offset):
                yield (
                    f"the batch at offset {header.base_offset} has leader epoch "
                    f"{header.leader_epoch}, its checkpoint has "
                    f"{self.epochs.epoch_at(header.base_offset)}"
                )

    def _inconsistent_producers(self, headers: list[BatchHeader]) -> Iterator[str]:
        written: dict[int, tuple[int, int]] = {}
        for header in headers:
            epoch, _ = written.get(header.producer_id, (header.producer_epoch, -1))
            if not header.is_control and header.record_count:
                written[header.producer_id] = header.producer_epoch, header.last_offset
            elif epoch != header.producer_epoch:
                # The marker of a new epoch makes the broker forget the last offset.
                written[header.producer_id] = header.producer_epoch, -1
        for producer in self.producers.producers:
            said = (producer.producer_epoch, producer.last_offset)
            _, wrote = written.get(producer.producer_id, said)
            if wrote > producer.last_offset or (
                wrote < producer.last_offset and not self.compacted
            ):
                yield (
                    f"producer {producer.producer_id} wrote offset {wrote} last, its "
                    f"snapshot has {producer.last_offset}"
                )
