"""Segments to copy: real record batches, with the indexes that Kafka would have."""

import hashlib
import struct
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

import pyarrow as pa

from tieredfs.epochs import LeaderEpochs
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.records.writer import BatchOptions, encode_batch
from tieredfs.model import (
    EpochEntry,
    LogSegmentData,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)
from tieredfs.storage.segment_log.inspection import PriorState, inspect_segment
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.storage.segment_log.stream import read_batches

__all__ = ["MISSING", "PARTITIONS", "Sample", "all_samples", "sample"]

_BATCHES: Final = 4
_RECORDS: Final = 5
_OFFSETS: Final = _BATCHES * _RECORDS
_INTERVAL: Final = 100  # bytes between two entries of an index, so that each has some
_FIRST_MS: Final = 1_760_000_000_000
_EPOCHS: Final = LeaderEpochs((EpochEntry(0, 0),))
_ABORT: Final = struct.pack(">hh", 0, 0), struct.pack(">hi", 0, 3)


def _uuid(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


def _partition(topic: str, number: int) -> TopicIdPartition:
    return TopicIdPartition(topic, number, Uuid.from_bytes(_uuid(topic)))


PARTITIONS: Final = (
    _partition("orders", 0),
    _partition("orders", 1),
    _partition("orders-1", 0),  # a name that ends as a partition's folder may
)

MISSING: Final = _partition("nowhere", 0)
"""A partition that is never written to."""


@dataclass(frozen=True, slots=True)
class Sample:
    """A segment as a broker hands it over, with its expected metadata.

    Attributes:
        metadata: Its partition, id, first and last offset.
        data: Its log and its indexes.
        described: Its metadata with every field known, except those that a layout adds.
    """

    metadata: SegmentMetadata
    data: LogSegmentData
    described: SegmentMetadata

    @property
    def log(self) -> bytes:
        """The bytes of the log."""
        log = self.data.log
        return log.read_bytes() if isinstance(log, Path) else bytes(log)

    @property
    def identity(self) -> tuple[int, SegmentId]:
        """Its identity within its partition."""
        return self.metadata.start_offset, self.metadata.id


@cache
def sample(partition: TopicIdPartition, number: int, name: str = "") -> Sample:
    """Build a numbered segment of a partition; the first has number 0.

    Every second segment has an aborted transaction, and so a transaction index.

    Args:
        partition: Any.
        number: Its number; each segment begins where the previous one ends.
        name: Distinguishes segments of one number: they have other ids.
    """
    start = number * _OFFSETS
    end = start + _OFFSETS - 1
    log = b"".join(_batches(start, is_aborted=bool(number % 2)))
    made = SegmentId.from_bytes(_uuid(f"{partition!r}/{number}/{name}"))
    metadata = SegmentMetadata(partition, made, start, end)
    inspection = inspect_segment(
        read_batches(log_in_memory(log, "sample")),
        SegmentMetadata(partition, made, start, end, size=len(log)),
        {},
        PriorState(ProducerSnapshot(), _EPOCHS),
        interval_bytes=_INTERVAL,
    )
    described = SegmentMetadata(
        partition,
        made,
        start,
        end,
        inspection.facts.max_timestamp_ms,
        _EPOCHS.entries,
        len(log),
    )
    indexes = {kind: inspection.rebuilt[kind] for kind in inspection.rebuilt}
    return Sample(metadata, LogSegmentData(log, indexes), described)


def all_samples() -> list[Sample]:
    """Return segments of several partitions, in the order of a complete listing."""
    counts = zip(sorted(PARTITIONS), (3, 1, 2), strict=True)
    return [sample(partition, n) for partition, count in counts for n in range(count)]


def _batches(start: int, *, is_aborted: bool) -> list[bytes]:
    """Encode batches; the last two may be a transaction and the marker that ends it."""
    plain = BatchOptions(leader_epoch=0)
    made = [_batch(start + n * _RECORDS, plain) for n in range(_BATCHES - 1)]
    last = start + _OFFSETS - _RECORDS
    if not is_aborted:
        return [*made, _batch(last, plain)]
    ended = replace(
        plain, producer_id=7, producer_epoch=1, is_transactional=True, is_control=True
    )
    written = replace(ended, base_sequence=0, is_control=False)
    marker = _records(last + _RECORDS - 1, [_ABORT])
    return [
        *made,
        _batch(last, written, count=_RECORDS - 1),
        encode_batch(marker, ended),
    ]


def _batch(first: int, options: BatchOptions, count: int = _RECORDS) -> bytes:
    pairs = [(f"key-{n}".encode(), bytes([n % 251]) * 40) for n in range(count)]
    return encode_batch(_records(first, pairs), options)


def _records(first: int, pairs: list[tuple[bytes, bytes]]) -> pa.RecordBatch:
    offsets = range(first, first + len(pairs))
    return pa.record_batch(
        {
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([_FIRST_MS + n for n in offsets], pa.int64()),
            "key": pa.array([key for key, _ in pairs], pa.binary()),
            "value": pa.array([value for _, value in pairs], pa.binary()),
        }
    )
