"""The segments that the steps of a machine are about, and a crowd of further ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from tieredfs.model import SegmentId, TopicIdPartition, Uuid
from tieredfs.testing.samples import Sample
from tieredfs.testing.segment_plan import (
    BatchPlan,
    PlannedRecord,
    SegmentPlan,
    build_segment,
)

__all__ = [
    "CROWD",
    "CROWDED",
    "NAMESAKES",
    "SLOTS",
    "Slot",
    "build_pool",
    "neighbour",
    "one_of_a_crowd",
]

CROWD: Final = 1001
"""Segments of one partition that do not fit on one page of a listing."""


def _id(number: int) -> bytes:
    return number.to_bytes(16)


_TOPIC: Final = Uuid.from_bytes(_id(2))

NAMESAKES: Final = (
    TopicIdPartition("a", 1, _TOPIC),
    TopicIdPartition("a", 10, _TOPIC),
    TopicIdPartition("a-1", 0, Uuid.from_bytes(_id(3))),
    TopicIdPartition("a", 1, Uuid.from_bytes(_id(4))),
)
"""Partitions whose names begin with each other's, and a topic that was recreated."""

CROWDED: Final = TopicIdPartition("crowded", 0, _TOPIC)
"""The partition of the crowd."""

_LARGE: Final = SegmentPlan((BatchPlan((PlannedRecord(value=bytes(1 << 20)),)),))


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of one segment of the pool.

    Attributes:
        partition: Its partition.
        start: Its start offset, given how many offsets both drawn contents have.
        content: Which of the drawn contents it has; None for a large one.
    """

    partition: TopicIdPartition
    start: Callable[[int, int], int]
    content: int | None


_FIRST, _TEN, _OTHER, _RECREATED = NAMESAKES

SLOTS: Final = (
    Slot(_FIRST, lambda *_: 0, 0),
    Slot(_FIRST, lambda *_: 0, 1),  # under another id
    Slot(_FIRST, lambda first, _: first, 1),
    Slot(_FIRST, lambda first, second: first + second, None),
    Slot(_TEN, lambda *_: 0, 1),
    Slot(_OTHER, lambda *_: 1 << 40, 0),
    Slot(_RECREATED, lambda *_: 0, 0),
    # Two leaders' uploads overlap.
    Slot(_RECREATED, lambda first, _: first // 2, 1),
)
"""The places of the pool's segments; those of the first partition come first."""


def build_pool(first: SegmentPlan, second: SegmentPlan) -> list[Sample]:
    """Return a segment for each slot.

    Args:
        first: What some of them hold.
        second: What others hold; it may be the same.
    """
    contents = {0: first, 1: second, None: _LARGE}
    return [
        build_segment(
            slot.partition,
            SegmentId.from_bytes(_id(number)),
            slot.start(first.offsets, second.offsets),
            contents[slot.content],
        )
        for number, slot in enumerate(SLOTS, 16)
    ]


def neighbour(pool: Sequence[Sample], number: int) -> Sample:
    """Return another segment of the same partition, or of the next one."""
    of_first = sum(one.metadata.partition == NAMESAKES[0] for one in pool)
    count = of_first if number < of_first else len(pool)
    return pool[(number + 1) % count]


@cache
def one_of_a_crowd(number: int) -> Sample:
    """Return a numbered segment of one record, the same each time."""
    return build_segment(CROWDED, SegmentId.from_bytes(_id(1000 + number)), number)
