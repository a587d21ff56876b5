"""Compute the report of a partition from described segments and their tiles.

Nothing is read here.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from tieredfs.epochs import NO_EPOCH
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.planning.tiles import gaps, log_end
from tieredfs.log.report.partition_report import (
    EpochRange,
    OffsetRange,
    Overlap,
    PartitionReport,
    SegmentReport,
)
from tieredfs.log.report.record_profile import RecordProfile
from tieredfs.model import EpochEntry, SegmentId, SegmentMetadata, TopicIdPartition

__all__ = ["partition_report"]


def partition_report(
    partition: TopicIdPartition,
    segments: Sequence[SegmentMetadata],
    tiles: Sequence[Tile],
    *,
    left_out: Collection[OffsetRange] = (),
    stored_sizes: Mapping[tuple[int, SegmentId], int],
    profiles: Mapping[SegmentMetadata, RecordProfile],
) -> PartitionReport:
    """Return the report of a partition.

    Args:
        partition: The partition.
        segments: Its segments with their end offsets, sorted by start offset.
        tiles: Which of them serves which offsets.
        left_out: Offsets of the segments that cannot be read, and are not among these;
            without their end, where only their first one is known.
        stored_sizes: Bytes in the store, by start offset and id.
        profiles: How the records of segments are spread, of those that were read.
    """
    served: dict[SegmentMetadata, list[OffsetRange]] = defaultdict(list)
    for segment, start, end in tiles:
        served[segment].append(OffsetRange(start, end))
    lanes = _lanes(segments, served)
    starts = [one.start_offset for one in segments[:1]]
    beginning = min((*starts, *(one.start for one in left_out)), default=0)
    missing = gaps(tiles, beginning)
    last = max((tile.end for tile in tiles), default=beginning)
    reached = max((log_end(segments), *(one.end for one in left_out)))
    if last < reached:
        missing.append((last, reached))
    return PartitionReport(
        partition,
        tuple(
            SegmentReport(
                segment,
                tuple(served.get(segment, ())),
                tuple(_epochs(segment, segment.start_offset, end_of(segment))),
                lane,
                stored_sizes.get((segment.start_offset, segment.id)),
                profiles.get(segment),
            )
            for segment, lane in zip(segments, lanes, strict=True)
        ),
        tuple(OffsetRange(*one) for one in missing),
        tuple(_overlaps(segments, tiles)),
        tuple(_served_epochs(tiles)),
        unreadable=len(left_out),
    )


def _lanes(
    segments: Sequence[SegmentMetadata], served: Container[SegmentMetadata]
) -> list[int]:
    """Return the lane of each segment: the first one that is free where it begins."""
    lanes = [0] * len(segments)
    free: list[int] = []
    busy: list[tuple[int, int]] = []  # ends and lanes
    order = sorted(
        range(len(segments)),
        key=lambda at: (
            segments[at].start_offset,
            segments[at] not in served,
            -end_of(segments[at]),
        ),
    )
    for at in order:
        while busy and busy[0][0] <= segments[at].start_offset:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end_of(segments[at]), lane))
        lanes[at] = lane
    return lanes


def _epochs(segment: SegmentMetadata, start: int, end: int) -> Iterator[EpochRange]:
    """Yield the leader epochs of a segment at the offsets ``[start, end)``."""
    entries = [EpochEntry(NO_EPOCH, start), *(segment.leader_epochs or ())]
    for entry, following in pairwise([*entries, EpochEntry(NO_EPOCH, end)]):
        first, last = max(entry.start_offset, start), min(following.start_offset, end)
        if first < last:
            yield EpochRange(entry.epoch, first, last)


def _served_epochs(tiles: Iterable[Tile]) -> Iterator[EpochRange]:
    """Yield the leader epochs of what is served; neighbours of one epoch are one."""
    current: EpochRange | None = None
    for segment, start, end in tiles:
        for found in _epochs(segment, start, end):
            if current is not None and current.epoch == found.epoch:
                current = current._replace(end=found.end)
                continue
            if current is not None:
                yield current
            current = found
    if current is not None:
        yield current


def _overlaps(
    segments: Sequence[SegmentMetadata], tiles: Sequence[Tile]
) -> Iterator[Overlap]:
    """Yield the offsets that several segments have, split where another one serves."""
    turns: dict[int, int] = defaultdict(int)
    for segment in segments:
        turns[segment.start_offset] += 1
        turns[end_of(segment)] -= 1
    servers: dict[int, SegmentMetadata | None] = {}
    for segment, start, end in tiles:
        servers[start] = segment
        servers.setdefault(end, None)
    copies, server = 0, None
    current: Overlap | None = None
    for low, high in pairwise(sorted({*turns, *servers})):
        copies += turns.get(low, 0)
        server = servers.get(low, server)
        same = current is not None and current.copies == copies
        if current is not None and same and server is current.served_by:
            current = current._replace(end=high)
            continue
        if current is not None:
            yield current
        current = Overlap(low, high, copies, server) if copies > 1 else None
    if current is not None:
        yield current
