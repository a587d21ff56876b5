"""Which segments of a log may be copied: those up to its last stable offset."""

from collections.abc import Sequence

from tieredfs.log.manager.status import NO_LAG, Lag
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.stable_offset import stable_offset
from tieredfs.log.push.source_log import measured
from tieredfs.model import SegmentMetadata
from tieredfs.objects import last_changed
from tieredfs.storage import RemoteStorageManager

__all__ = ["closed_segments", "copyable_end", "lag_of"]


def closed_segments(
    source: RemoteStorageManager, listed: Sequence[SegmentMetadata]
) -> list[SegmentMetadata]:
    """Return the segments to which nothing is written any more."""
    return [one for one in listed if not source.is_active(one)]


def copyable_end(
    source: RemoteStorageManager, listed: Sequence[SegmentMetadata]
) -> int:
    """Return the offset up to which a log may be copied.

    It is the last stable offset, but no later than where the last closed segment ends:
    the active segment is read only if a transaction is open there.

    Args:
        source: Where the log is.
        listed: Its segments, as they were listed.

    Raises:
        NotFoundError: A segment was deleted meanwhile.
        CorruptDataError: A producer snapshot is malformed, or the log of a segment
            without one.
    """
    closed = closed_segments(source, listed)
    if not closed:
        return 0
    end = end_of(closed[-1])
    stable = stable_offset(source, closed)
    if stable >= end:
        return end
    last = [measured(source, one) for one in listed if source.is_active(one)]
    grown = [one for one in last if one is not None]
    return min(stable_offset(source, [*closed, *grown]), end) if grown else stable


def lag_of(segments: Sequence[SegmentMetadata]) -> Lag:
    """Return the lag if these segments, in order, are to be copied."""
    if not segments:
        return NO_LAG
    changed = last_changed(segments[0].version)
    return Lag(
        len(segments),
        sum(one.size or 0 for one in segments),
        None if changed is None else changed // 1_000_000,
    )
