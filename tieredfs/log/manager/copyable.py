"""Which segments of a log may be copied: those up to its last stable offset."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tieredfs.errors import CorruptDataError
from tieredfs.log.manager.status import NO_LAG, Lag
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.stable_offset import stable_offset
from tieredfs.log.push.source_log import measured
from tieredfs.model import SegmentMetadata
from tieredfs.objects import last_changed
from tieredfs.storage import RemoteStorageManager

__all__ = ["Copyable", "DueSegments", "closed_segments", "copyable"]


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


class DueSegments:
    """The segments of a log that are to be copied, and how far behind the tier is."""

    def __init__(self, segments: Iterable[SegmentMetadata]) -> None:
        """Take the segments, in order."""
        self._due = {one.start_offset: one for one in segments}
        self._size = sum(one.size or 0 for one in self._due.values())

    @property
    def is_empty(self) -> bool:
        """Whether there is no segment to copy."""
        return not self._due

    @property
    def lag(self) -> Lag:
        """How far behind the tier is."""
        first = next(iter(self._due.values()), None)
        if first is None:
            return NO_LAG
        changed = last_changed(first.version)
        since = None if changed is None else changed // 1_000_000
        return Lag(len(self._due), self._size, since)

    def remove(self, segment: SegmentMetadata) -> None:
        """Take out a segment, which is known by its first offset."""
        found = self._due.pop(segment.start_offset, None)
        self._size -= 0 if found is None else found.size or 0

    def remove_before(self, offset: int) -> None:
        """Take out the segments that end before an offset."""
        for one in [one for one in self._due.values() if end_of(one) <= offset]:
            self.remove(one)
