"""Which partition's task runs when, and the threads that run it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
)

from tieredfs import InvalidArgumentError, TopicIdPartition, Uuid
from tieredfs.log.manager.schedule import Backoff, Schedule
from tieredfs.log.manager.workers import Workers

ID = Uuid("AAAAAAAAAAAAAAAAAAAAAQ")
PARTITIONS = [TopicIdPartition("t", number, ID) for number in range(4)]
ONE, TWO, THREE, _ = PARTITIONS
INTERVAL = 30.0
SOON = 10.0
"""Seconds that are never waited for: what takes them does not happen."""


def unvarying() -> float:
    """Return the draw with which there is no jitter."""
    return 0.5


class TestSchedule:
    def test_a_partition_is_due_when_it_is_added(self) -> None:
        schedule = Schedule(unvarying)
        schedule.add(ONE, 5.0)
        assert ONE in schedule
        assert schedule.next_due() == 5.0
        assert schedule.start_next(4.9) is None
        assert schedule.start_next(5.0) == ONE

    def test_the_one_that_is_due_for_longest_is_first(self) -> None:
        schedule = Schedule(unvarying)
        for partition, now in ((TWO, 2.0), (THREE, 3.0), (ONE, 1.0)):
            schedule.add(partition, now)
        found = [schedule.start_next(9.0) for _ in range(4)]
        assert found == [ONE, TWO, THREE, None]

    def test_of_those_due_at_the_same_time_the_first_is_first(self) -> None:
        schedule = Schedule(unvarying)
        for partition in reversed(PARTITIONS):
            schedule.add(partition, 0.0)
        assert [schedule.start_next(0.0) for _ in PARTITIONS] == PARTITIONS[::-1]

    def test_one_that_runs_is_not_started_again(self) -> None:
        schedule = Schedule(unvarying)
        schedule.add(ONE, 0.0)
        assert schedule.start_next(0.0) == ONE
        assert schedule.start_next(inf) is None
        assert schedule.next_due() is None
        schedule.finish(ONE, 1.0, INTERVAL)
        assert schedule.next_due() == 31.0

    def test_one_that_is_woken_while_it_runs_is_due_once_more(self) -> None:
        schedule = Schedule(unvarying)
        schedule.add(ONE, 0.0)
        schedule.start_next(0.0)
        schedule.wake(ONE, 0.5)
        schedule.wake(ONE, 0.6)
        schedule.finish(ONE, 1.0, INTERVAL)
        assert schedule.start_next(1.0) == ONE
        schedule.finish(ONE, 2.0, INTERVAL)
        assert schedule.next_due() == 32.0

    def test_one_that_is_woken_before_it_is_due_is_due_now(self) -> None:
        schedule = Schedule(unvarying)
        schedule.add(ONE, 0.0)
        schedule.start_next(0.0)
        schedule.finish(ONE, 0.0, INTERVAL)
        schedule.wake(ONE, 7.0)
        assert schedule.next_due() == 7.0
        schedule.wake(ONE, 8.0)
        assert schedule.next_due() == 7.0

    def test_waking_one_that_is_not_scheduled_does_nothing(self) -> None:
        schedule = Schedule(unvarying)
        schedule.wake(ONE, 0.0)
        assert schedule.next_due() is None

    def test_one_that_was_removed_is_not_started(self) -> None:
        schedule = Schedule(unvarying)
        schedule.add(ONE, 0.0)
        schedule.remove(ONE)
        schedule.remove(TWO)
        assert ONE not in schedule
        assert schedule.next_due() is None
        assert schedule.start_next(inf) is None

    def test_one_that_is_removed_and_added_while_it_runs_waits_for_the_end(
        self,
    ) -> None:
        schedule = Schedule(unvarying)
        schedule.add(ONE, 0.0)
        schedule.start_next(0.0)
        schedule.remove(ONE)
        schedule.add(ONE, 1.0)
        assert schedule.is_running(ONE)
        assert schedule.start_next(inf) is None
        schedule.finish(ONE, 2.0, INTERVAL)
        assert not schedule.is_running(ONE)
        assert schedule.start_next(2.0) == ONE

    def test_one_that_was_removed_while_it_ran_stays_removed(self) -> None:
        schedule = Schedule(unvarying)
        schedule.add(ONE, 0.0)
        schedule.start_next(0.0)
        schedule.remove(ONE)
        before = schedule.is_any_running
        schedule.finish(ONE, 1.0, INTERVAL)
        assert (before, schedule.is_any_running) == (True, False)
        assert schedule.start_next(inf) is None

    def test_one_cannot_be_added_twice(self) -> None:
        schedule = Schedule(unvarying)
        schedule.add(ONE, 0.0)
        with pytest.raises(InvalidArgumentError, match="t-0 is scheduled already"):
            schedule.add(ONE, 0.0)

    @pytest.mark.parametrize(("draw", "due"), [(0.0, 24.0), (0.5, 30.0), (1.0, 36.0)])
    def test_an_interval_varies_by_a_fifth(self, draw: float, due: float) -> None:
        schedule = Schedule(lambda: draw)
        schedule.add(ONE, 0.0)
        schedule.start_next(0.0)
        schedule.finish(ONE, 0.0, INTERVAL)
        assert schedule.next_due() == pytest.approx(due)


class TestBackoff:
    def test_it_doubles_up_to_the_longest(self) -> None:
        backoff = Backoff(0.5, 30.0)
        found = [backoff.seconds(failures) for failures in range(1, 9)]
        assert found == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]

    def test_it_does_not_overflow(self) -> None:
        assert Backoff(0.5, 30.0).seconds(10**6) == 30.0


class Schedules(RuleBasedStateMachine):
    """A schedule beside a list of when each partition is due."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule = Schedule(unvarying)
        self.now = 0.0
        self.due: dict[TopicIdPartition, float | None] = {}
        """When each is due; None while its task runs."""
        self.woken: set[TopicIdPartition] = set()
        self.running: set[TopicIdPartition] = set()

    partitions = st.sampled_from(PARTITIONS)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, INTERVAL]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(partition=partitions)
    def add(self, partition: TopicIdPartition) -> None:
        if partition in self.due:
            with pytest.raises(InvalidArgumentError):
                self.schedule.add(partition, self.now)
            return
        self.schedule.add(partition, self.now)
        is_running = partition in self.running
        self.due[partition] = None if is_running else self.now
        if is_running:
            self.woken.add(partition)

    @rule(partition=partitions)
    def remove(self, partition: TopicIdPartition) -> None:
        self.schedule.remove(partition)
        self.due.pop(partition, None)
        self.woken.discard(partition)

    @rule(partition=partitions)
    def wake(self, partition: TopicIdPartition) -> None:
        self.schedule.wake(partition, self.now)
        if partition not in self.due:
            return
        due = self.due[partition]
        if due is None:
            self.woken.add(partition)
        else:
            self.due[partition] = min(due, self.now)

    @rule()
    def start(self) -> None:
        found = self.schedule.start_next(self.now)
        times = {key: due for key, due in self.due.items() if due is not None}
        if found is None:
            assert min(times.values(), default=inf) > self.now
            return
        assert found not in self.running
        assert times[found] == min(times.values()) <= self.now
        self.due[found] = None
        self.running.add(found)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), seconds=st.sampled_from([0.0, 1.0, INTERVAL]))
    def finish(self, data: st.DataObject, seconds: float) -> None:
        partition = data.draw(st.sampled_from(sorted(self.running)))
        self.schedule.finish(partition, self.now, seconds)
        self.running.discard(partition)
        if partition in self.due:
            wait = 0.0 if partition in self.woken else seconds
            self.due[partition] = self.now + wait
        self.woken.discard(partition)

    @invariant()
    def it_is_as_expected(self) -> None:
        times = [due for due in self.due.values() if due is not None]
        assert self.schedule.next_due() == min(times, default=None)
        for partition in PARTITIONS:
            assert (partition in self.schedule) == (partition in self.due)
            is_running = partition in self.running
            assert self.schedule.is_running(partition) == is_running
        assert self.schedule.is_any_running == bool(self.running)


