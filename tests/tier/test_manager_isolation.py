"""A partition that hangs, fails, changes or rests costs no other anything."""

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import pytest
from typing_extensions import override

from support.log_directories import log_of, partition_of, source_of, write_log
from support.managers import (
    ROLLING,
    SOON,
    Failing,
    Held,
    Noted,
    grown,
    is_own,
    managing,
    status_of,
    stored,
    wait_for,
)
from support.rolling_log import RollingLog
from support.transactions import no_producers
from tieredfs import (
    ClosedError,
    CorruptBatchError,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    StorageUnavailableError,
    TopicIdPartition,
)
from tieredfs.log.manager.manager import RemoteLogManager
from tieredfs.log.retention.plan import Retention
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import (
    READS,
    WRITES,
    InterceptedStore,
    WatchedStore,
    scratch_store,
)

_T = TypeVar("_T")
MakeStorage = Callable[[ObjectStore], RemoteStorageManager]


@dataclass(frozen=True, slots=True)
class Partitions:
    """Partitions of a small log directory.

    Attributes:
        root: The log directory.
        names: Its partitions.
    """

    root: Path
    names: tuple[TopicIdPartition, ...]

    @classmethod
    def made(cls, root: Path, count: int) -> Self:
        logs = {start: log_of(start) for start in range(0, 40, 10)}
        for number in range(count):
            folder = write_log(root, logs, partition=f"t-{number}")
            for start in logs:
                (folder / f"{start:020d}.snapshot").write_bytes(no_producers())
        names = (replace(partition_of(), partition=n) for n in range(count))
        return cls(root, tuple(names))

    def path(self, number: int, name: str) -> Path:
        return self.root / f"t-{number}" / name

    def age(self) -> None:
        """Let all folders and files be an hour old."""
        hour_ago = time.time() - 3600
        for path in self.root.rglob("*"):
            os.utime(path, (hour_ago, hour_ago))


@pytest.fixture
def three(tmp_path: Path) -> Partitions:
    """Three partitions of three closed segments each."""
    return Partitions.made(tmp_path, 3)


class TestFailures:
    @pytest.mark.parametrize("layout", [SingleObject, KafkaLocal])
    def test_a_partition_that_hangs_delays_no_other(
        self, three: Partitions, layout: MakeStorage, memory: ObjectStore
    ) -> None:
        held = Held.over(memory, lambda _, key: "/0/" in key or "t-0" in key)
        with managing(layout(held), source_of(three.root)) as manager:
            manager.assign(three.names[0], epoch=0)
            assert held.reached.wait(SOON)
            for one in three.names[1:]:
                manager.assign(one, epoch=0)
            for one in three.names[1:]:
                wait_for(partial(_has_copied, manager, one, 3))
            assert status_of(manager, three.names[0]).copied_segments == 0
            assert not manager.revoke(three.names[0], timeout=0.01)
            held.release.set()

    def test_one_that_fails_waits_longer_and_longer_and_no_other_waits(
        self, three: Partitions, memory: ObjectStore
    ) -> None:
        failing = Failing.over(memory, lambda key: "/0/" in key)
        begun = time.monotonic()
        with managing(SingleObject(failing), source_of(three.root)) as manager:
            for one in three.names:
                manager.assign(one, epoch=0)
            for one in three.names[1:]:
                wait_for(partial(_has_copied, manager, one, 3))
            wait_for(lambda: status_of(manager, three.names[0]).failures == 2)
            assert time.monotonic() - begun >= 0.8 * 0.5
            error = status_of(manager, three.names[0]).error
            assert isinstance(error, StorageUnavailableError)
            failing.is_failing = lambda _: False
            manager.wake(three.names[0])
            wait_for(partial(_has_copied, manager, three.names[0], 3))
            wait_for(lambda: status_of(manager, three.names[0]).error is None)

    def test_a_corrupt_segment_fails_alone(
        self, three: Partitions, memory: ObjectStore
    ) -> None:
        first, path = three.names[0], three.path(0, f"{10:020d}.log")
        data = path.read_bytes()
        path.write_bytes(data[:80] + bytes([data[80] ^ 1]) + data[81:])
        target = SingleObject(memory)
        with managing(target, source_of(three.root)) as manager:
            manager.assign(first, epoch=0, retention=Retention(start_offset=5))
            wait_for(lambda: status_of(manager, first).failures)
            status = status_of(manager, first)
            assert isinstance(status.error, CorruptBatchError)
            assert stored(target, first) == [0, 20]
            assert (status.lag.segments, status.earliest_offset) == (1, 0)
            path.write_bytes(data)
            manager.wake(first)
            wait_for(lambda: stored(target, first) == [0, 10, 20])
            wait_for(lambda: status_of(manager, first).error is None)

    def test_a_log_that_cannot_be_copied_expires_nevertheless(
        self, three: Partitions, memory: ObjectStore
    ) -> None:
        first, target = three.names[0], SingleObject(memory)
        with managing(target, source_of(three.root)) as manager:
            manager.assign(first, epoch=0)
            wait_for(partial(_has_copied, manager, first, 3))
            three.path(0, f"{30:020d}.snapshot").write_bytes(b"damaged")
            manager.wake(first)
            wait_for(lambda: status_of(manager, first).failures)
            manager.raise_start_offset(first, 10)
            wait_for(lambda: stored(target, first) == [10, 20])

    def test_a_store_that_was_closed_is_an_error_and_no_busy_loop(
        self, three: Partitions, memory: ObjectStore
    ) -> None:
        closed = Failing.over(memory, lambda _: True)
        closed.error = ClosedError
        with managing(SingleObject(closed), source_of(three.root)) as manager:
            manager.assign(three.names[0], epoch=0)
            wait_for(lambda: status_of(manager, three.names[0]).failures)
            assert isinstance(status_of(manager, three.names[0]).error, ClosedError)
            time.sleep(0.1)
            assert status_of(manager, three.names[0]).failures == 1


