"""What the leader of a partition does: copy what is closed, delete what has expired.

Everything that it knows is in the journal or in the store. So a leader that dies
anywhere is followed by another one, or by itself, that first finishes what was left.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tieredfs.errors import FencedError, NotFoundError, TieredFSError
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.journal.state import PartitionState
from tieredfs.log.manager.copy_guard import CopyGuard
from tieredfs.log.manager.copyable import DueSegments, closed_segments, copyable
from tieredfs.log.manager.partition_folder import PartitionFolder
from tieredfs.log.manager.status import NO_LAG, PartitionStatus, Role
from tieredfs.log.manager.tiering import RunEndedError, Tiering
from tieredfs.log.planning.columns import end_of
from tieredfs.log.push.outcome import PARTITION_FAILURES, PushedSegment, PushOutcome
from tieredfs.log.push.partition_push import PartitionPush
from tieredfs.log.push.source_log import listed_segments
from tieredfs.log.retention.delete import delete_partition, mark_partition
from tieredfs.log.retention.partition_expiry import delete_expired, plan_expiry
from tieredfs.log.retention.plan import Retention
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["LeaderTask"]

_IN_TIER: Final = (PushOutcome.COPIED, PushOutcome.PRESENT)
_MARK_ATTEMPTS: Final = 5


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
        self._read_again = -1.0
        """When the journal is read again although no other manager was noticed."""
        self._is_cancelled = False
        self._is_marking = False
        self._is_changed = False
        """Whether the journal has changed since it was read."""
        self._is_wanted = False
        """Whether a run was asked for that has not begun yet."""
        self._seen: int | None = None
        """The version of the folder when nothing was left to do; None if something may
        be."""
        self._seen_log: list[SegmentMetadata] | None = None
        """The same of a log without a folder: its segments, as they were listed."""
        self._look_at = -1.0
        """When the partition is looked at also if its folder has not changed."""
        self._idle_seconds = 0.0
        self._deposed: str | None = None
        """The manager before this one, if it was copying when this one took charge."""
        self._done_until = 0
        """Where the segments end that an earlier run has found in the tier."""
        self.status = PartitionStatus(partition, Role.LEADER, epoch)

    def count_from(self, before: PartitionStatus) -> None:
        """Go on with the counts of the task that had the partition before."""
        self.status = self.status.counted_from(before)

    def cancel(self) -> None:
        """Let the task end before its next change."""
        self._is_cancelled = True

    def raise_start_offset(self, offset: int) -> None:
        """Let what is before an offset expire, as Kafka's DeleteRecords does."""
        start = max(offset, self._retention.start_offset)
        self._retention = replace(self._retention, start_offset=start)
        self._is_wanted = True

    def wake(self) -> None:
        """Let the next run look at everything, whatever seems not to have changed."""
        self._is_wanted = True

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do, by a look that costs no request."""
        if self._is_marking:
            return True
        if self._is_wanted or self._is_cancelled or self._clock() >= self._look_at:
            return False
        if self._folder is None:
            return self._tiering.source is None
        return self._seen is not None and self._folder.version() == self._seen

    def run(self) -> bool:
        """Do what is due; afterwards everything that was begun is in the journal.

        Returns:
            Whether something is left that can be done soon: a transaction is open, or
            another manager may still be in the middle of a copy.

        Raises:
            RunEndedError: The task was cancelled, or the partition is being marked.
            FencedError: Another manager is in charge; nothing was changed since.
            TieredFSError: A segment failed, and the others are copied; or a store.
        """
        seen = None if self._folder is None else self._folder.version()
        if self._is_log_unchanged():
            return False
        self._is_wanted = False
        self._seen, self._seen_log, self._look_at = None, None, -1.0
        self._check()
        if self._is_changed:
            self._led, self._is_changed = None, False
        try:
            led = self._led_partition()
            if led.state.deletion is not None:
                delete_partition(self._tiering.target, led, self._epoch)
                self.status = replace(self.status, is_gone=True, lag=NO_LAG)
                return False
            is_left = self._finish_begun(led)
            listed, error, is_waiting = self._copy(led)
            next_ms = self._expire(led)
        except BaseException:
            self._led = None  # what is in the journal is read again
            raise
        if error is not None:
            raise error
        if not (is_left or is_waiting):
            self._seen, self._seen_log = seen, listed
            self._set_next_look(next_ms)
        return is_left or is_waiting

    def mark(self) -> None:
        """Mark the partition to be deleted, by the next run.

        A run that goes on meanwhile ends before its next change.

        Raises:
            FencedError: Another manager is in charge.
        """
        self._is_marking = True
        try:
            self._mark()
        finally:
            self._is_changed = self._is_wanted = True
            self._is_marking = False

    def release(self) -> None:
        """Let another manager take charge without waiting; only while no run goes on.

        Raises:
            FencedError: Another manager has done so already.
        """
        led = self._led or self._tiering.led(self._partition)
        leader = led.state.leader
        if leader is not None and leader.owner == self._tiering.heartbeat.owner:
            led.change("released", PartitionState.released)

    def _led_partition(self) -> LedPartition:
        """Return the partition as the journal has it, which is read now and then.

        A manager that was taken for dead would not notice its successor otherwise,
        while it has nothing to write.
        """
        now = self._clock()
        if self._led is None or now >= self._read_again:
            self._led = self._tiering.led(self._partition)
            self._read_again = now + self._tiering.settings.max_idle
        return self._led

    def _mark(self) -> None:
        for left in reversed(range(_MARK_ATTEMPTS)):
            try:
                mark_partition(self._tiering.led(self._partition), self._epoch)
            except FencedError:
                # A run of this task may have been faster with its last change.
                if not left:
                    raise
            else:
                return

    def _check(self, _piece: object = None) -> None:
        """Raise RunEndedError if the run is to end."""
        if self._is_cancelled:
            raise RunEndedError(f"{self._partition}: its manager has let go of it")
        if self._is_marking:
            raise RunEndedError(f"{self._partition} is being marked to be deleted")

    def _is_log_unchanged(self) -> bool:
        """Return whether a log without a folder is as it was, for one listing."""
        source, seen = self._tiering.source, self._seen_log
        if source is None or self._folder is not None or seen is None:
            return False
        if self._is_wanted or self._clock() >= self._look_at:
            return False
        return listed_segments(source, self._partition) == seen

    def _finish_begun(self, led: LedPartition) -> bool:
        """Finish what was begun and not ended: by this task, or by another leader.

        What is in the store counts. What an incomplete copy has left is removed, but
        not while the manager that began it is alive: it may be about to end the copy.

        Returns:
            Whether something is left for that reason.
        """
        tiering, copying = self._tiering, led.state.copying
        if not (copying or led.state.to_delete):
            return False
        if copying:
            before = led.state.leader
            # From this entry on no other manager begins a copy: what is listed counts.
            led.lead(self._epoch, "look for copies that were begun", lambda now: now)
            if before is not None and before.owner != tiering.heartbeat.owner:
                self._deposed = before.owner
        stored = {one.id for one in listed_segments(tiering.target, self._partition)}
        lost, now_ms = copying - stored, tiering.now_ms()
        if lost and self._deposed and not tiering.heartbeat.is_dead(self._deposed):
            return True
        self._deposed = None
        gone = lost | (led.state.to_delete - stored)
        if gone:
            if not copying:
                led.lead(self._epoch, "look for what is deleted", lambda now: now)
            tiering.target.cancel_copying(self._partition)
        if gone or copying:
            led.change(
                "removed what copies have left" if gone else "the copies were finished",
                lambda now: now.with_settled_copies(stored, now_ms).with_deleted(gone),
            )
        return False

    def _copy(
        self, led: LedPartition
    ) -> tuple[list[SegmentMetadata] | None, TieredFSError | None, bool]:
        """Copy what is closed; an error of the log does not stop its expiry.

        Returns:
            The segments of the log, why one was not copied, and whether one waits for a
            transaction.

        Raises:
            FencedError: Another manager is in charge.
        """
        source = self._tiering.source
        if source is None:
            return None, None, False
        listed: list[SegmentMetadata] | None = None
        try:
            listed = listed_segments(source, self._partition)
            return listed, *self._copy_listed(led, source, listed)
        except FencedError:
            raise
        except PARTITION_FAILURES as error:
            return listed, error, True

    def _copy_listed(
        self,
        led: LedPartition,
        source: RemoteStorageManager,
        listed: list[SegmentMetadata],
    ) -> tuple[TieredFSError | None, bool]:
        """Copy what is closed, up to the last stable offset.

        Returns:
            Why a segment was not copied, and whether one waits for a transaction.
        """
        if not listed:
            return None, False
        tiering, record = self._tiering, self._tiering.record
        closed = closed_segments(source, listed)
        due = DueSegments(closed)
        due.remove_before(max(led.state.log_start, self._done_until))
        self._note_lag(due)
        try:
            stable, damage = copyable(source, listed)
        except NotFoundError:  # the broker has deleted a segment: the next run lists
            return None, True
        guard = CopyGuard(led, self._epoch, tiering.now_ms, self._check)
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
        left = DueSegments(closed)
        error: TieredFSError | None = damage
        for one in push.run():
            if one.outcome is PushOutcome.COPIED:
                guard.add_copied(one.segment)
            if one.outcome in _IN_TIER:
                due.remove(one.segment)
                left.remove(one.segment)
                self._count(one, due)
            error = error or one.error
        guard.finish()
        left.remove_before(led.state.log_start)
        self._note_lag(left)
        if left.is_empty and closed:
            self._done_until = end_of(closed[-1])
        return error, not left.is_empty

    def _count(self, one: PushedSegment, due: DueSegments) -> None:
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

    def _note_lag(self, due: DueSegments) -> None:
        self.status = replace(self.status, lag=due.lag)

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
            self.status,
            earliest_offset=earliest,
            # Where all of it has expired, the log ends where it begins.
            end_offset=max(earliest, plan.end_offset),
        )
        times = [one.since_ms + delay_ms for one in led.state.segments.values()]
        if plan.next_ms is not None:
            times.append(plan.next_ms)
        return min(times, default=None)

    def _set_next_look(self, next_ms: int | None) -> None:
        """Decide when to look again if the folder does not change.

        Topics that only the tier has are looked at ever more rarely while nothing
        changes.
        """
        settings = self._tiering.settings
        interval, longest = settings.interval, settings.max_idle
        self._idle_seconds = min(max(2 * self._idle_seconds, interval), longest)
        has_log = self._tiering.source is not None
        wait = longest if has_log else self._idle_seconds
        if next_ms is not None:
            wait = min(wait, max(0.0, (next_ms - self._tiering.now_ms()) / 1000))
        self._look_at = self._clock() + wait
