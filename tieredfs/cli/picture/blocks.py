"""What a lane of a partition shows: a block for each part of a segment.

Parts that would be narrower than a block can be are drawn as one, so that a partition
of any number of segments has a bounded number of blocks.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tieredfs.log.report.partition_report import (
    EpochRange,
    OffsetRange,
    PartitionReport,
    SegmentReport,
)

__all__ = ["Block", "blocks_of", "joined"]


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a segment, or of several neighbours in one lane.

    Attributes:
        lane: The lane.
        start: First offset.
        end: End (exclusive).
        epoch: The leader epoch; of several, that of most offsets; -1 if not known.
        is_served: Whether readers get these offsets from here; of several, whether
            they do of most offsets.
        first: The segment, or the first of several.
        last: The segment, or the last of several.
        segments: Number of segments.
        offsets: Number of offsets that the segments have.
        records: Number of records that the segments have; None if not known.
        size: Bytes of their logs; None if not known.
        timestamp: Their largest timestamp, ms since 1970 UTC; None if there is none.
        weight: Number of offsets that ``epoch`` and ``is_served`` are of.
    """

    lane: int
    start: int
    end: int
    epoch: int
    is_served: bool
    first: SegmentReport
    last: SegmentReport
    segments: int
    offsets: int
    records: int | None
    size: int | None
    timestamp: int | None
    weight: int

    def kept_within(self, start: float, end: float) -> float:
        """Return the share of the offsets ``[start, end)`` that have a record.

        It is 1 where it is not known. Of several segments it is the share of them all.
        """
        if self.segments == 1 and self.first.profile is not None:
            records = self.first.profile.within(start, end)
            return min(1.0, records / (end - start))
        if self.records is None or not self.offsets:
            return 1.0
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


def joined(
    ranges: Iterable[tuple[int, int]], min_offsets: float
) -> list[tuple[OffsetRange, int]]:
    """Join ranges with less than so many offsets between them.

    Args:
        ranges: Ranges of offsets ``(start, end)``, sorted.
        min_offsets: Ranges that are less apart are one.

    Returns:
        The ranges, and of how many each is made.
    """
    found: list[tuple[OffsetRange, int]] = []
    for one in ranges:
        if found and one[0] - found[-1][0].end < min_offsets:
            (start, _), count = found.pop()
            found.append((OffsetRange(start, one[1]), count + 1))
        else:
            found.append((OffsetRange(*one), 1))
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
                segment,
                1,
                segment.end - segment.start,
                segment.records,
                segment.segment.size,
                segment.timestamp,
                end - start,
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
    last: Block | None = None
    for block in blocks:
        if (
            last is not None
            and last.end - last.start < min_offsets
            and block.end - block.start < min_offsets
            and block.start - last.end < min_offsets
        ):
            last = _both(last, block)
            continue
        if last is not None:
            yield last
        last = block
    if last is not None:
        yield last


def _both(one: Block, other: Block) -> Block:
    """Return two neighbours as one block."""
    leading = one if one.weight >= other.weight else other
    merged = replace(
        one,
        end=other.end,
        epoch=leading.epoch,
        is_served=leading.is_served,
        weight=leading.weight,
    )
    if other.first is one.last:
        return merged
    stamps = [stamp for stamp in (one.timestamp, other.timestamp) if stamp is not None]
    return replace(
        merged,
        last=other.last,
        segments=one.segments + other.segments,
        offsets=one.offsets + other.offsets,
        records=_sum(one.records, other.records),
        size=_sum(one.size, other.size),
        timestamp=max(stamps, default=None),
    )


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
