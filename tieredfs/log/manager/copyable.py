"""Which segments of a log may be copied: those up to its last stable offset."""

from collections.abc import Sequence
from typing import NamedTuple

from tieredfs.errors import CorruptDataError
from tieredfs.log.manager.status import NO_LAG, Lag
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.stable_offset import stable_offset
from tieredfs.log.push.source_log import measured
from tieredfs.model import SegmentMetadata
from tieredfs.objects import last_changed
from tieredfs.storage import RemoteStorageManager

__all__ = ["Copyable", "closed_segments", "copyable", "lag_of"]


def closed_segments(
    source: RemoteStorageManager, listed: Sequence[SegmentMetadata]
) -> list[SegmentMetadata]:
    """Return the segments to which nothing is written any more."""
    return [one for one in listed if not source.is_active(one)]


class Copyable(NamedTuple):
    """How much of a log may be copied.

    Attributes:
        end: The offset up to which it may be.
        error: Why no more of it may be; None if nothing is damaged.
    """

    end: int
    error: CorruptDataError | None = None


def copyable(
    source: RemoteStorageManager, listed: Sequence[SegmentMetadata]
) -> Copyable:
    """Return how much of a log may be copied.

    That is up to its last stable offset, but no further than its last closed segment:
    the active one is read only if a transaction is open where it begins. Where this
    cannot be determined because a segment is damaged, it is up to a segment before.

    Args:
        source: Where the log is.
        listed: Its segments, as they were listed.

    Raises:
        NotFoundError: A segment was deleted meanwhile.
    """
    closed = closed_segments(source, listed)
    error: CorruptDataError | None = None
    while closed:
        try:
            return Copyable(_stable_end(source, listed, closed), error)
        except CorruptDataError as damage:
            error = error or damage
            closed.pop()
    return Copyable(0, error)


def _stable_end(
    source: RemoteStorageManager,
    listed: Sequence[SegmentMetadata],
    closed: Sequence[SegmentMetadata],
) -> int:
    """Return the last stable offset, but no more than where a closed segment ends."""
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
