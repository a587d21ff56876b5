"""Decide which of several segments serves an offset that all of them cover.

Segments overlap after a change of leader, when several replicas of a partition are
archived, and when a cleaner has rewritten what was archived before. These rules
determine which segment counts. Nothing is read here: records are counted by
``compare``.

1. *Lineage.* Where the leader epochs of a segment are not those of the true history, it
   does not count.
2. *One content, one end.* Two objects with the same id and first offset contain the
    same bytes, so the longer one implies that a cleaner has emptied the offsets at its
    end. If another segment has records there, one of the two is wrong, and it is not
    known which.
3. *Cleaned copies.* A cleaner only removes, so of different copies the one with fewer
    records at the common offsets is the later state of the log, and counts.
4. *One state.* All copies that are read together have to be of one state of the log, in
    which a cleaner processes earlier offsets first. Where rule 3 would serve an older
    state before a later one, the copies are chosen backwards from the end instead, each
    among those that are not older than what is served after it.
5. *Whole segments.* Of equal copies, the one that is being read continues; then one
    that begins here; then the one that begins, or ends, furthest away.

Source: KIP-101, KIP-405; ``docs/explanation/integrity.md``.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

from tieredfs.epochs import LeaderEpochs
from tieredfs.log.planning.columns import end_of
from tieredfs.model import SegmentId, SegmentMetadata

__all__ = ["Compare", "Copy", "Tile", "contradictions", "serve", "stale_pairs"]

Compare = Callable[[SegmentMetadata, SegmentMetadata, int, int], int]
"""Determine which of two segments has fewer records at the offsets ``[from, to)``:
below 0 the first, above 0 the second."""


class Tile(NamedTuple):
    """A segment and the offsets that it serves.

    Attributes:
        segment: The segment.
        start: First offset.
        end: End (exclusive) of the offsets.
    """

    segment: SegmentMetadata
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A segment, and up to which offset it follows the true history.

    Attributes:
        segment: The segment, described.
        epochs: Its own leader epochs.
        end: End (exclusive) of its offsets.
        agreed_end: End (exclusive) of the offsets at which it follows the lineage.
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
        epochs, end = LeaderEpochs(segment.leader_epochs or ()), end_of(segment)
        agreed = epochs.agreement_end(lineage, segment.start_offset, end)
        return cls(segment, epochs, end, agreed)

    def common(self, other: "Copy", start: int, end: int) -> tuple[int, int]:
        """Return which of the given offsets both copies have of one history."""
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
    """Determine which segment serves which of the offsets ``[start, end)``.

    Args:
        segments: The segments of a partition, described.
        lineage: Its true history.
        start: First offset.
        end: End (exclusive) of the offsets.
        compare: Determines which of two copies has fewer records.

    Returns:
        The offsets that each segment serves, in order, without overlaps. Offsets that
        no segment of the lineage has are left out.
    """
    copies = sorted(
        (Copy.of(segment, lineage) for segment in _without_prefixes(segments)),
        key=lambda copy: (copy.start, -copy.end, copy.segment.id),
    )
    spans = list(_spans(copies, lineage, start, end))
    staleness = _Staleness(copies, compare)
    forward = _tiles(_choose_onwards(spans, staleness))
    if next(stale_pairs(forward, lineage, compare), None) is None:
        return forward
    backward = _tiles(_choose_from_the_end(spans, staleness))
    if next(stale_pairs(backward, lineage, compare), None) is None:
        return backward
    return forward


def contradictions(
    segments: Sequence[SegmentMetadata],
) -> Iterator[tuple[SegmentMetadata, SegmentMetadata]]:
    """Yield objects with one id and first offset and different ends, the shorter first.

    They contain the same bytes, and differ in which offsets after these are empty.

    Args:
        segments: The segments of a partition with their end offsets.
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
    """Yield tiles of an older state that are served before tiles of a later state.

    Read together they may bring back deleted records: in the later state the cleaner
    has removed a key's tombstone, while the older state still has the records that the
    tombstone deletes.

    Args:
        tiles: What is served, as ``serve`` returned it.
        lineage: The true history.
        compare: Determines which of two copies has fewer records.
    """
    copies = [Copy.of(tile.segment, lineage) for tile in tiles]
    starts = (copy.start for copy in reversed(copies))
    first_starts = list(accumulate(starts, min))[::-1]  # of each tile and later ones
    open_tiles: list[tuple[Tile, Copy]] = []
    for tile, later, first_start in zip(tiles, copies, first_starts, strict=True):
        open_tiles = [one for one in open_tiles if one[1].agreed_end > first_start]
        for before, older in open_tiles:
            first = max(older.start, later.start)
            last = min(older.agreed_end, later.agreed_end)
            if first < last and compare(later.segment, older.segment, first, last) < 0:
                yield before, tile
        open_tiles.append((tile, later))


_Span = tuple[int, int, list[Copy]]
"""Offsets ``[from, to)`` and the copies that count there, sorted by their start."""


