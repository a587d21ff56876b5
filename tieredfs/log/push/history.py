"""Compare the histories of a push's source and target before a segment is copied."""

from collections.abc import Collection, Sequence
from contextlib import suppress

from tieredfs.epochs import LeaderEpochs
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.log.planning.same_log import LogCopy, check_same_log
from tieredfs.log.push.source_log import UNREADABLE, UNUSABLE, measured
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["check_what_follows", "divergence"]


def check_what_follows(
    source: RemoteStorageManager,
    listing: Sequence[SegmentMetadata],
    target: RemoteStorageManager,
    stored: Collection[SegmentMetadata],
    last: int,
) -> bool:
    """Check that a segment before stored ones is of the same log as these.

    It shares no offset with them, so the source's next segments are compared.

    Args:
        source: The source of the push.
        listing: The partition's segments in the source.
        target: The target of the push.
        stored: Segments that the target has after the segment.
        last: Last offset of the segment.

    Returns:
        True if that is verified; False if no record can be compared.

    Raises:
        AlreadyExistsError: They are of another log.
    """
    following = [one for one in listing if one.start_offset > last]
    for listed in sorted(following, key=source.is_active):  # active ones last
        with suppress(*UNREADABLE, *UNUSABLE):
            segment = measured(source, listed)
            if segment is None:
                continue
            copy = LogCopy.stored(source, source.describe(segment))
            if check_same_log(copy, source.name_of(listed), target, stored):
                return True
    return False


def divergence(
    source: RemoteStorageManager,
    newest: SegmentMetadata,
    target: RemoteStorageManager,
    stored: Collection[SegmentMetadata],
) -> int:
    """Return where the target's last segments leave the source's history.

    Args:
        source: The source of the push.
        newest: The partition's last segment that is copied.
        target: The target of the push.
        stored: The partition's segments in the target.

    Returns:
        The offset; 0 if they do not, or if that cannot be determined.
    """
    found = 0
    with suppress(*UNREADABLE, *UNUSABLE):
        segment = measured(source, newest)
        if segment is None:
            return 0
        checkpoint = source.fetch_index(segment, IndexType.LEADER_EPOCH)
        history, end = parse_leader_epochs(checkpoint), _end(segment)
        known = [one for one in stored if one.start_offset < end]
        for one in sorted(known, key=_end, reverse=True):
            epochs = LeaderEpochs(target.describe(one).leader_epochs or ())
            stop = min(end, _end(one))
            agreed = epochs.agreement_end(history, one.start_offset, stop)
            if agreed == stop:
                break
            found = agreed
    return found


def _end(segment: SegmentMetadata) -> int:
    return 0 if segment.end_offset is None else segment.end_offset + 1
