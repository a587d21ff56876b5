"""Objects that hold one log and say different ends: which of them a push keeps.

A segment ends where the next one begins, so the same log is copied again when what
follows it has changed. Usually a cleaner has emptied the next segment and put both into
one: then the longer end is the later state. A directory of which an earlier push saw
too little has the shorter one, and so has a replica that is behind.
"""

from collections.abc import Collection, Iterable

from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["is_disputed", "same_log", "was_cleaned"]


def same_log(
    segment: SegmentMetadata, stored: Iterable[SegmentMetadata]
) -> list[SegmentMetadata]:
    """Return the stored objects that hold a segment's log and say another end of it.

    Args:
        segment: The segment, with the id that it has in the target.
        stored: The segments of the target as they were listed.
    """
    return [
        one
        for one in stored
        if (one.start_offset, one.id) == (segment.start_offset, segment.id)
        and one.end_offset not in {None, segment.end_offset}
    ]


def is_disputed(
    shorter: SegmentMetadata,
    longer: SegmentMetadata,
    stored: Iterable[SegmentMetadata],
) -> bool:
    """Tell whether another segment holds what the longer of two objects calls empty.

    Args:
        shorter: One of the objects.
        longer: The one with the later end.
        stored: Segments with their ends; one without records disputes nothing.
    """
    first, last = shorter.end_offset or 0, longer.end_offset or 0
    return any(
        one.id != shorter.id
        and one.record_count != 0
        and one.start_offset <= last
        and (one.end_offset or 0) > first
        for one in stored
    )


def was_cleaned(
    target: RemoteStorageManager, stored: Collection[SegmentMetadata]
) -> bool:
    """Tell whether a cleaner has removed records from any of some segments.

    Args:
        target: Where the segments are.
        stored: The segments as they were listed.

    Raises:
        CorruptDataError: A segment contradicts itself.
        NotFoundError: A segment is gone.
    """
    for listed in stored:
        one = target.describe(listed)
        if one.record_count is not None and one.end_offset is not None:
            offsets = one.end_offset + 1 - one.start_offset
            if one.record_count < offsets:
                return True
    return False
