"""RemoteLogManager: keep the logs of partitions tiered while they are assigned to it.

Partitions are assigned and taken away while it runs, as a controller does with a
broker's. Source: KIP-405, and ``RemoteLogManager`` of Kafka 4.
"""

import random
import threading
import time
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self, SupportsIndex, TypeAlias

from tieredfs.errors import (
    ClosedError,
    DeadlineExceededError,
    FencedError,
    InvalidArgumentError,
    NotFoundError,
    StorageUnavailableError,
    TieredFSError,
    TieredFSWarning,
    UnsupportedOperationError,
)
from tieredfs.integers import to_integer
from tieredfs.log.journal.heartbeat import Heartbeat, unique_owner
from tieredfs.log.journal.journal import journalled_partitions, read_state
from tieredfs.log.journal.local_lock import LocalLock
from tieredfs.log.manager.follower import FollowerTask
from tieredfs.log.manager.leader import LeaderTask
from tieredfs.log.manager.schedule import Backoff, Schedule
from tieredfs.log.manager.settings import DEFAULT_SETTINGS, ManagerSettings
from tieredfs.log.manager.status import PartitionStatus, Role
from tieredfs.log.manager.tiering import RunEndedError, Tiering
from tieredfs.log.manager.workers import Workers
from tieredfs.log.push.push_record import PushRecord
from tieredfs.log.retention.plan import KEEP_ALL, Retention
from tieredfs.model import TopicIdPartition
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = ["RemoteLogManager"]

_Task: TypeAlias = LeaderTask | FollowerTask


@dataclass(slots=True)
class _Assigned:
    """A partition that is assigned.

    Attributes:
        task: Its task.
        failures: Number of the runs that failed.
        error: Why the last run failed; None if it did not.
        in_a_row: Number of the last runs that ended alike: they failed, or they wait
            for a transaction.
        backoff: How long it waits after such a run.
        released: The task before it, if that led the partition and this one does not.
    """

    task: _Task
    failures: int = 0
    error: Exception | None = None
    in_a_row: int = 0
    backoff: Backoff | None = None
    released: LeaderTask | None = None

    @property
    def status(self) -> PartitionStatus:
        """The status: what a task that runs has copied so far is counted."""
        return replace(self.task.status, failures=self.failures, error=self.error)


_TRANSIENT: Final = (DeadlineExceededError, FencedError, StorageUnavailableError)
"""Errors that pass by themselves."""

_SOON: Final = Backoff(0.5, 30.0)
"""After an error that passes by itself: Kafka's ``task.retry.backoff``."""

_LATER: Final = Backoff(30.0, 1800.0)
"""After another one, such as a damaged segment, which is read again each time, also
when the partition was woken."""

_WAITING: Final = Backoff(1.0, 30.0)
"""While a transaction is open."""

_LOCKS: Final = "managers"
_END_SECONDS: Final = 2.0


