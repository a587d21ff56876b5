"""What a lane of a partition shows: a block for each part of a segment.

Parts that would be narrower than a block can be are drawn as one, so that a partition
of any number of segments has a bounded number of blocks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from tieredfs.epochs import NO_EPOCH
from tieredfs.log.report.partition_report import (
    EpochRange,
    OffsetRange,
    PartitionReport,
    SegmentReport,
)
from tieredfs.log.report.sums import known_sum

__all__ = ["Block", "Joined", "blocks_of", "joined"]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a segment, or of several neighbours in one lane.

    Attributes:
        lane: The lane.
        start: First offset.
        end: End (exclusive).
        epoch: The leader epoch; of several, that of most offsets; -1 if there is no
            such one, or it is not known.
        is_served: Whether readers get these offsets from here; of several, whether
            they do of most offsets.
        first: The segment, or the first of several.
        segments: Number of segments.
        offsets: Number of offsets that the segments have.
        records: Number of records that the segments have; None if not known.
        size: Bytes of their logs; None if not known.
        timestamp: Their largest timestamp, ms since 1970 UTC; None if there is none.
    """

    lane: int
    start: int
    end: int
    epoch: int
    is_served: bool
    first: SegmentReport
    segments: int
    offsets: int
    records: int | None
    size: int | None
    timestamp: int | None

    def kept_within(self, start: float, end: float) -> float | None:
        """Return the share of the offsets ``[start, end)`` that have a record.

        None where it is not known. Of several segments it is the share of them all.
        """
        if self.segments == 1 and self.first.profile is not None:
            records = self.first.profile.within(start, end)
            return min(1.0, records / (end - start))
        if self.records is None or not self.offsets:
            return None
        return min(1.0, self.records / self.offsets)


def blocks_of(
    report: PartitionReport, min_offsets: float, max_lanes: int
) -> list[Block]:
    """Return the blocks of a partition, by lane and offset.

    Args:
        report: The partition.
        min_offsets: Parts with fewer offsets are joined with such neighbours.
        max_lanes: Number of lanes to show.
    """
    lanes: dict[int, list[Block]] = defaultdict(list)
    for segment in report.segments:
        if segment.lane < max_lanes:
            lanes[segment.lane] += _parts(segment)
    found: list[Block] = []
    for lane in sorted(lanes):
        found += _joined_blocks(lanes[lane], min_offsets)
    return found


class Joined(NamedTuple):
    """Ranges of offsets that are too close to be drawn apart.

    Attributes:
        start: First offset of the first one.
        end: End (exclusive) of the last one.
        ranges: How many they are.
        size: Number of offsets in them.
    """

    start: int
    end: int
    ranges: int
    size: int

    @property
    def is_dense(self) -> bool:
        """Whether most offsets from ``start`` to ``end`` are in a range."""
        return 2 * self.size >= self.end - self.start


def joined(ranges: Iterable[tuple[int, int]], min_offsets: float) -> list[Joined]:
    """Join ranges with less than so many offsets between them.

    Args:
        ranges: Ranges of offsets ``(start, end)``, sorted.
        min_offsets: Ranges that are less apart are one.
    """
    found: list[Joined] = []
    for start, end in ranges:
        size = end - start
        if found and start - found[-1].end < min_offsets:
            last = found.pop()
            found.append(Joined(last.start, end, last.ranges + 1, last.size + size))
        else:
            found.append(Joined(start, end, 1, size))
    return found


def _parts(segment: SegmentReport) -> Iterator[Block]:
    """Yield the parts of a segment, each of one epoch, and served or not."""
    for span in segment.epochs:
        for start, end, is_served in _split(span, segment.served):
            yield Block(
                segment.lane,
                start,
                end,
                span.epoch,
                is_served,
                segment,
                1,
                segment.end - segment.start,
                segment.records,
                segment.segment.size,
                segment.timestamp,
            )


def _split(
    span: EpochRange, served: Iterable[OffsetRange]
) -> Iterator[tuple[int, int, bool]]:
    """Yield the parts of a range that are served, and those between them."""
    cursor = span.start
    for one in served:
        first, last = max(one.start, cursor), min(one.end, span.end)
        if first >= last:
            continue
        if cursor < first:
            yield cursor, first, False
        yield first, last, True
        cursor = last
    if cursor < span.end:
        yield cursor, span.end, False


def _joined_blocks(blocks: Iterable[Block], min_offsets: float) -> Iterator[Block]:
    """Yield the blocks of a lane; narrow neighbours are one."""
    group: list[Block] = []
    for block in blocks:
        if group and not (
            group[-1].end - group[0].start < min_offsets
            and block.end - block.start < min_offsets
            and block.start - group[-1].end < min_offsets
        ):
            yield _one(group)
            group = []
        group.append(block)
    if group:
        yield _one(group)


def _one(group: Sequence[Block]) -> Block:
    """Return neighbours as one block."""
    if len(group) == 1:
        return group[0]
    weights: dict[int, int] = defaultdict(int)
    total = served = 0
    for part in group:
        size = part.end - part.start
        weights[part.epoch] += size
        served += size * part.is_served
        total += size
    epoch = max(weights, key=weights.__getitem__)
    # A segment may be several of the parts, one after the other.
    whole = [group[0], *(b for a, b in pairwise(group) if b.first is not a.first)]
    stamps = [part.timestamp for part in whole if part.timestamp is not None]
    return Block(
        lane=group[0].lane,
        start=group[0].start,
        end=group[-1].end,
        epoch=epoch if 2 * weights[epoch] >= total else NO_EPOCH,
        is_served=2 * served >= total,
        first=group[0].first,
        segments=len(whole),
        offsets=sum(part.offsets for part in whole),
        records=known_sum(part.records for part in whole),
        size=known_sum(part.size for part in whole),
        timestamp=max(stamps, default=None),
    )
