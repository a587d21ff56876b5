"""What a follower of a partition does: know its segments, and have their indexes."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tieredfs.cache.storage import IndexCachedStorage
from tieredfs.errors import CorruptDataError, NotFoundError
from tieredfs.log.manager.status import PartitionStatus, Role
from tieredfs.log.manager.tiering import RunEndedError, Tiering
from tieredfs.log.push.source_log import listed_segments
from tieredfs.model import SegmentMetadata, TopicIdPartition

__all__ = ["FollowerTask"]

_MAX_IDLE_INTERVALS: Final = 4
"""Intervals after which a partition is listed to which nothing happens."""


class FollowerTask:
    """The task of one partition, which is run again and again, by one thread at a time.

    It never writes to the store. A run is one listing, and one fetch for each new
    segment of the last ones. While nothing changes, it lists ever more rarely.

    Attributes:
        status: What is known of the partition.
    """

    def __init__(
        self,
        tiering: Tiering,
        partition: TopicIdPartition,
        epoch: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the task, without sending a request.

        Args:
            tiering: What it shares with the others.
            partition: The partition.
            epoch: The leader epoch that it follows.
            clock: Returns a time in seconds that only grows.
        """
        self._clock = clock
        self._look_at = -1.0
        self._idle_seconds = 0.0
        self._is_wanted = False
        """Whether a run was asked for that has not begun yet."""
        self._tiering = tiering
        self._partition = partition
        self._known: frozenset[SegmentMetadata] = frozenset()
        self._warmed: frozenset[SegmentMetadata] = frozenset()
        self._is_cancelled = False
        self.status = PartitionStatus(partition, Role.FOLLOWER, epoch)

    def count_from(self, before: PartitionStatus) -> None:
        """Go on with the counts of the task that had the partition before."""
        self.status = self.status.counted_from(before)

    def cancel(self) -> None:
        """Let the task end before its next request."""
        self._is_cancelled = True

    def wake(self) -> None:
        """Let the next run list, whatever the last ones have found."""
        self._is_wanted = True

    @property
    def is_idle(self) -> bool:
        """Whether it is too soon to list again."""
        if self._is_wanted or self._is_cancelled:
            return False
        return self._clock() < self._look_at

    def run(self) -> bool:
        """List the segments, drop what is cached of deleted ones, and cache the last.

        Returns:
            False: nothing is left to do soon.

        Raises:
            RunEndedError: The task was cancelled.
            TieredFSError: The store failed, or an object is not a segment.
        """
        self._is_wanted = False
        listed = listed_segments(self._tiering.target, self._partition)
        known, self._known = self._known, frozenset(listed)
        self._forget(known - self._known)
        self._warm(listed)
        self._set_next_look(has_changed=known != self._known)
        starts = [one.start_offset for one in listed]
        ends = [one.end_offset + 1 for one in listed if one.end_offset is not None]
        self.status = replace(
            self.status,
            # The log does not begin anew where all of it has expired.
            earliest_offset=max(
                min(starts, default=0), self.status.earliest_offset or 0
            ),
            end_offset=max(ends, default=self.status.end_offset),
        )
        return False

    def _set_next_look(self, *, has_changed: bool) -> None:
        interval = self._tiering.settings.interval
        idle = 0.0 if has_changed else max(2 * self._idle_seconds, interval)
        self._idle_seconds = min(idle, _MAX_IDLE_INTERVALS * interval)
        self._look_at = self._clock() + self._idle_seconds

    def _forget(self, gone: frozenset[SegmentMetadata]) -> None:
        target = self._tiering.target
        if gone and isinstance(target, IndexCachedStorage):
            target.cache.remove(gone)

    def _warm(self, listed: list[SegmentMetadata]) -> None:
        """Fetch the indexes of the last segments into the cache, if there is one."""
        target, count = self._tiering.target, self._tiering.settings.warmed_segments
        if not isinstance(target, IndexCachedStorage):
            return
        last = listed[-count:] if count else []
        for segment in last:
            if self._is_cancelled:
                raise RunEndedError(f"{self._partition}: its manager has let go of it")
            if segment in self._warmed:
                continue
            try:
                target.fetch_all_indexes(segment)
            except (CorruptDataError, NotFoundError):
                continue  # a reader that needs it gets the error
        self._warmed = frozenset(last)
