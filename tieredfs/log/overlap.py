"""Which of several segments serves an offset that all of them cover: pure.

Segments overlap after a change of leader, when several replicas of a partition are
archived, and when a cleaner has rewritten what was archived before. Four rules, in this
order, say which one counts:

1. *Lineage.* Where the leader epochs of a segment are not those of the true history, it
   does not count.
2. *One content, one end.* Of two objects with the same id and first offset, which hold
   the same bytes, the longer one says that a cleaner has emptied the offsets at its
   end. Where another segment holds some of these, one of the two is wrong, and nothing
   says which.
3. *Cleaned copies.* A cleaner only removes, so of copies that differ the one with fewer
   records of the common offsets is the later state of the log, and counts.
4. *One state.* Of copies that hold the same, one counts that is nowhere an older state
   than another copy: what is read together has to be of one state of the log.
5. *Whole segments.* Of these, the one that is being read goes on; then one that begins
   here; then the one that begins, or ends, furthest away.

Source: KIP-101, KIP-405; ``docs/explanation/integrity.md``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tieredfs.epochs import LeaderEpochs
from tieredfs.model import SegmentId, SegmentMetadata

__all__ = ["Compare", "Copy", "Tile", "contradictions", "serve", "stale_pairs"]

Tile = tuple[SegmentMetadata, int, int]
"""A segment and the offsets ``[from, to)`` that it serves."""

Compare = Callable[[SegmentMetadata, SegmentMetadata, int, int], int]
"""Say which of two segments holds fewer records of the offsets ``[from, to)``: below 0
the first, above 0 the second."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A segment, and how far it follows the true history.

    Attributes:
        segment: The segment, described.
        epochs: Its own leader epochs.
        end: End (exclusive) of its offsets.
        agreed_end: End (exclusive) of its offsets up to which it follows the lineage.
    """

    segment: SegmentMetadata
    epochs: LeaderEpochs
    end: int
    agreed_end: int

    @property
    def start(self) -> int:
        """First offset of the segment."""
        return self.segment.start_offset

    @classmethod
    def of(cls, segment: SegmentMetadata, lineage: LeaderEpochs) -> "Copy":
        """Compare a segment's epochs with a lineage."""
        if segment.end_offset is None:
            msg = f"{segment} has not been described"
            raise ValueError(msg)
        epochs, end = LeaderEpochs(segment.leader_epochs or ()), segment.end_offset + 1
        agreed = epochs.agreement_end(lineage, segment.start_offset, end)
        return cls(segment, epochs, end, agreed)

    def common(self, other: "Copy", start: int, end: int) -> tuple[int, int]:
        """Return the offsets that both hold of one history, those given among them."""
        first = max(self.start, other.start)
        last = min(self.agreed_end, other.agreed_end)
        return (first, last) if first <= start and end <= last else (start, end)


def serve(
    segments: Sequence[SegmentMetadata],
    lineage: LeaderEpochs,
    start: int,
    end: int,
    compare: Compare,
) -> list[Tile]:
    """Say which segment serves which of the offsets ``[start, end)``.

    Args:
        segments: The segments of a partition, described.
        lineage: Its true history.
        start: First offset.
        end: End (exclusive) of the offsets.
        compare: Which of two copies has fewer records.

    Returns:
        What each segment serves, in the order of the offsets, without overlaps. What no
        segment of the lineage holds is left out.
    """
    copies = sorted(
        (Copy.of(segment, lineage) for segment in segments),
        key=lambda copy: (copy.start, -copy.end, copy.segment.id),
    )
    marks = _marks(copies, lineage, start, end)
    staleness = _Staleness(copies, compare)
    tiles: list[Tile] = []
    current: Copy | None = None
    active: list[Copy] = []
    entered = 0
    for low, high in pairwise(marks):
        while entered < len(copies) and copies[entered].start <= low:
            active.append(copies[entered])
            entered += 1
        active = [copy for copy in active if copy.end > low]
        candidates = [c for c in active if lineage.accepts(c.epochs.epoch_at(low), low)]
        if not candidates:
            current = None
            continue
        current = _choose(candidates, current, low, high, staleness)
        if tiles and tiles[-1][0] == current.segment and tiles[-1][2] == low:
            tiles[-1] = (current.segment, tiles[-1][1], high)
        else:
            tiles.append((current.segment, low, high))
    return tiles