class TestChanges:
    def test_a_folder_that_vanishes_leaves_the_tier_as_it_is(
        self, three: Partitions, memory: ObjectStore
    ) -> None:
        first, target = three.names[0], SingleObject(memory)
        with managing(target, source_of(three.root)) as manager:
            manager.assign(first, epoch=0)
            wait_for(partial(_has_copied, manager, first, 3))
            shutil.rmtree(three.root / "t-0")
            manager.wake(first)
            manager.raise_start_offset(first, 10)
            wait_for(lambda: stored(target, first) == [10, 20])
            assert status_of(manager, first).failures == 0
            write_log(three.root, {n: log_of(n) for n in range(0, 50, 10)})
            manager.wake(first)
            wait_for(lambda: stored(target, first) == [10, 20, 30])

    @pytest.mark.parametrize("act", ["roll", "delete", "merge"])
    def test_the_log_may_change_at_any_request(self, act: str) -> None:
        """The broker changes its log at each request in turn; no record is missing."""
        for at in range(0, 60, 4):
            with scratch_store() as place, scratch_store() as tier:
                log = RollingLog(place)
                grown(log, 4)
                numbers = iter(range(10**6))
                note = partial(_act_at, log, act, at, numbers)
                source = Noted.over(place, note, READS)
                target = SingleObject(tier)
                with managing(target, KafkaLog(source)) as manager:
                    manager.assign(ROLLING, epoch=0)
                    wait_for(partial(_is_whole, target, log))


