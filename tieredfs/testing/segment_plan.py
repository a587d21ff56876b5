"""Segments that are planned first: which batches a log has, and what ends it.

A plan is small, is compared and printed by its values, and is turned into a log with
its indexes by this package's own encoders.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, Self

import pyarrow as pa

from tieredfs.epochs import LeaderEpochs
from tieredfs.format.batch.header import TimestampType
from tieredfs.format.compression.codec import Codec, CodecName
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.format.records.schema import HEADERS
from tieredfs.format.records.writer import BatchOptions, encode_batch
from tieredfs.integers import MAX_INT32
from tieredfs.model import (
    LogSegmentData,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage.segment_log.inspection import PriorState, inspect_segment
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.storage.segment_log.stream import read_batches
from tieredfs.testing.sample import Sample

__all__ = [
    "BatchKind",
    "BatchPlan",
    "PlannedRecord",
    "SegmentPlan",
    "build_segment",
]

_MARKER_KEY: Final = struct.Struct(">hh")
_MARKER_VALUE: Final = struct.Struct(">hi")
_VERSION: Final = 0


BatchKind = Literal["plain", "idempotent", "transactional", "commit", "abort"]
"""Who wrote a batch: a producer without an id; one with an id, outside of transactions;
one in a transaction, which the batch may begin; the coordinator, to end one."""

_OF_TRANSACTIONS: Final = frozenset({"transactional", "commit", "abort"})
_MARKERS: Final[Mapping[str, int]] = {"abort": 0, "commit": 1}


@dataclass(frozen=True, slots=True)
class PlannedRecord:
    """One record.

    Attributes:
        timestamp: Milliseconds since 1970 UTC; -1 for none.
        key: Its key.
        value: Its value; None for a tombstone.
        headers: Its headers.
        is_removed: Whether the log cleaner has removed it; its offset stays unused.
    """

    timestamp: int = 0
    key: bytes | None = None
    value: bytes | None = b""
    headers: tuple[tuple[str, bytes | None], ...] = ()
    is_removed: bool = False


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """One batch.

    Attributes:
        records: Its records, at least one, in the order of their offsets.
        kind: Who wrote it. A batch that ends a transaction has the timestamp of its
            first record, and nothing else of its records.
        producer: Number of the producer, if it has an id; those of transactions are
            others than those outside.
        new_epochs: How many leaders were elected before it was written.
        removed_before: Number of offsets before it whose batches the cleaner has
            removed.
        codec: Codec of its records.
        is_append_time: Whether the broker gave its records their timestamp.
    """

    records: tuple[PlannedRecord, ...] = (PlannedRecord(),)
    kind: BatchKind = "plain"
    producer: int = 0
    new_epochs: int = 0
    removed_before: int = 0
    codec: CodecName = "none"
    is_append_time: bool = False

    @property
    def is_marker(self) -> bool:
        """Whether it ends a transaction."""
        return self.kind in _MARKERS

    @property
    def producer_id(self) -> int:
        """The id of its producer; -1 for none."""
        if self.kind == "plain":
            return -1
        return 2 * self.producer + (self.kind in _OF_TRANSACTIONS)


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """One segment.

    Attributes:
        batches: Its batches, at least one.
        first_epoch: Leader epoch where the segment begins.
        earlier_epochs: Number of epochs before that which the checkpoint has.
        open_since: How many offsets before the segment each open transaction began, by
            the number of its producer.
        removed_after: Number of offsets at the end whose batches the cleaner has
            removed.
        interval_bytes: Minimum bytes of log between two entries of an index.
    """

    batches: tuple[BatchPlan, ...] = (BatchPlan(),)
    first_epoch: int = 0
    earlier_epochs: int = 0
    open_since: tuple[int, ...] = ()
    removed_after: int = 0
    interval_bytes: int = 0

    @property
    def offsets(self) -> int:
        """How many offsets it has, including those whose records were removed."""
        return self.removed_after + sum(
            batch.removed_before + (1 if batch.is_marker else len(batch.records))
            for batch in self.batches
        )

    @property
    def is_compacted(self) -> bool:
        """Whether the cleaner has removed any of it."""
        return bool(self.removed_after) or any(
            batch.removed_before
            or (not batch.is_marker and any(r.is_removed for r in batch.records))
            for batch in self.batches
        )


def build_segment(
    partition: TopicIdPartition,
    segment_id: SegmentId,
    start_offset: int,
    plan: SegmentPlan = SegmentPlan(),
) -> Sample:
    """Write the log of a planned segment, and the indexes that Kafka would have.

    Args:
        partition: Where it belongs.
        segment_id: Its id.
        start_offset: Its first offset.
        plan: What it holds.
    """
    end = start_offset + plan.offsets - 1
    log = b"".join(_Writer.at(start_offset, plan).batches())
    metadata = SegmentMetadata(partition, segment_id, start_offset, end)
    prior = PriorState(
        ProducerSnapshot(tuple(_open_before(start_offset, plan))),
        LeaderEpochs.of(_epochs_before(start_offset, plan)),
    )
    inspection = inspect_segment(
        read_batches(log_in_memory(log, str(metadata))),
        SegmentMetadata(partition, segment_id, start_offset, end, size=len(log)),
        {},
        prior,
        interval_bytes=plan.interval_bytes,
    )
    described = SegmentMetadata(
        partition,
        segment_id,
        start_offset,
        end,
        inspection.facts.max_timestamp_ms,
        prior.epochs.extended(inspection.facts.epochs).entries,
        len(log),
    )
    indexes = dict(inspection.rebuilt)
    return Sample(metadata, LogSegmentData(log, indexes), described)


def _epochs_before(start_offset: int, plan: SegmentPlan) -> list[tuple[int, int]]:
    """Return the checkpoint's entries before the segment, one offset apart."""
    count = min(plan.earlier_epochs, plan.first_epoch, start_offset)
    return [
        (plan.first_epoch - back, start_offset - back) for back in range(count, 0, -1)
    ]