def contradictions(
    segments: Sequence[SegmentMetadata],
) -> Iterator[tuple[SegmentMetadata, SegmentMetadata]]:
    """Yield objects with one id and first offset and different ends, the shorter first.

    They hold the same bytes, and say different things of what follows these.

    Args:
        segments: The segments of a partition with their ends.
    """
    groups: dict[tuple[int, SegmentId], list[SegmentMetadata]] = defaultdict(list)
    for segment in segments:
        groups[segment.start_offset, segment.id].append(segment)
    for group in groups.values():
        ordered = sorted(group, key=lambda segment: segment.end_offset or 0)
        for shorter, longer in pairwise(ordered):
            if shorter.end_offset != longer.end_offset:
                yield shorter, longer


def stale_pairs(
    tiles: Sequence[Tile], lineage: LeaderEpochs, compare: Compare
) -> Iterator[tuple[Tile, Tile]]:
    """Yield what is served of an older state before what is served of a later one.

    Read together they may bring back what was deleted: the cleaner removes a deleted
    key's tombstone, in the later state, after the records that it deletes, which the
    older state still has.

    Args:
        tiles: What is served, as ``serve`` returned it.
        lineage: The true history.
        compare: Which of two copies has fewer records.
    """
    copies = [Copy.of(segment, lineage) for segment, _, _ in tiles]
    starts = (copy.start for copy in reversed(copies))
    first_starts = list(accumulate(starts, min))[::-1]  # of each tile and those behind
    open_tiles: list[tuple[Tile, Copy]] = []
    for tile, later, first_start in zip(tiles, copies, first_starts, strict=True):
        open_tiles = [one for one in open_tiles if one[1].agreed_end > first_start]
        for before, older in open_tiles:
            first = max(older.start, later.start)
            last = min(older.agreed_end, later.agreed_end)
            if first < last and compare(later.segment, older.segment, first, last) < 0:
                yield before, tile
        open_tiles.append((tile, later))


def _marks(
    copies: Sequence[Copy], lineage: LeaderEpochs, start: int, end: int
) -> list[int]:
    """Return the offsets between which the same segments count."""
    turns = {start, end}
    for copy in copies:
        turns |= {copy.start, copy.end}
        turns.update(entry.start_offset for entry in copy.epochs.entries)
    turns.update(entry.start_offset for entry in lineage.entries)
    return sorted(turn for turn in turns if start <= turn <= end)


class _Staleness:
    """Tell which copies are an older state of the log than others."""

    def __init__(self, copies: Sequence[Copy], compare: Compare) -> None:
        self._compare = compare
        self._known: dict[Copy, bool] = {}
        self._neighbours: dict[Copy, list[Copy]] = {copy: [] for copy in copies}
        active: list[Copy] = []
        for copy in copies:  # by their start
            active = [one for one in active if one.end > copy.start]
            for other in active:
                self._neighbours[copy].append(other)
                self._neighbours[other].append(copy)
            active.append(copy)

    def is_later(self, one: Copy, other: Copy, start: int, end: int) -> bool:
        """Tell whether a copy has fewer records than another around some offsets."""
        first, last = one.common(other, start, end)
        return self._compare(one.segment, other.segment, first, last) < 0

    def of(self, copy: Copy) -> bool:
        """Tell whether any copy is a later state of any of a copy's offsets."""
        if copy not in self._known:
            self._known[copy] = any(
                first < last and self.is_later(other, copy, first, last)
                for other in self._neighbours[copy]
                for first in [max(copy.start, other.start)]
                for last in [min(copy.agreed_end, other.agreed_end)]
            )
        return self._known[copy]


def _choose(
    candidates: Sequence[Copy],
    current: Copy | None,
    low: int,
    high: int,
    staleness: _Staleness,
) -> Copy:
    """Choose the copy that serves the offsets ``[low, high)``."""
    if len(candidates) == 1:
        return candidates[0]
    latest = [
        one
        for one in candidates
        if not any(
            staleness.is_later(other, one, low, high)
            for other in candidates
            if other is not one
        )
    ]

    def preference(copy: Copy) -> tuple[bool, bool, bool, int, int, str]:
        goes_on = current is not None and copy.segment == current.segment
        return (
            staleness.of(copy),
            not goes_on,
            copy.start != low,
            copy.start,
            -copy.agreed_end,
            copy.segment.id,
        )

    # Counts of different offsets may beat each other in a circle.
    return min(latest or candidates, key=preference)
