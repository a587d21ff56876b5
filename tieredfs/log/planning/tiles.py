"""Decide which segment serves which offsets, without reading anything.

The true history of a partition is that of the segment with the highest leader epoch and
end. Another segment's offsets beyond the point where its history diverges from that one
are left out; ``overlap`` decides which of several segments of one history counts.

Where no segments overlap and none may be of another history, each serves all of its
offsets: then ``TableTiles`` computes the tiles from columns. A rule that changes that
belongs in ``overlaps`` or ``may_diverge`` (``columns``), which choose the path.
"""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.format.buffers import Int64Array
from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.columns import end_of, ends_of, first_of, overlaps
from tieredfs.log.planning.end_claims import beyond, is_disputed
from tieredfs.log.planning.errors import (
    dispute_error,
    gap_error,
    mixed_states_error,
)
from tieredfs.log.planning.overlap import (
    Compare,
    Tile,
    contradictions,
    serve,
    stale_pairs,
)
from tieredfs.log.planning.table_tiles import TableTiles
from tieredfs.model import SegmentMetadata
from tieredfs.storage import SegmentTable

__all__ = [
    "check_one_state",
    "check_served",
    "deciding_ends",
    "disputes",
    "gaps",
    "last_of",
    "lineage_of",
    "log_end",
    "tile",
]


def last_of(segments: Sequence[SegmentMetadata]) -> SegmentMetadata | None:
    """Return the segment in which the true history ends, if there is any segment.

    Epochs count only if those of all segments are known: a listing that needs no
    description does not contain them, and a segment without them would lose to an older
    one with them.
    """
    return segments[_last_row(segments)] if len(segments) else None


def lineage_of(segments: Sequence[SegmentMetadata]) -> LeaderEpochs:
    """Return the true history: that of the segment with the highest (epoch, end).

    It is empty, and accepts everything, if the epochs of a segment are not known.
    """
    last = last_of(segments) if _has_epochs(segments) else None
    return LeaderEpochs(last.leader_epochs or ()) if last else LeaderEpochs()


def log_end(segments: Sequence[SegmentMetadata]) -> int:
    """Return the end (exclusive) of the true history; 0 without segments."""
    last = last_of(segments)
    return end_of(last) if last else 0


def deciding_ends(segments: Sequence[SegmentMetadata]) -> list[SegmentMetadata]:
    """Return the segments whose end offsets no neighbour confirms.

    Between two segments a wrong end offset leaves a gap or an overlap. The last segment
    has no next neighbour, and where segments overlap, a wrong end offset hides records
    of another segment.

    Args:
        segments: The segments of a partition with their end offsets, sorted by start
            offset.
    """
    if not len(segments):
        return []
    decide = {len(segments) - 1, _last_row(segments)}
    if overlaps(segments):
        longest = 0
        for row, segment in enumerate(segments):
            if row and segment.start_offset < end_of(segments[longest]):
                decide |= {longest, row}
            if end_of(segment) > end_of(segments[longest]):
                longest = row
    return [segments[row] for row in sorted(decide)]


def tile(
    segments: Sequence[SegmentMetadata],
    start: int,
    end: int,
    *,
    skip_gaps: bool,
    compare: Compare,
    url: str,
) -> Sequence[Tile]:
    """Determine which segment serves which of the offsets ``[start, end)``.

    Args:
        segments: The segments of a partition with their end offsets and, where they
            overlap, every field; sorted by start offset.
        start: First offset.
        end: End (exclusive) of the offsets.
        skip_gaps: Whether offsets that no segment has are left out.
        compare: Determines which of two copies has fewer records, where they overlap.
        url: The store's URL, for error messages.

    Returns:
        Segments with the offsets ``[from, to)`` they serve, which do not overlap.

    Raises:
        CorruptDataError: No segment has an offset, and ``skip_gaps`` is false.
    """
    lineage = lineage_of(segments)
    if overlaps(segments):
        # Which copy counts must not depend on where reading begins or ends.
        whole = serve(
            _without_wrong_copies(segments, compare),
            lineage,
            first_of(segments),
            log_end(segments),
            compare,
        )
        tiles: Sequence[Tile] = _clipped(whole, start, end)
    elif isinstance(segments, SegmentTable):
        tiles = TableTiles.within(segments, start, end)
    else:
        tiles = list(_in_order(segments, lineage, start, end))
    if skip_gaps:
        return tiles
    missing = gaps(tiles, start)
    if missing:
        raise gap_error(url, segments[0], *missing[0])
    reached = tiles[-1].end if tiles else start
    if reached < end and segments:
        raise gap_error(url, segments[-1], reached, end)
    return tiles


def disputes(
    segments: Sequence[SegmentMetadata], compare: Compare
) -> list[tuple[SegmentMetadata, SegmentMetadata]]:
    """Return pairs of objects with one content of which one must be wrong.

    The shorter object comes first. The longer one implies that the offsets at its end
    are empty, and another segment has records there.

    Args:
        segments: The segments of a partition, described.
        compare: Determines which of two copies has fewer records.
    """
    return [
        (shorter, longer)
        for shorter, longer in contradictions(segments)
        if is_disputed(shorter, longer, beyond(shorter, longer, segments), compare)
    ]


