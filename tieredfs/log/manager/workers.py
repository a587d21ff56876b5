"""Threads that run whatever is due: no thread is needed only to keep the time."""

import math
import threading
from collections.abc import Callable
from typing import Final

from tieredfs.log.manager.schedule import Schedule
from tieredfs.model import TopicIdPartition
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS
from tieredfs.objects.policy import Deadline

__all__ = ["Workers"]


class Workers:
    """A number of threads, and the schedule that they share.

    One of those that have no task waits for the next due time, and the others for it to
    begin one. The threads do not keep the process alive.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        run: Callable[[TopicIdPartition], float],
        is_idle: Callable[[TopicIdPartition], bool],
        interval: float,
        clock: Callable[[], float],
        count: int,
    ) -> None:
        """Create the threads, which are started by ``start``.

        Args:
            schedule: What is due when; used only under this object's lock.
            run: Runs the task of a partition, and returns in how many seconds the next
                one is due; it must not raise.
            is_idle: Returns whether a task would have nothing to do; without waiting.
            interval: Seconds until an idle partition is due again.
            clock: Returns a time in seconds that only grows.
            count: Number of threads.
        """
        self._schedule: Final = schedule
        self._run = run
        self._is_idle = is_idle
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        self._due = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)
        self._timed_until = math.inf
        """Until when a thread waits that then looks what is due."""
        self._is_closed = False
        self._threads = [
            threading.Thread(
                target=self._work, name=f"tieredfs-manager-{number}", daemon=True
            )
            for number in range(count)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def add(self, partition: TopicIdPartition) -> None:
        """Let a partition be due now.

        Raises:
            InvalidArgumentError: It was added before.
        """
        with self._lock:
            self._schedule.add(partition, self._clock())
            self._due.notify()

    def remove(self, partition: TopicIdPartition) -> None:
        """Forget a partition; a task of it that runs goes on."""
        with self._lock:
            self._schedule.remove(partition)

    def wake(self, partition: TopicIdPartition) -> None:
        """Let a partition be due now."""
        with self._lock:
            self._schedule.wake(partition, self._clock())
            self._due.notify()

    def wait_until_ended(self, partition: TopicIdPartition, seconds: float) -> bool:
        """Wait until no task of a partition runs; return whether that was in time."""
        return self._wait(lambda: not self._schedule.is_running(partition), seconds)

    def close(self, seconds: float) -> bool:
        """Start no more tasks; return whether those that run have ended in time."""
        with self._lock:
            self._is_closed = True
            self._due.notify_all()
        return self._wait(lambda: not self._schedule.is_any_running, seconds)

    def _wait(self, is_met: Callable[[], bool], seconds: float) -> bool:
        deadline = Deadline(seconds)
        with self._lock:
            while not is_met():
                if not deadline.remaining:
                    return False
                # A short wait, which Ctrl-C interrupts.
                self._ended.wait(min(SIGNAL_CHECK_SECONDS, deadline.remaining))
            return True

    def _work(self) -> None:
        while True:
            with self._lock:
                partition = self._next()
            if partition is None:
                return
            seconds = self._run(partition)
            with self._lock:
                self._schedule.finish(partition, self._clock(), seconds)
                self._ended.notify_all()

    def _next(self) -> TopicIdPartition | None:
        """Return the next partition that has something to do; None after the last."""
        while not self._is_closed:
            now = self._clock()
            partition = self._schedule.start_next(now)
            if partition is None:
                self._wait_for_due(now)
            elif self._is_idle(partition):
                self._schedule.finish(partition, now, self._interval)
            else:
                self._due.notify()  # another thread keeps the time now
                return partition
        return None

    def _wait_for_due(self, now: float) -> None:
        """Wait until the next due time, or without one if another thread does."""
        due = self._schedule.next_due()
        if due is None or due >= self._timed_until:
            self._due.wait()
            return
        self._timed_until = due
        try:
            self._due.wait(max(0.0, due - now))
        finally:
            # Another thread may keep an earlier time now. One that kept a later time
            # has perhaps gone, so that time is not taken for kept any more.
            if self._timed_until == due:
                self._timed_until = math.inf