class TestIdleLeaders:
    def test_an_idle_leader_of_a_folder_sends_no_request(
        self, three: Partitions, memory: ObjectStore
    ) -> None:
        three.age()
        watched = WatchedStore.over(memory, {*READS, *WRITES})
        with managing(SingleObject(watched), source_of(three.root)) as manager:
            for one in three.names:
                manager.assign(one, epoch=0)
            for one in three.names:
                wait_for(partial(_has_copied, manager, one, 3))
            wait_for(partial(_is_quiet, watched))
            before = watched.calls
            time.sleep(0.2)  # of ten intervals
            assert watched.calls == before

    def test_one_that_was_rolled_is_not_idle(
        self, three: Partitions, memory: ObjectStore
    ) -> None:
        three.age()
        watched = WatchedStore.over(memory, {*READS, *WRITES})
        first, target = three.names[0], SingleObject(watched)
        with managing(target, source_of(three.root)) as manager:
            manager.assign(first, epoch=0)
            wait_for(partial(_has_copied, manager, first, 3))
            wait_for(partial(_is_quiet, watched))
            three.path(0, f"{40:020d}.log").write_bytes(log_of(40))
            wait_for(lambda: stored(target, first) == [0, 10, 20, 30])

    def test_one_whose_log_is_elsewhere_lists_that_log_and_nothing_else(
        self, memory: ObjectStore
    ) -> None:
        with scratch_store() as place:
            log = RollingLog(place)
            grown(log, 2)
            watched = WatchedStore.over(memory, {*READS, *WRITES})
            with managing(SingleObject(watched), KafkaLog(place)) as manager:
                manager.assign(ROLLING, epoch=0)
                wait_for(partial(_has_copied, manager, ROLLING, 2))
                wait_for(partial(_is_quiet, watched))
                before = watched.calls
                time.sleep(0.2)  # of ten intervals
                assert watched.calls == before
                grown(log, 1)
                wait_for(partial(_has_copied, manager, ROLLING, 3))

    @pytest.mark.parametrize("request_", ["raise", "delete"])
    def test_what_is_asked_for_while_a_task_runs_is_done_after_it(
        self, request_: str, three: Partitions, memory: ObjectStore
    ) -> None:
        """The task has read the journal and planned already; then it would be idle."""
        three.age()
        first, slow = three.names[0], Slow.over(memory)
        with managing(SingleObject(slow), source_of(three.root)) as manager:
            manager.assign(first, epoch=0)
            wait_for(partial(_has_copied, manager, first, 3))
            wait_for(partial(_is_idle, manager, first))
            slow.is_slow = True
            manager.wake(first)
            assert slow.reached.wait(SOON)
            if request_ == "raise":
                manager.raise_start_offset(first, 20)
            else:
                manager.delete(first)
            slow.release.set()
            expected = [20] if request_ == "raise" else []
            wait_for(lambda: stored(SingleObject(memory), first) == expected)


class Slow(InterceptedStore):
    """A store whose listings of segments take long, if that is wanted."""

    is_slow: bool
    reached: threading.Event
    release: threading.Event

    @classmethod
    def over(cls, store: ObjectStore) -> Self:
        made = cls._onto(store)
        made.is_slow = False
        made.reached, made.release = threading.Event(), threading.Event()
        return made

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        answer = execute()
        if self.is_slow and verb == "list" and not is_own(keys[0]):
            self.reached.set()
            self.release.wait(SOON)
        return answer


def _has_copied(
    manager: RemoteLogManager, partition: TopicIdPartition, count: int
) -> bool:
    return status_of(manager, partition).copied_segments == count


def _is_idle(manager: RemoteLogManager, partition: TopicIdPartition) -> bool:
    task = manager._leader(partition)
    return task is not None and task.is_idle


def _act_at(
    log: RollingLog, act: str, at: int, numbers: Iterator[int], *_: object
) -> None:
    """Let a broker act at one request."""
    if next(numbers) != at:
        return
    if act == "roll":
        grown(log, 1)
    elif act == "merge":
        log.merge(1)
    else:
        log.delete_until(5)


def _is_whole(target: RemoteStorageManager, log: RollingLog) -> bool:
    """Return whether the tier has all that is closed, without a hole."""
    try:
        listed = target.list_segments(ROLLING)
    except NotFoundError:
        return False
    end = listed[0].start_offset
    for one in listed:
        if one.start_offset > end:
            return False
        end = max(end, (one.end_offset or 0) + 1)
    return end == log.copyable_end and listed[0].start_offset <= log.start


def _is_quiet(watched: WatchedStore) -> bool:
    """Return whether no request was sent for two intervals and more."""
    before = watched.calls
    time.sleep(0.05)
    return watched.calls == before