def _without_prefixes(
    segments: Sequence[SegmentMetadata],
) -> list[SegmentMetadata]:
    """Leave out segments that are the beginning of another one and so add nothing.

    An active segment that is archived repeatedly leaves many of them. In a cleaned log,
    the beginning may be of a later state than the whole.
    """
    if not all(map(_is_dense, segments)):
        return list(segments)
    longest: dict[int, SegmentMetadata] = {}
    for segment in sorted(segments, key=_last_offset):
        longest[segment.start_offset] = segment
    return [
        segment
        for segment in segments
        if segment == longest[segment.start_offset]
        or not _is_beginning(segment, longest[segment.start_offset])
    ]


def _is_dense(segment: SegmentMetadata) -> bool:
    """Return whether a segment has a record at each of its offsets."""
    return segment.record_count == _last_offset(segment) + 1 - segment.start_offset


def _is_beginning(segment: SegmentMetadata, longer: SegmentMetadata) -> bool:
    """Return whether a segment's history is the beginning of a longer segment's."""
    last = _last_offset(segment)
    epochs = (e for e in longer.leader_epochs or () if e.start_offset <= last)
    return tuple(epochs) == (segment.leader_epochs or ())


def _last_offset(segment: SegmentMetadata) -> int:
    return -1 if segment.end_offset is None else segment.end_offset


def _spans(
    copies: Sequence[Copy], lineage: LeaderEpochs, start: int, end: int
) -> Iterator[_Span]:
    """Yield each range of offsets at which the same copies count, if any does."""
    turns = {start, end}
    for copy in copies:
        turns |= {copy.start, copy.end}
        turns.update(entry.start_offset for entry in copy.epochs.entries)
    turns.update(entry.start_offset for entry in lineage.entries)
    marks = sorted(turn for turn in turns if start <= turn <= end)
    active: list[Copy] = []
    entered = 0
    for low, high in pairwise(marks):
        while entered < len(copies) and copies[entered].start <= low:
            active.append(copies[entered])
            entered += 1
        active = [copy for copy in active if copy.end > low]
        counting = [c for c in active if lineage.accepts(c.epochs.epoch_at(low), low)]
        if counting:
            yield low, high, counting


def _tiles(chosen: Iterable[tuple[int, int, Copy]]) -> list[Tile]:
    """Merge neighbouring spans of one segment."""
    tiles: list[Tile] = []
    for low, high, copy in chosen:
        start = low
        if tiles and tiles[-1].segment == copy.segment and tiles[-1].end == low:
            start = tiles.pop().start
        tiles.append(Tile(copy.segment, start, high))
    return tiles


def _choose_onwards(
    spans: Iterable[_Span], staleness: "_Staleness"
) -> Iterator[tuple[int, int, Copy]]:
    """Choose forwards: the copy that is read continues as long as it can."""
    current: Copy | None = None
    reached = -1
    for low, high, candidates in spans:
        current = current if reached == low else None
        current = _choose(candidates, current, low, high, staleness)
        reached = high
        yield low, high, current


def _choose_from_the_end(
    spans: Sequence[_Span], staleness: "_Staleness"
) -> list[tuple[int, int, Copy]]:
    """Choose backwards, never a copy that is older than what is served after it."""
    chosen: list[tuple[int, int, Copy]] = []
    served: list[Copy] = []
    for low, high, candidates in reversed(spans):
        younger = [
            one
            for one in candidates
            if not any(staleness.is_older(one, other) for other in served)
        ]
        behind = chosen[-1][2] if chosen else None
        copy = _choose(younger or candidates, behind, low, high, staleness)
        chosen.append((low, high, copy))
        if copy is not behind:
            served.append(copy)
    return chosen[::-1]


class _Staleness:
    """Determines which copies are an older state of the log than others."""

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
        """Return whether a copy has fewer records than another around some offsets."""
        first, last = one.common(other, start, end)
        return self._compare(one.segment, other.segment, first, last) < 0

    def is_older(self, copy: Copy, other: Copy) -> bool:
        """Return whether a copy is an older state of the offsets that both have."""
        first, last = (
            max(copy.start, other.start),
            min(copy.agreed_end, other.agreed_end),
        )
        return first < last and self.is_later(other, copy, first, last)

    def is_stale(self, copy: Copy) -> bool:
        """Return whether any copy is a later state of any of a copy's offsets."""
        if copy not in self._known:
            self._known[copy] = any(
                self.is_older(copy, other) for other in self._neighbours[copy]
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
    latest = candidates[0]
    for one in candidates[1:]:
        if staleness.is_later(one, latest, low, high):
            latest = one
    alike = [
        one
        for one in candidates
        if one is latest or not staleness.is_later(latest, one, low, high)
    ]

    def preference(copy: Copy) -> tuple[bool, bool, bool, int, int, str]:
        goes_on = current is not None and copy.segment == current.segment
        return (
            staleness.is_stale(copy),
            not goes_on,
            copy.start != low,
            copy.start,
            -copy.agreed_end,
            copy.segment.id,
        )

    return min(alike, key=preference)