Schedules.TestCase.settings = settings(stateful_step_count=40, deadline=None)
TestSchedules = Schedules.TestCase


class Clock:
    """A clock that a test moves; threads that wait for a time are woken then."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Runs:
    """What workers have run, each of which may be made to wait."""

    def __init__(self, seconds: float = INTERVAL) -> None:
        self.seconds = seconds
        self.found: list[TopicIdPartition] = []
        self.together = 0
        self.most_together = 0
        self.idle: set[TopicIdPartition] = set()
        self.held: set[TopicIdPartition] = set()
        self.changed = threading.Condition()

    def __call__(self, partition: TopicIdPartition) -> float:
        with self.changed:
            self.found.append(partition)
            self.together += 1
            self.most_together = max(self.most_together, self.together)
            self.changed.notify_all()
            self.changed.wait_for(lambda: partition not in self.held)
            self.together -= 1
            self.changed.notify_all()
        return self.seconds

    def wait_for(self, is_met: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(is_met, SOON)

    def release(self, *partitions: TopicIdPartition) -> None:
        with self.changed:
            self.held -= set(partitions)
            self.changed.notify_all()


@contextmanager
def working(
    runs: Runs, count: int = 2, *, clock: Callable[[], float] | None = None
) -> Iterator[Workers]:
    """Run workers, and let them end."""
    workers = Workers(
        Schedule(unvarying),
        run=runs,
        is_idle=lambda partition: partition in runs.idle,
        interval=INTERVAL,
        clock=clock or Clock(),
        count=count,
    )
    workers.start()
    try:
        yield workers
    finally:
        runs.release(*PARTITIONS)
        assert workers.close(SOON)
        for thread in workers._threads:
            thread.join(SOON)
            assert not thread.is_alive()


class TestWorkers:
    def test_what_is_added_runs(self) -> None:
        runs = Runs()
        with working(runs) as workers:
            for partition in PARTITIONS:
                workers.add(partition)
            runs.wait_for(lambda: sorted(runs.found) == PARTITIONS)

    def test_a_partition_that_hangs_delays_no_other(self) -> None:
        runs = Runs()
        runs.held = {ONE}
        with working(runs) as workers:
            workers.add(ONE)
            runs.wait_for(lambda: runs.found == [ONE])
            for partition in PARTITIONS[1:]:
                workers.add(partition)
            runs.wait_for(lambda: sorted(runs.found) == PARTITIONS)

    def test_as_many_run_together_as_there_are_threads(self) -> None:
        runs = Runs()
        runs.held = set(PARTITIONS)
        with working(runs, count=3) as workers:
            for partition in PARTITIONS:
                workers.add(partition)
            runs.wait_for(lambda: runs.together == 3)
            runs.release(*PARTITIONS)
            runs.wait_for(lambda: len(runs.found) == 4)
        assert runs.most_together == 3

    def test_never_two_tasks_of_a_partition_run(self) -> None:
        runs = Runs()
        runs.held = {ONE}
        with working(runs) as workers:
            workers.add(ONE)
            runs.wait_for(lambda: runs.together == 1)
            workers.wake(ONE)
            workers.remove(ONE)
            workers.add(ONE)
            workers.wake(ONE)
            workers.add(TWO)  # it runs on the other thread, which finds no more to do
            runs.wait_for(lambda: runs.found == [ONE, TWO])
            runs.release(ONE)
            runs.wait_for(lambda: runs.found == [ONE, TWO, ONE])
        assert runs.found == [ONE, TWO, ONE]

    def test_one_that_is_idle_does_not_run(self) -> None:
        runs = Runs()
        runs.idle = {ONE}
        with working(runs) as workers:
            workers.add(ONE)
            workers.add(TWO)
            runs.wait_for(lambda: runs.found == [TWO])
            runs.idle = set()
            workers.wake(ONE)
            runs.wait_for(lambda: runs.found == [TWO, ONE])

    def test_one_runs_again_after_what_its_task_has_returned(self) -> None:
        runs = Runs(seconds=0.0)
        with working(runs, count=1) as workers:
            workers.add(ONE)
            workers.add(TWO)
            runs.wait_for(lambda: runs.found[:6] == [ONE, TWO] * 3)
            workers.remove(ONE)
            workers.remove(TWO)

    def test_waiting_for_an_end_says_whether_it_came(self) -> None:
        runs = Runs()
        runs.held = {ONE}
        with working(runs) as workers:
            workers.add(ONE)
            runs.wait_for(lambda: runs.together == 1)
            assert workers.wait_until_ended(TWO, 0.0)
            assert not workers.wait_until_ended(ONE, 0.01)
            runs.release(ONE)
            assert workers.wait_until_ended(ONE, SOON)

    def test_closing_starts_nothing_more_and_says_what_still_runs(self) -> None:
        runs = Runs()
        runs.held = {ONE}
        with working(runs, count=1) as workers:
            workers.add(ONE)
            runs.wait_for(lambda: runs.together == 1)
            workers.add(TWO)
            assert not workers.close(0.01)
            runs.release(ONE)
            assert workers.close(SOON)
        assert runs.found == [ONE]

    def test_a_time_that_a_thread_no_longer_keeps_is_kept_by_another(self) -> None:
        """The thread that keeps a late time takes a task, then so does an earlier one.

        Both have ended when only the late time is left.
        """
        clock, runs = Clock(), Runs(seconds=1000.0)
        with working(runs, count=2, clock=clock) as workers:
            workers.add(ONE)  # due again at 1000
            runs.wait_for(lambda: runs.found == [ONE] and not runs.together)
            _wait_until_kept(workers, 1000.0, waiting=2)
            runs.seconds, runs.held = 0.05, {TWO, THREE}
            workers.add(TWO)
            runs.wait_for(lambda: runs.together == 1)
            _wait_until_kept(workers, 1000.0, waiting=1)
            runs.release(TWO)  # due again at 0.05, which the other thread keeps
            runs.wait_for(lambda: not runs.together)
            _wait_until_kept(workers, 0.05, waiting=2)
            workers.add(THREE)  # taken by the thread that kept 1000
            runs.wait_for(lambda: runs.together == 1)
            runs.seconds, clock.seconds = 2000.0, 999.9
            runs.wait_for(lambda: runs.found.count(TWO) == 2 and runs.together == 1)
            runs.release(THREE)
            runs.wait_for(lambda: not runs.together)
            _wait_until_kept(workers, 1000.0, waiting=2)
            clock.seconds = 1000.0
            runs.wait_for(lambda: runs.found.count(ONE) == 2)

    def test_no_wake_up_is_lost(self) -> None:
        """Threads add, wake and remove for a while; each partition runs in the end."""
        runs = Runs(seconds=0.001)
        partitions = [TopicIdPartition("t", number, ID) for number in range(40)]

        def disturb(some: list[TopicIdPartition]) -> None:
            for number in range(300):
                one = some[number % len(some)]
                workers.wake(one)
                if number % 7 == 0:
                    workers.remove(one)
                    workers.add(one)

        with working(runs, count=3, clock=time.monotonic) as workers:
            for one in partitions:
                workers.add(one)
            threads = [
                threading.Thread(target=disturb, args=(partitions[n::4],))
                for n in range(4)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            with runs.changed:
                runs.found.clear()
            runs.wait_for(lambda: set(runs.found) == set(partitions))
            for one in partitions:
                workers.remove(one)
        assert runs.most_together <= 3


def _wait_until_kept(workers: Workers, due: float, *, waiting: int) -> None:
    """Wait until a thread waits for a time, of so many that wait."""
    pause = threading.Event()
    for _ in range(2000):
        with workers._lock:
            waiters = len(vars(workers._due)["_waiters"])
            if (workers._timed_until, waiters) == (due, waiting):
                return
        pause.wait(0.005)
    raise AssertionError(workers._timed_until, waiters)
