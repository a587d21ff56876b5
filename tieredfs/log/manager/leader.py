"""What the leader of a partition does: copy what is closed, delete what has expired.

Everything that it knows is in the journal or in the store. So a leader that dies
anywhere is followed by another one, or by itself, that first settles what was left.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from tieredfs.errors import ClosedError, NotFoundError, TieredFSError
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.journal.state import PartitionState
from tieredfs.log.manager.copy_guard import CopyGuard
from tieredfs.log.manager.copyable import closed_segments, copyable, lag_of
from tieredfs.log.manager.partition_folder import PartitionFolder
from tieredfs.log.manager.status import NO_LAG, PartitionStatus, Role
from tieredfs.log.manager.tiering import Tiering
from tieredfs.log.push.outcome import PushedSegment, PushOutcome
from tieredfs.log.push.partition_push import PartitionPush
from tieredfs.log.push.source_log import listed_segments
from tieredfs.log.retention.delete import delete_partition, mark_partition
from tieredfs.log.retention.partition_expiry import delete_expired, plan_expiry
from tieredfs.log.retention.plan import Retention
from tieredfs.model import SegmentMetadata, TopicIdPartition

__all__ = ["LeaderTask"]

_MAX_IDLE_SECONDS: Final = 600.0
"""Seconds after which an idle partition is looked at, as something else may have
changed it."""

_IN_TIER: Final = (PushOutcome.COPIED, PushOutcome.PRESENT)


class LeaderTask:
    """The task of one partition, which is run again and again, by one thread at a time.

    Attributes:
        status: What is known of the partition.
    """

    def __init__(
        self,
        tiering: Tiering,
        partition: TopicIdPartition,
        epoch: int | None,
        retention: Retention,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the task, without sending a request.

        Args:
            tiering: What it shares with the others.
            partition: The partition.
            epoch: The leader epoch; None for that of the manager before it.
            retention: What is kept.
            clock: Returns a time in seconds that only grows.
        """
        self._tiering = tiering
        self._partition = partition
        self._epoch = epoch
        self._retention = retention
        self._clock = clock
        self._folder = PartitionFolder.of(tiering.source, partition)
        self._led: LedPartition | None = None
        self._is_cancelled = False
        self._is_changed = False
        """Whether the journal has changed since it was read."""
        self._seen: int | None = None
        """The version of the folder when nothing was left to do; None if something may
        be."""
        self._look_at = -1.0
        """When the partition is looked at also if its folder has not changed."""
        self._idle_seconds = 0.0
        self.status = PartitionStatus(partition, Role.LEADER, epoch)

    def cancel(self) -> None:
        """Let the task end before its next change."""
        self._is_cancelled = True

    def raise_start_offset(self, offset: int) -> None:
        """Let what is before an offset expire, as Kafka's DeleteRecords does."""
        start = max(offset, self._retention.start_offset)
        self._retention = replace(self._retention, start_offset=start)
        self._look_at = -1.0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do, by a look that costs no request."""
        if self._clock() >= self._look_at or self._is_cancelled:
            return False
        if self._folder is None:
            return True
        return self._seen is not None and self._folder.version() == self._seen

    def run(self) -> bool:
        """Do what is due; afterwards everything that was begun is in the journal.

        Returns:
            Whether something is left that can be done soon: a transaction is open.

        Raises:
            ClosedError: The task was cancelled.
            FencedError: Another manager is in charge; nothing was changed since.
            TieredFSError: A segment failed, and the others are copied; or a store.
        """
        seen = None if self._folder is None else self._folder.version()
        self._seen, self._look_at = None, -1.0
        self._check()
        if self._is_changed:
            self._led, self._is_changed = None, False
        try:
            led = self._led = self._led or self._tiering.led(self._partition)
            if led.state.deletion is not None:
                delete_partition(self._tiering.target, led, self._epoch)
                self.status = replace(self.status, is_gone=True, lag=NO_LAG)
                return False
            self._resolve(led)
            error, is_waiting = self._copy(led)
            next_ms = self._expire(led)
        except BaseException:
            self._led = None  # what is in the journal is read again
            raise
        if error is not None:
            raise error
        if not is_waiting:
            self._seen = seen
            self._set_next_look(next_ms)
        return is_waiting

    def mark(self) -> None:
        """Mark the partition to be deleted, by the next run.

        Raises:
            FencedError: Another manager is in charge, or a run of this task has changed
                the partition meanwhile.
        """
        mark_partition(self._tiering.led(self._partition), self._epoch)
        self._is_changed, self._look_at = True, -1.0

    def release(self) -> None:
        """Let another manager take charge without waiting; only while no run goes on.

        Raises:
            FencedError: Another manager has done so already.
        """
        led = self._led or self._tiering.led(self._partition)
        leader = led.state.leader
        if leader is not None and leader.owner == self._tiering.heartbeat.owner:
            led.change("released", PartitionState.released)

    def _check(self, _piece: object = None) -> None:
        """Raise ClosedError if the task was cancelled."""
        if self._is_cancelled:
            raise ClosedError(f"{self._partition}: its manager has let go of it")

    def _resolve(self, led: LedPartition) -> None:
        """Resolve what was begun and not ended, by this task or by another leader.

        What is in the store counts. What an incomplete copy has left is removed.
        """
        state, target = led.state, self._tiering.target
        if not (state.copying or state.to_delete):
            return
        stored = {one.id for one in listed_segments(target, self._partition)}
        now_ms = self._tiering.now_ms()
        if state.copying:
            led.lead(
                self._epoch,
                "resolve the copies that were begun",
                lambda state: state.with_settled_copies(stored, now_ms),
            )
        lost = led.state.to_delete - stored
        if lost:
            led.lead(self._epoch, "remove what copies have left", lambda state: state)
            target.cancel_copying(self._partition)
            led.change(
                "removed what copies have left", lambda state: state.with_deleted(lost)
            )

    def _copy(self, led: LedPartition) -> tuple[TieredFSError | None, bool]:
        """Copy what is closed, up to the last stable offset.

        Returns:
            Why a segment was not copied, and whether one waits for a transaction.
        """
        tiering, source = self._tiering, self._tiering.source
        listed = [] if source is None else listed_segments(source, self._partition)
        if source is None or not listed:
            return None, False
        due = closed_segments(source, listed)
        known = self.status.end_offset or 0
        self._note_lag([one for one in due if (one.end_offset or 0) >= known])
        try:
            stable, damage = copyable(source, listed)
        except NotFoundError:  # the broker has deleted a segment: the next run lists
            return None, True
        guard = CopyGuard(led, self._epoch, tiering.now_ms, self._check)
        record = tiering.record
        error: TieredFSError | None = damage
        push = PartitionPush(
            source,
            tiering.target,
            self._partition,
            active=False,
            repair=False,
            interval_bytes=tiering.settings.interval_bytes,
            log_start=led.state.log_start,
            stable_offset=stable,
            record=None if record is None else record.of(source, self._partition),
            watch=self._check,
            guard=guard,
        )
        for one in push.run():
            if one.outcome is PushOutcome.COPIED:
                guard.add_copied(one.segment)
            if one.outcome in _IN_TIER:
                due = [s for s in due if s.start_offset != one.segment.start_offset]
                self._count(one, due)
            error = error or one.error
        guard.finish()
        log_start = led.state.log_start
        due = [s for s in due if (s.end_offset or 0) >= log_start]
        self._note_lag(due)
        return error, bool(due)

    def _count(self, one: PushedSegment, due: Sequence[SegmentMetadata]) -> None:
        """Note a segment that is in the tier, and what is still to be copied."""
        status, segment = self.status, one.segment
        is_new = one.outcome is PushOutcome.COPIED
        end = 0 if segment.end_offset is None else segment.end_offset + 1
        self.status = replace(
            status,
            end_offset=max(end, status.end_offset or 0),
            copied_segments=status.copied_segments + is_new,
            copied_bytes=status.copied_bytes + (segment.size or 0) * is_new,
        )
        self._note_lag(due)

    def _note_lag(self, due: Sequence[SegmentMetadata]) -> None:
        self.status = replace(self.status, lag=lag_of(due))

    def _expire(self, led: LedPartition) -> int | None:
        """Delete what has expired; return when something else will have, if known."""
        tiering = self._tiering
        now_ms, delay_ms = tiering.now_ms, tiering.settings.delete_delay_ms
        plan = plan_expiry(
            tiering.target, tiering.catalog, led.state, self._retention, now_ms()
        )
        if plan.log_start > led.state.log_start or plan.segments:
            for _ in delete_expired(
                tiering.target,
                led,
                plan,
                epoch=self._epoch,
                delay_ms=delay_ms,
                now_ms=now_ms,
                is_released=False,
            ):
                deleted = self.status.deleted_segments + 1
                self.status = replace(self.status, deleted_segments=deleted)
                self._idle_seconds = 0.0
                self._check()
        earliest = max(plan.log_start, plan.first_offset)
        self.status = replace(
            self.status, earliest_offset=earliest, end_offset=plan.end_offset
        )
        times = [one.since_ms + delay_ms for one in led.state.segments.values()]
        if plan.next_ms is not None:
            times.append(plan.next_ms)
        return min(times, default=None)

    def _set_next_look(self, next_ms: int | None) -> None:
        """Decide when to look again if the folder does not change.

        Topics without a folder are looked at ever more rarely while nothing changes.
        """
        interval = self._tiering.settings.interval
        self._idle_seconds = min(
            max(2 * self._idle_seconds, interval), _MAX_IDLE_SECONDS
        )
        wait = _MAX_IDLE_SECONDS if self._folder else self._idle_seconds
        if next_ms is not None:
            wait = min(wait, max(0.0, (next_ms - self._tiering.now_ms()) / 1000))
        self._look_at = self._clock() + wait