def check_one_state(
    segments: Sequence[SegmentMetadata],
    tiles: Sequence[Tile],
    *,
    compare: Compare,
    url: str,
) -> None:
    """Check that the tiles are of one state of the log.

    Args:
        segments: The segments that were tiled.
        tiles: What ``tile`` returned.
        compare: Which of two copies has fewer records.
        url: The store's URL, for error messages.

    Raises:
        CorruptDataError: It is not known which of two objects is right, or an older
            state of a compacted log would be read before a later one.
    """
    if not overlaps(segments):
        return
    for shorter, longer in disputes(segments, compare):
        raise dispute_error(url, shorter, longer)
    for older, later in stale_pairs(tiles, lineage_of(segments), compare):
        raise mixed_states_error(url, older, later)


def check_served(
    segments: Sequence[SegmentMetadata],
    tiles: Sequence[Tile],
    end: int,
    *,
    url: str,
) -> None:
    """Check that only offsets that no segment has are left out of the tiles.

    Args:
        segments: The segments that were tiled.
        tiles: What ``tile`` returned from the beginning of the log on.
        end: End (exclusive) of the log.
        url: The store's URL, for error messages.

    Raises:
        CorruptDataError: A segment has an offset that no tile serves: the epochs of a
            segment contradict those of the others.
    """
    if isinstance(tiles, TableTiles):
        return  # each segment serves all of its offsets
    cursor = segments[0].start_offset if segments else end
    for _, first, stop in (*tiles, (None, end, end)):
        for segment in segments if cursor < first else ():
            if segment.start_offset < first and cursor < min(end_of(segment), first):
                raise gap_error(url, segment, cursor, first)
        cursor = stop


def gaps(tiles: Sequence[Tile], start: int) -> list[tuple[int, int]]:
    """Return the offsets ``[from, to)`` inside the log that no segment serves.

    Args:
        tiles: What ``tile`` returned.
        start: First offset of the log.
    """
    firsts, ends = _bounds(tiles)
    reached = np.concatenate(([min(start, MAX_INT64)], ends[:-1]))[: len(tiles)]
    rows = np.flatnonzero(firsts > reached)
    return list(zip(reached[rows].tolist(), firsts[rows].tolist(), strict=True))


def _clipped(tiles: Iterable[Tile], start: int, end: int) -> list[Tile]:
    """Return the tiles, cut to the offsets ``[start, end)``."""
    return [
        Tile(segment, max(first, start), min(stop, end))
        for segment, first, stop in tiles
        if max(first, start) < min(stop, end)
    ]


def _in_order(
    segments: Iterable[SegmentMetadata], lineage: LeaderEpochs, start: int, end: int
) -> Iterator[Tile]:
    """Tile segments that do not overlap: each serves its offsets of the lineage."""
    for segment in segments:
        first, stop = max(start, segment.start_offset), min(end, end_of(segment))
        if first < stop:
            own = LeaderEpochs(segment.leader_epochs or ())
            stop = own.agreement_end(lineage, first, stop)
        if first < stop:
            yield Tile(segment, first, stop)


def _without_wrong_copies(
    segments: Sequence[SegmentMetadata], compare: Compare
) -> list[SegmentMetadata]:
    """Leave out all but one of the objects with the same content.

    The shorter object is kept if another segment has records that the longer one lacks.
    """
    wrong = {longer for _, longer in disputes(segments, compare)}
    wrong |= {
        shorter for shorter, longer in contradictions(segments) if longer not in wrong
    }
    return [segment for segment in segments if segment not in wrong]


def _bounds(tiles: Sequence[Tile]) -> tuple[Int64Array, Int64Array]:
    """Return the first offset of each tile, and the offset after its last one."""
    if isinstance(tiles, TableTiles):
        return tiles.starts, tiles.ends
    found = np.array([(tile.start, tile.end) for tile in tiles], np.int64)
    return found.reshape(-1, 2)[:, 0], found.reshape(-1, 2)[:, 1]


def _last_row(segments: Sequence[SegmentMetadata]) -> int:
    """Return which of some segments, at least one, is the one of ``last_of``."""
    if _has_epochs(segments):
        return max(range(len(segments)), key=lambda row: _rank(segments[row]))
    return int(ends_of(segments).argmax())


def _has_epochs(segments: Sequence[SegmentMetadata]) -> bool:
    if isinstance(segments, SegmentTable):
        return False  # a listing has no histories
    return all(segment.leader_epochs is not None for segment in segments)


def _rank(segment: SegmentMetadata) -> tuple[int, int]:
    epochs = segment.leader_epochs or ()
    return (epochs[-1].epoch if epochs else NO_EPOCH, end_of(segment))
