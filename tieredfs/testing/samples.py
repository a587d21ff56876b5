"""Segments to copy: real record batches, with the indexes that Kafka would have."""

import hashlib
from functools import cache
from typing import Final

from tieredfs.model import SegmentId, TopicIdPartition, Uuid
from tieredfs.testing.sample import Sample
from tieredfs.testing.segment_plan import (
    BatchPlan,
    PlannedRecord,
    SegmentPlan,
    build_segment,
)

__all__ = ["MISSING", "PARTITIONS", "Sample", "all_samples", "sample"]

_BATCHES: Final = 4
_RECORDS: Final = 5
_OFFSETS: Final = _BATCHES * _RECORDS
_INTERVAL: Final = 100  # bytes between two entries of an index, so that each has some
_FIRST_MS: Final = 1_760_000_000_000


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
    made = SegmentId.from_bytes(_uuid(f"{partition!r}/{number}/{name}"))
    firsts = range(start, start + _OFFSETS, _RECORDS)
    batches = [BatchPlan(_records(first, _RECORDS)) for first in firsts]
    if number % 2:
        aborted = _records(firsts[-1], _RECORDS - 1)
        marker = _records(start + _OFFSETS - 1, 1)
        batches[-1:] = [BatchPlan(aborted, "transactional"), BatchPlan(marker, "abort")]
    plan = SegmentPlan(tuple(batches), interval_bytes=_INTERVAL)
    return build_segment(partition, made, start, plan)


def all_samples() -> list[Sample]:
    """Return segments of several partitions, in the order of a complete listing."""
    counts = zip(sorted(PARTITIONS), (3, 1, 2), strict=True)
    return [sample(partition, n) for partition, count in counts for n in range(count)]


def _records(first: int, count: int) -> tuple[PlannedRecord, ...]:
    """Return records whose timestamps are one millisecond apart."""
    return tuple(
        PlannedRecord(_FIRST_MS + first + n, f"key-{n}".encode(), bytes([n]) * 40)
        for n in range(count)
    )
