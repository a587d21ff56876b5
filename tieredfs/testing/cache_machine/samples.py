"""Segments whose indexes follow from their metadata, and a clock that is set.

Any process knows what the indexes of such a segment have to be, without the segment.
"""

import struct
from dataclasses import replace
from random import Random
from typing import Final

from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex
from tieredfs.model import (
    EpochEntry,
    IndexType,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)

__all__ = [
    "ABORTED",
    "BASE",
    "FIRST_TIME",
    "OFFSETS",
    "PARTITION",
    "Clock",
    "content_of",
    "description_of",
    "made_segment",
]

BASE: Final = (1 << 31) - 1 + 101_337
"""Kafka's tests begin their segments here, where offsets need 64 bits."""

PARTITION: Final = TopicIdPartition("foo", 0, Uuid("dao62lTOQsGBPyjJLrpQKw"))

OFFSETS: Final = 1000
"""Offsets of each segment."""

ABORTED: Final = (10, 20)
"""First and last offset of each segment's aborted transaction, after its start."""

FIRST_TIME: Final = 1_700_000_000_000
"""No record of a segment is earlier, in milliseconds since 1970."""

_SIZE: Final = 1 << 20


class Clock:
    """Seconds since 1970 that pass when a test says so.

    Attributes:
        now: The time.
    """

    def __init__(self) -> None:
        """Begin in 2026."""
        self.now = 1_795_000_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def made_segment(
    number: int, *, version: str = "", custom_metadata: bytes = b"", copy: int = 0
) -> SegmentMetadata:
    """Return the metadata of a numbered segment; the first has number 0.

    Args:
        number: Its number; each segment begins where the previous one ends.
        version: Its version.
        custom_metadata: Its custom metadata.
        copy: Distinguishes copies of one segment: they have other ids.
    """
    start = BASE + number * OFFSETS
    return SegmentMetadata(
        PARTITION,
        SegmentId.from_bytes((number + 1 + (copy << 64)).to_bytes(16, "big")),
        start,
        start + OFFSETS - 1,
        size=_SIZE,
        version=version,
        custom_metadata=custom_metadata,
    )


def description_of(metadata: SegmentMetadata) -> SegmentMetadata:
    """Return a segment with every field: those of another one, or size, differ."""
    draw = Random(f"{metadata!r}")  # noqa: S311 - repeatable, not secret
    return replace(
        metadata,
        max_timestamp_ms=FIRST_TIME + draw.randrange(1 << 40),
        leader_epochs=(EpochEntry(draw.randrange(1 << 20), metadata.start_offset),),
        record_count=draw.choice([None, draw.randrange(1 << 20)]),
    )


def content_of(
    metadata: SegmentMetadata, entries: int = 20, store: int = 0
) -> dict[IndexType, bytes]:
    """Return the indexes of a segment: those of another one have other bytes.

    Args:
        metadata: Of the segment.
        entries: How many the offset index and the time index have.
        store: Distinguishes stores that have segments of the same names.
    """
    seed = f"{metadata.id}{metadata.version!r}{metadata.custom_metadata!r}{store}"
    draw = Random(seed)  # noqa: S311 - repeatable, not secret
    offsets = sorted(draw.sample(range(1, OFFSETS), entries))
    positions = sorted(draw.sample(range(1, _SIZE), entries))
    times = sorted(draw.sample(range(OFFSETS * 1000), entries))
    first = metadata.start_offset
    begin, end = (first + offset for offset in ABORTED)
    aborted = AbortedTransaction(7, begin, end, end + 1)
    return {
        IndexType.OFFSET: b"".join(
            struct.pack(">ii", *pair) for pair in zip(offsets, positions, strict=True)
        ),
        IndexType.TIMESTAMP: b"".join(
            struct.pack(">qi", FIRST_TIME + stamp, offset)
            for stamp, offset in zip(times, offsets, strict=True)
        ),
        IndexType.PRODUCER_SNAPSHOT: ProducerSnapshot().encode(),
        IndexType.LEADER_EPOCH: f"0\n1\n3 {first}\n".encode(),
        IndexType.TRANSACTION: TransactionIndex((aborted,)).encode(),
    }
