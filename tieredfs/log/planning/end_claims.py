"""Objects with the same log and different end offsets: which of them a push keeps.

A segment ends where the next one begins, so the same log is copied again when the next
segment has changed. Usually a cleaner has emptied the next segment and merged both:
then the longer object is the later state. The shorter object comes from a directory
that an earlier push saw incomplete, or from a replica that lags behind.
"""

from collections.abc import Collection, Iterable
from itertools import pairwise

from tieredfs.epochs import LeaderEpochs
from tieredfs.log.planning.copies import CopyComparison
from tieredfs.log.planning.overlap import Compare
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["beyond", "is_disputed", "is_longer_wrong", "same_log", "was_cleaned"]


def same_log(
    segment: SegmentMetadata, stored: Iterable[SegmentMetadata]
) -> list[SegmentMetadata]:
    """Return the stored objects with a segment's log and another end offset.

    Args:
        segment: The segment, with its id in the target.
        stored: The segments of the target as they were listed.
    """
    return [
        one
        for one in stored
        if (one.start_offset, one.id) == (segment.start_offset, segment.id)
        and one.end_offset not in {None, segment.end_offset}
    ]


def beyond(
    shorter: SegmentMetadata,
    longer: SegmentMetadata,
    stored: Iterable[SegmentMetadata],
) -> list[SegmentMetadata]:
    """Return other segments that span offsets covered only by the longer object.

    Args:
        shorter: One of the objects.
        longer: The object with the larger end offset.
        stored: Segments with known end offsets.
    """
    first, stop = _end(shorter), _end(longer)
    return [
        one
        for one in stored
        if one.id != shorter.id and max(first, one.start_offset) < min(stop, _end(one))
    ]


def is_disputed(
    shorter: SegmentMetadata,
    longer: SegmentMetadata,
    others: Collection[SegmentMetadata],
    compare: Compare,
) -> bool:
    """Return whether other segments have records where the longer object has none.

    A segment that only spans these offsets does not dispute the end: a cleaner has
    emptied its start. Nor does a segment of which another replica has a later, cleaned
    copy: then that copy decides.

    Args:
        shorter: One of the objects.
        longer: The object with the larger end offset, described.
        others: What ``beyond`` returned, described. A segment whose number of records
            is unknown disputes the end.
        compare: Determines which of two copies has fewer records.

    Raises:
        CorruptDataError: A log that had to be read is corrupt.
        NotFoundError: A segment is gone.
    """
    first, stop = _end(shorter), _end(longer)
    turns = {first, stop}
    for one in others:
        turns |= {one.start_offset, _end(one)}
    marks = sorted(turn for turn in turns if first <= turn <= stop)
    for low, high in pairwise(marks):
        copies = [s for s in others if s.start_offset <= low and high <= _end(s)]
        for one in copies:
            if one.record_count is None:
                return True
            if compare(longer, one, low, high) < 0 and not any(
                _agree(one, other, low, high) and compare(other, one, low, high) < 0
                for other in copies
            ):
                return True
    return False


def is_longer_wrong(
    shorter: SegmentMetadata,
    longer: SegmentMetadata,
    target: RemoteStorageManager,
    stored: Collection[SegmentMetadata],
) -> bool:
    """Return whether the longer of two objects of one log is the wrong one.

    That is so if only it implies that a cleaner has run, while other segments have
    records where it has none.

    Args:
        shorter: One of the objects, which the source has confirmed.
        longer: The object with the larger end offset, as it was listed.
        target: Where the segments are.
        stored: The segments of the partition as they were listed.

    Raises:
        CorruptDataError: A log that had to be read is corrupt.
        NotFoundError: A segment is gone.
    """
    others = [target.describe(one) for one in beyond(shorter, longer, stored)]
    compare = CopyComparison(target)
    if not is_disputed(shorter, target.describe(longer), others, compare):
        return False
    return not was_cleaned(target, (one for one in stored if one.id != longer.id))


def was_cleaned(
    target: RemoteStorageManager, stored: Iterable[SegmentMetadata]
) -> bool:
    """Return whether a cleaner has removed records from any of the segments.

    Args:
        target: Where the segments are.
        stored: The segments as they were listed.

    Raises:
        CorruptDataError: Parts of a segment contradict each other.
        NotFoundError: A segment is gone.
    """
    for listed in stored:
        one = target.describe(listed)
        if one.record_count is not None and one.end_offset is not None:
            offsets = one.end_offset + 1 - one.start_offset
            if one.record_count < offsets:
                return True
    return False


def _end(segment: SegmentMetadata) -> int:
    return 0 if segment.end_offset is None else segment.end_offset + 1


def _agree(one: SegmentMetadata, other: SegmentMetadata, low: int, high: int) -> bool:
    """Return whether two segments are of one history at offsets ``[low, high)``."""
    ours, theirs = (LeaderEpochs(s.leader_epochs or ()) for s in (one, other))
    return ours.agreement_end(theirs, low, high) == high
