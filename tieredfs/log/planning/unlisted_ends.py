"""Plan with segments whose listing contains their start and sizes, but not their end.

Describing a segment takes several requests, so that of a long log only those are
described that the answer needs. What tells them apart:

- A segment that reaches beyond another one of the same history, and begins before it,
  contains all of its batches: a log is the same bytes in every replica. So its log is
  larger than that of the other, and than the logs of segments that follow one another.
- The leader-epoch checkpoint of a segment of the same history is a beginning of the
  last segment's, so its size is one of a few.

A size does not prove it: two histories have checkpoints of one size where their last
epochs and start offsets have as many digits, as after an unclean election. So where the
last segment has seen an election, the checkpoints of the segments that have seen it,
too, are compared with its own. And a cleaned log is smaller: short logs are described
whole, and so is a log in which several histories are found.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from typing import Final

from tieredfs.epochs import LeaderEpochs
from tieredfs.format.index.leader_epochs import format_leader_epochs
from tieredfs.log.planning.tiles import last_of, lineage_of
from tieredfs.model import IndexType, SegmentMetadata

__all__ = ["Describe", "Histories", "describe_from", "describe_last"]

Histories = Callable[[Sequence[SegmentMetadata]], list[LeaderEpochs]]
"""Returns the leader-epoch checkpoints of segments, in their order."""

Describe = Callable[[Sequence[SegmentMetadata]], list[SegmentMetadata]]
"""Returns segments with every field known, in their order."""

_MAX_WHOLE: Final = 32  # segments of a log that is described whole
_MAX_NEAR: Final = 500  # segments to describe for one read


def describe_last(
    listed: Sequence[SegmentMetadata], describe: Describe, histories: Histories
) -> list[SegmentMetadata] | None:
    """Return the segments that decide where a log ends.

    Args:
        listed: All segments of a partition, sorted by start offset.
        describe: Describes segments.
        histories: Reads checkpoints.

    Returns:
        The segments, described; None if all segments have to be.

    Raises:
        NotFoundError: A segment is gone.
        CorruptDataError: A segment is inconsistent with its indexes.
    """
    if len(listed) <= _MAX_WHOLE or not all(map(_has_sizes, listed)):
        return None
    first = bisect_left(listed, listed[-1].start_offset, key=_start)
    found = describe(listed[first:])
    if not _are_one_history(found):
        return None
    sizes = _Sizes()
    for segment in reversed(found):
        sizes.add(segment)
    sizes.accept(found)
    for segment in reversed(listed[:first]):
        if sizes.may_reach_the_end(segment):
            (segment,) = describe([segment])  # noqa: PLW2901 - the same, described
            found.insert(0, segment)
            if not _are_one_history(found):
                return None
            sizes.accept(found)
        sizes.add(segment)
    return found if _have_one_history(listed, found, histories) else None


def _have_one_history(
    listed: Sequence[SegmentMetadata],
    described: Sequence[SegmentMetadata],
    histories: Histories,
) -> bool:
    """Return whether the checkpoints of segments are beginnings of the last one's."""
    entries = lineage_of(described).entries
    if len(entries) <= 1:
        return True
    least = len(format_leader_epochs(LeaderEpochs(entries[:1])))
    known = {(one.start_offset, one.id) for one in described}
    others = [
        one
        for one in listed
        if _checkpoint_size(one) > least and (one.start_offset, one.id) not in known
    ]
    return all(one.entries == entries[: len(one.entries)] for one in histories(others))


def describe_from(
    listed: Sequence[SegmentMetadata],
    offset: int,
    max_bytes: int,
    describe: Describe,
    histories: Histories,
) -> list[SegmentMetadata] | None:
    """Return the segment with an offset, and those that follow it without a gap.

    Where another segment has some of their offsets, it has the same records: they are
    of the history in which the log ends.

    Args:
        listed: All segments of a partition, sorted by start offset.
        offset: The offset.
        max_bytes: Bytes of logs to return after the segment with the offset, at most
            about.
        describe: Describes segments.
        histories: Reads checkpoints.

    Returns:
        The segments, described; None if all segments have to be.

    Raises:
        NotFoundError: A segment is gone.
        CorruptDataError: A segment is inconsistent with its indexes.
    """
    last = describe_last(listed, describe, histories)
    first = bisect_right(listed, offset, key=_start) - 1
    if last is None or first < 0:
        return None
    stop, size = first + 1, 0
    while stop < min(len(listed), first + _MAX_NEAR) and size < max_bytes:
        size += listed[stop].size or 0
        stop += 1
    found = describe(listed[first:stop])
    if (found[0].end_offset or 0) < offset or not _are_one_history([*found, *last]):
        return None
    count = 1
    while count < len(found) and _follows(found[count - 1], found[count]):
        count += 1
    return found[:count]


class _Sizes:
    """What the sizes of the segments at the end of a log say of those before.

    Segments are added from the last one backwards.
    """

    def __init__(self) -> None:
        self._starts: list[int] = []  # negated, so that they rise
        self._bytes: list[int] = []
        self._checkpoints: set[int] = set()

    def may_reach_the_end(self, segment: SegmentMetadata) -> bool:
        """Return whether a segment may end last, or be of another history."""
        size = self._bytes[-1] if self._bytes else 0
        return (segment.size or 0) > size or (
            _checkpoint_size(segment) not in self._checkpoints
        )

    def accept(self, described: Sequence[SegmentMetadata]) -> None:
        """Take the sizes that checkpoints of the history of segments have."""
        entries = lineage_of(described).entries
        for count in range(len(entries) + 1):
            beginning = LeaderEpochs(entries[:count])
            self._checkpoints.add(len(format_leader_epochs(beginning)))
        self._checkpoints.update(map(_checkpoint_size, described))

    def add(self, segment: SegmentMetadata) -> None:
        """Count the bytes of a segment that does not reach beyond those after it."""
        size = segment.size or 0
        if segment.end_offset is not None:
            behind = bisect_left(self._starts, -segment.end_offset)
            size += self._bytes[behind - 1] if behind else 0
        self._starts.append(-segment.start_offset)
        self._bytes.append(max(size, self._bytes[-1] if self._bytes else 0))


def _has_sizes(segment: SegmentMetadata) -> bool:
    sizes = segment.index_sizes
    return (
        segment.size is not None
        and sizes is not None
        and IndexType.LEADER_EPOCH in sizes
    )


def _checkpoint_size(segment: SegmentMetadata) -> int:
    return (segment.index_sizes or {}).get(IndexType.LEADER_EPOCH, 0)


def _are_one_history(described: Sequence[SegmentMetadata]) -> bool:
    """Return whether all of the offsets of segments are of the last one's history."""
    lineage = lineage_of(described)
    return last_of(described) is not None and all(
        _agrees(segment, lineage) for segment in described
    )


def _agrees(segment: SegmentMetadata, lineage: LeaderEpochs) -> bool:
    own, end = LeaderEpochs(segment.leader_epochs or ()), _end(segment)
    return own.agreement_end(lineage, segment.start_offset, end) == end


def _follows(before: SegmentMetadata, segment: SegmentMetadata) -> bool:
    return segment.start_offset == _end(before)


def _start(segment: SegmentMetadata) -> int:
    return segment.start_offset


def _end(segment: SegmentMetadata) -> int:
    return -1 if segment.end_offset is None else segment.end_offset + 1
