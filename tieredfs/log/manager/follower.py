"""What a follower of a partition does: know its segments, and have their indexes."""

from dataclasses import replace

from tieredfs.cache.storage import IndexCachedStorage
from tieredfs.errors import CorruptDataError, NotFoundError
from tieredfs.log.manager.status import PartitionStatus, Role
from tieredfs.log.manager.tiering import RunEndedError, Tiering
from tieredfs.log.push.source_log import listed_segments
from tieredfs.model import SegmentMetadata, TopicIdPartition

__all__ = ["FollowerTask"]


class FollowerTask:
    """The task of one partition, which is run again and again, by one thread at a time.

    It never writes to the store. A run is one listing, and one fetch for each new
    segment of the last ones.

    Attributes:
        status: What is known of the partition.
        is_idle: Whether there is nothing to do; never, as it has to list to know.
    """

    is_idle = False

    def __init__(
        self, tiering: Tiering, partition: TopicIdPartition, epoch: int | None
    ) -> None:
        """Create the task, without sending a request.

        Args:
            tiering: What it shares with the others.
            partition: The partition.
            epoch: The leader epoch that it follows.
        """
        self._tiering = tiering
        self._partition = partition
        self._known: frozenset[SegmentMetadata] = frozenset()
        self._warmed: frozenset[SegmentMetadata] = frozenset()
        self._is_cancelled = False
        self.status = PartitionStatus(partition, Role.FOLLOWER, epoch)

    def cancel(self) -> None:
        """Let the task end before its next request."""
        self._is_cancelled = True

    def run(self) -> bool:
        """List the segments, drop what is cached of deleted ones, and cache the last.

        Returns:
            False: nothing is left to do soon.

        Raises:
            RunEndedError: The task was cancelled.
            TieredFSError: The store failed, or an object is not a segment.
        """
        listed = listed_segments(self._tiering.target, self._partition)
        self._forget(self._known.difference(listed))
        self._known = frozenset(listed)
        self._warm(listed)
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