class RemoteLogManager:
    """Copy what is closed in a broker's logs to a tier, and let the tier expire.

    Each partition has a task every 30 seconds; a pool of threads runs those that are
    due, never two of one partition. A partition that fails waits ever longer, and the
    others do not wait for it. What is in progress is noted in the tier itself, so a
    manager that dies is followed by another one that goes on.

    It may be shared by threads. Use it in a ``with`` block: leaving it closes it.
    """

    def __init__(  # noqa: PLR0913 - what it manages, and its clocks
        self,
        target: RemoteStorageManager,
        source: RemoteStorageManager | None = None,
        settings: ManagerSettings = DEFAULT_SETTINGS,
        *,
        directory: Path | None = None,
        on_status: Callable[[PartitionStatus], object] = lambda _: None,
        heartbeat: Heartbeat | None = None,
        clock: Callable[[], float] = time.monotonic,
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """Create a manager without partitions, without sending a request.

        Args:
            target: The tier.
            source: Where the logs are, usually a broker's log directory; None for
                topics that only the tier has, which then only expire.
            settings: How it works.
            directory: A directory of this user and machine, shared by managers: with it
                a restart neither reads unchanged logs again nor waits for a manager
                that was killed to be taken for dead. None for none.
            on_status: Called with the status of a partition after each of its tasks,
                unless it had nothing to do; from several threads.
            heartbeat: Says that this manager is alive, in place of one that uses
                ``directory``.
            clock: Returns a time in seconds that only grows.
            now_ms: Returns the time, in milliseconds since 1970.
            draw: Returns a random number from 0 to 1, for the jitter.

        Raises:
            UnsupportedOperationError: ``target`` is read only.
        """
        if Capability.WRITE not in target.capabilities:
            raise UnsupportedOperationError(f"{target!r} is read only: nothing to do")
        owner, record, lock = unique_owner(), None, None
        if directory is not None:
            record = PushRecord.in_cache(directory)
            lock = LocalLock(directory / _LOCKS, owner)
        heartbeat = heartbeat or Heartbeat(target.store, owner, lock=lock)
        self._tiering = Tiering(target, source, settings, heartbeat, now_ms, record)
        self._on_status = on_status
        self._clock = clock
        self._lock = threading.Lock()
        self._assigned: dict[TopicIdPartition, _Assigned] = {}
        self._closed = threading.Event()
        self._workers = Workers(
            Schedule(draw),
            run=self._run,
            is_idle=self._is_idle,
            interval=settings.interval,
            clock=clock,
            count=settings.threads,
        )
        self._beats = threading.Thread(
            target=heartbeat.keep,
            args=(self._closed,),
            name="tieredfs-alive",
            daemon=True,
        )

    def __enter__(self) -> Self:
        """Start the manager."""
        self._workers.start()
        self._beats.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the manager, unless that was done: it may not have ended in time."""
        if not self._closed.is_set():
            self.close()

    def assign(
        self,
        partition: TopicIdPartition,
        role: Role | str = Role.LEADER,
        *,
        epoch: SupportsIndex | None = None,
        retention: Retention = KEEP_ALL,
    ) -> None:
        """Take on a partition, or take it on in another role or with a higher epoch.

        Args:
            partition: The partition.
            role: What to do with it.
            epoch: The leader epoch, by which an earlier leader is fenced; None for that
                of the manager before it, which then has to have ended.
            retention: What is kept, as its leader.

        Raises:
            ClosedError: The manager was closed.
            InvalidArgumentError: The epoch is lower than the one it was assigned with,
                or an argument is not what it has to be.
        """
        _check_partition(partition)
        role, epoch = _to_role(role), _to_epoch(epoch)
        with self._lock:
            if self._closed.is_set():
                raise ClosedError("the manager was closed")
            before = self._assigned.get(partition)
            known = None if before is None else before.task.status.epoch
            if known is not None and epoch is not None and epoch < known:
                raise InvalidArgumentError(
                    f"{partition}: leader epoch {epoch} is below {known}, with which "
                    "it was assigned"
                )
            task: _Task
            if role is Role.LEADER:
                task = LeaderTask(
                    self._tiering, partition, epoch, retention, clock=self._clock
                )
            else:
                task = FollowerTask(self._tiering, partition, epoch, clock=self._clock)
            assigned = self._assigned[partition] = _Assigned(task)
            if before is not None:
                assigned.failures = before.failures
                task.count_from(before.task.status)
            if before is not None and role is Role.FOLLOWER:
                led = before.task if isinstance(before.task, LeaderTask) else None
                assigned.released = led or before.released
            if before is None:
                self._workers.add(partition)
        if before is not None:
            before.task.cancel()
            self._workers.wake(partition)

    def revoke(self, partition: TopicIdPartition, *, timeout: float = 30.0) -> bool:
        """Let go of a partition; it stays as it is.

        A task that runs ends before its next change. Another manager can take charge
        without waiting if the task has ended in time.

        Args:
            partition: The partition; one that is not assigned is no error.
            timeout: Seconds to wait for a task that runs.

        Returns:
            Whether the task has ended.

        Raises:
            StorageUnavailableError: The store failed, so that another manager has to
                wait until this one has ended. The partition is no longer assigned.
            CorruptObjectError: Its journal is damaged; it is no longer assigned.
            UnsupportedFormatError: A newer release has written its journal.
        """
        with self._lock:
            found = self._assigned.pop(partition, None)
            self._workers.remove(partition)
        if found is None:
            return True
        task = found.task
        task.cancel()
        has_ended = self._workers.wait_until_ended(partition, timeout)
        led = task if isinstance(task, LeaderTask) else found.released
        if has_ended and led is not None:
            with suppress(ClosedError, FencedError):
                led.release()
        return has_ended

    def delete(
        self, partition: TopicIdPartition, *, epoch: SupportsIndex | None = None
    ) -> None:
        """Mark a partition to be deleted from the tier; its next task deletes it.

        When it returns, nothing is copied to the partition any more, and a manager that
        dies finishes the deletion after its restart: see ``resume_deletions``. A
        partition that is gone is no longer assigned.

        Args:
            partition: The partition, assigned or not.
            epoch: The leader epoch; None for that with which it was assigned, or for
                that of the manager before it.

        Raises:
            ClosedError: The manager was closed.
            FencedError: Another manager is in charge.
            InvalidArgumentError: An argument is not what it has to be.
            UnsupportedOperationError: The store cannot create objects exclusively.
            CorruptObjectError: The journal of the partition is damaged.
            StorageUnavailableError: The store failed in all attempts of its policy.
        """
        _check_partition(partition)
        task = self._leader(partition)
        if task is None or epoch is not None:
            self.assign(partition, Role.LEADER, epoch=epoch)
            task = self._leader(partition)
        if task is None:
            raise ClosedError(f"{partition} was revoked meanwhile")
        try:
            task.mark()
        finally:
            self._workers.wake(partition)

    def resume_deletions(self) -> list[TopicIdPartition]:
        """Take on the partitions that are marked to be deleted, and delete them.

        Returns:
            Those partitions.

        Raises:
            ClosedError: The manager was closed.
            CorruptObjectError: The journal of a partition is damaged.
            UnsupportedFormatError: A newer release has written it.
            StorageUnavailableError: The store failed in all attempts of its policy.
        """
        store = self._tiering.target.store
        found = []
        for partition in journalled_partitions(store):
            if read_state(store, partition).deletion is not None:
                found.append(partition)
                if self._leader(partition) is None:
                    self.assign(partition)
        return found

    def raise_start_offset(self, partition: TopicIdPartition, offset: int) -> None:
        """Let what is before an offset expire, as Kafka's DeleteRecords does.

        Raises:
            NotFoundError: The manager is not the leader of the partition.
            InvalidArgumentError: The offset is not an integer, or negative.
        """
        offset = to_integer(offset, "offset")
        if offset < 0:
            raise InvalidArgumentError(f"offset {offset} is negative")
        task = self._leader(partition)
        if task is None:
            raise NotFoundError(f"not found: {partition} among those that are led")
        task.raise_start_offset(offset)
        self._workers.wake(partition)

    def wake(self, partition: TopicIdPartition) -> None:
        """Run the task of a partition now: its log has changed."""
        with self._lock:
            found = self._assigned.get(partition)
        if found is not None:
            found.task.wake()
        self._workers.wake(partition)

    def status(self) -> list[PartitionStatus]:
        """Return the status of each assigned partition, sorted."""
        with self._lock:
            return [one.status for _, one in sorted(self._assigned.items())]

    def close(self, timeout: float = 30.0) -> bool:
        """Let go of all partitions; another manager can take charge without waiting.

        A task that runs ends before its next change, and what it has begun is settled
        by the next manager.

        Args:
            timeout: Seconds to wait for the tasks that run.

        Returns:
            Whether all of them have ended in time.
        """
        with self._lock:
            was_closed = self._closed.is_set()
            self._closed.set()
            for one in self._assigned.values():
                one.task.cancel()
        have_ended = self._workers.close(timeout)
        if not was_closed:
            if not have_ended:
                self._tiering.target.store.abandon_uploads()
            # A store may hang; then the manager is taken for dead in a minute.
            ending = threading.Thread(target=self._end_heartbeat, daemon=True)
            ending.start()
            ending.join(_END_SECONDS)
        return have_ended

    def _end_heartbeat(self) -> None:
        with suppress(TieredFSError):
            self._tiering.heartbeat.end()

    def _leader(self, partition: TopicIdPartition) -> LeaderTask | None:
        with self._lock:
            found = self._assigned.get(partition)
        task = None if found is None else found.task
        return task if isinstance(task, LeaderTask) else None

    def _is_idle(self, partition: TopicIdPartition) -> bool:
        found = self._assigned.get(partition)
        return found is not None and found.error is None and found.task.is_idle

    def _run(self, partition: TopicIdPartition) -> float:
        """Run the task of a partition; return in how many seconds it is due again."""
        with self._lock:
            found = self._assigned.get(partition)
        if found is None:  # revoked
            return 0.0
        is_waiting = False
        error: Exception | None = None
        try:
            self._release_before(found)
            is_waiting = found.task.run()
        except RunEndedError:
            return 0.0
        except Exception as raised:  # noqa: BLE001 - the other partitions go on
            error = raised.with_traceback(None)
        with self._lock:
            found.error = error
            is_failure = error is not None and not isinstance(error, FencedError)
            found.failures += is_failure
            if found.task.status.is_gone and self._assigned.get(partition) is found:
                del self._assigned[partition]
                self._workers.remove(partition)
            seconds, status = self._wait_of(found, is_waiting=is_waiting), found.status
        self._report(status)
        return seconds

    def _release_before(self, assigned: _Assigned) -> None:
        """Let another manager take charge of what this one has only led before."""
        led = assigned.released
        if led is not None:
            with suppress(FencedError):
                led.release()
            assigned.released = None

    def _report(self, status: PartitionStatus) -> None:
        try:
            self._on_status(status)
        except Exception as error:  # noqa: BLE001 - the other partitions go on
            msg = f"on_status has raised {error!r} for {status.partition}"
            warnings.warn(msg, TieredFSWarning, stacklevel=2)

    def _wait_of(self, assigned: _Assigned, *, is_waiting: bool) -> float:
        """Return the seconds until the next run, and count this one."""
        error = assigned.error
        if error is None and not is_waiting:
            assigned.backoff = None
            return self._tiering.settings.interval
        if error is None:
            backoff = _WAITING
        else:
            backoff = _SOON if isinstance(error, _TRANSIENT) else _LATER
        assigned.in_a_row = assigned.in_a_row + 1 if assigned.backoff is backoff else 1
        assigned.backoff = backoff
        return backoff.seconds(assigned.in_a_row)


def _check_partition(partition: object) -> None:
    if not isinstance(partition, TopicIdPartition):
        raise InvalidArgumentError(
            f"{partition!r} is not a partition: give a TopicIdPartition, as "
            "list_partitions() of a storage returns them"
        )


def _to_role(role: object) -> Role:
    try:
        return Role(str(role))
    except ValueError as error:
        named = " or ".join(Role)
        raise InvalidArgumentError(f"role is {role!r}: give {named}") from error


def _to_epoch(epoch: SupportsIndex | None) -> int | None:
    if epoch is None:
        return None
    number = to_integer(epoch, "epoch")
    if number < 0:
        raise InvalidArgumentError(f"epoch {number} is negative")
    return number