def _open_before(start_offset: int, plan: SegmentPlan) -> Iterator[ProducerState]:
    """Yield the producers whose transactions were open before the segment."""
    for number, since in enumerate(plan.open_since):
        first = start_offset - since
        if 0 <= first < start_offset:
            producer_id = BatchPlan((), "transactional", number).producer_id
            yield ProducerState(producer_id, 0, 0, first, 0, -1, -1, first)


@dataclass(slots=True)
class _Writer:
    """Encode the batches of a plan, one after the other.

    Attributes:
        plan: What is encoded.
        offset: The next offset.
        epoch: The leader epoch.
        sequences: The next sequence number of each producer.
    """

    plan: SegmentPlan
    offset: int
    epoch: int
    sequences: dict[int, int]

    @classmethod
    def at(cls, offset: int, plan: SegmentPlan) -> Self:
        """Begin with a segment's first offset."""
        return cls(plan, offset, plan.first_epoch, {})

    def batches(self) -> Iterator[bytes]:
        """Yield the bytes of each batch."""
        for batch in self.plan.batches:
            self.epoch = min(self.epoch + batch.new_epochs, MAX_INT32)
            self.offset += batch.removed_before
            yield self._marker(batch) if batch.is_marker else self._data(batch)

    def _marker(self, batch: BatchPlan) -> bytes:
        key = _MARKER_KEY.pack(_VERSION, _MARKERS[batch.kind])
        stamp = batch.records[0].timestamp
        record = PlannedRecord(stamp, key, _MARKER_VALUE.pack(_VERSION, 0))
        options = BatchOptions(
            leader_epoch=self.epoch,
            producer_id=batch.producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        offset, self.offset = self.offset, self.offset + 1
        return encode_batch(_rows([(offset, record)]), options)

    def _data(self, batch: BatchPlan) -> bytes:
        first, count = self.offset, len(batch.records)
        self.offset += count
        producer_id = batch.producer_id
        has_id = producer_id >= 0
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + count
        kind = TimestampType
        options = BatchOptions(
            codec=Codec[batch.codec.upper()],
            leader_epoch=self.epoch,
            timestamp_type=(
                kind.LOG_APPEND_TIME if batch.is_append_time else kind.CREATE_TIME
            ),
            producer_id=producer_id,
            producer_epoch=0 if has_id else -1,
            base_sequence=sequence if has_id else -1,
            is_transactional=batch.kind == "transactional",
        )
        rows = [
            (offset, record)
            for offset, record in enumerate(batch.records, first)
            if not record.is_removed
        ]
        return encode_batch(
            _rows(rows), options, base_offset=first, last_offset=first + count - 1
        )


def _rows(rows: list[tuple[int, PlannedRecord]]) -> pa.RecordBatch:
    records = [record for _, record in rows]
    headers = [
        [{"key": key, "value": value} for key, value in record.headers]
        for record in records
    ]
    return pa.record_batch(
        {
            "offset": pa.array([offset for offset, _ in rows], pa.int64()),
            "timestamp": pa.array([r.timestamp for r in records], pa.int64()),
            "key": pa.array([r.key for r in records], pa.binary()),
            "value": pa.array([r.value for r in records], pa.binary()),
            "headers": pa.array(headers, HEADERS),
        }
    )
