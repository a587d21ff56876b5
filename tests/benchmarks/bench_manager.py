"""What idle partitions cost a manager, and what a slow one costs the others.

Partitions are small folders on this machine's disk. The intervals are simulated: the
clock is moved from one due time to the next, and only the processor's time counts.
"""

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self, TypeVar

from typing_extensions import override

from benchmarks.measuring import FULL, SMOKE, Limit, Scale, show_limits
from support.log_directories import log_of, partition_of, source_of, write_log
from support.managers import managing, status_of, wait_for
from tieredfs import ObjectStore, TopicIdPartition
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.manager.follower import FollowerTask
from tieredfs.log.manager.leader import LeaderTask
from tieredfs.log.manager.schedule import Schedule
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.manager.tiering import Tiering
from tieredfs.log.retention.plan import Retention
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import InterceptedStore, WatchedStore, scratch_store

_PARTITIONS: Final = 10_000
_INTERVAL: Final = 30.0
_INTERVALS: Final = 240
"""Two hours: also what is looked at every hour is in it."""

_SHARE: Final = 2.0
_HOUR: Final = 3600
_LATENCY: Final = 0.2
_SLOWED: Final = 1.5
"""The times as long that the others may take beside a slow partition: noise."""

_T = TypeVar("_T")
_Task = LeaderTask | FollowerTask


@dataclass(slots=True)
class _Clock:
    """A clock that the benchmark moves."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


@dataclass(frozen=True, slots=True)
class Idle:
    """What idle partitions cost.

    Attributes:
        name: What they are.
        share: Percent of a core.
        listings: Listings of the tier, for each partition and interval.
        source_listings: The same of the broker's log.
    """

    name: str
    share: float
    listings: float
    source_listings: float


def bench_idle(count: int = _PARTITIONS, intervals: int = _INTERVALS) -> list[Idle]:
    """Measure leaders of a folder, of a log elsewhere and of none, and followers."""
    found = []
    # On a disk: each listing of the memory store passes over all of its objects.
    with _directory(count) as root, tempfile.TemporaryDirectory() as place:
        tier = ObjectStore(place)
        names = [replace(partition_of(), partition=n) for n in range(count)]
        folder = source_of(root)
        target = SingleObject(tier)
        run = _Bench(target, count, intervals)
        # What is copied first is what is idle then.
        found.append(run.measure("leaders of a folder", folder, names))
        found.append(
            run.measure("leaders of a log elsewhere", folder, names, is_far=True)
        )
        found.append(run.measure("leaders of topics in the tier only", None, names))
        found.append(run.measure("followers", None, names, follows=True))
    return found


class _Remote(WatchedStore):
    """A log directory that is not on this machine."""

    @property
    def local_path(self) -> Path | None:
        """None: it is elsewhere."""
        return None


@dataclass(frozen=True, slots=True)
class _Bench:
    """Partitions with tasks, whose intervals are simulated."""

    target: SingleObject
    count: int
    intervals: int

    def measure(
        self,
        name: str,
        source: KafkaLog | None,
        partitions: Sequence[TopicIdPartition],
        *,
        is_far: bool = False,
        follows: bool = False,
    ) -> Idle:
        """Let all partitions become idle, and take the time of some intervals."""
        clock = _Clock()
        watched = WatchedStore.over(self.target.store, {"list"})
        kind = _Remote if is_far else WatchedStore
        listed = None if source is None else kind.over(source.store, {"list"})
        tiering = Tiering(
            SingleObject(watched),
            None if listed is None else KafkaLog(listed),
            ManagerSettings(),
            Heartbeat(self.target.store, name.replace(" ", "-")),
            lambda: 0,
            None,
        )
        tasks: dict[TopicIdPartition, _Task] = {
            one: FollowerTask(tiering, one, 0, clock=clock)
            if follows
            else LeaderTask(tiering, one, 0, Retention(), clock=clock)
            for one in partitions
        }
        schedule = Schedule(random.random)
        for one in partitions:
            schedule.add(one, 0.0)
        # The first runs copy; the second ones find that nothing is left.
        self._run(schedule, tasks, clock, 2 * _INTERVAL)
        watched.calls = 0
        if listed is not None:
            listed.calls = 0
        begun = time.process_time()
        self._run(schedule, tasks, clock, clock.seconds + self.intervals * _INTERVAL)
        cpu = time.process_time() - begun
        each = self.count * self.intervals
        return Idle(
            name,
            100 * cpu / (self.intervals * _INTERVAL) * _PARTITIONS / self.count,
            round(watched.calls / each, 2),
            0.0 if listed is None else round(listed.calls / each, 2),
        )

    @staticmethod
    def _run(
        schedule: Schedule,
        tasks: dict[TopicIdPartition, _Task],
        clock: _Clock,
        until: float,
    ) -> None:
        """Do what the threads of a manager do, without waiting."""
        while (due := schedule.next_due()) is not None and due < until:
            clock.seconds = max(clock.seconds, due)
            partition = schedule.start_next(clock.seconds)
            if partition is None:
                break
            if not tasks[partition].is_idle:
                tasks[partition].run()
            schedule.finish(partition, clock.seconds, _INTERVAL)
        clock.seconds = until


@contextmanager
def _directory(count: int) -> Iterator[Path]:
    """Yield a log directory of partitions with a closed segment, an hour old."""
    import os  # noqa: PLC0415

    root = Path(tempfile.mkdtemp(prefix="tieredfs-idle-"))
    hour_ago = time.time() - _HOUR
    logs = {0: log_of(0), 10: log_of(10)}
    for number in range(count):
        folder = write_log(root, logs, partition=f"t-{number}")
        for path in (*folder.iterdir(), folder):
            os.utime(path, (hour_ago, hour_ago))
    try:
        yield root
    finally:
        shutil.rmtree(root)


def bench_slow_partition(count: int = 20, latency: float = _LATENCY) -> float:
    """Return how much longer the others take beside a slow partition."""
    return _seconds(count, latency) / _seconds(count, 0.0)


def _seconds(count: int, latency: float) -> float:
    """Return the seconds in which all partitions but the first are copied."""
    with _directory(count) as root, scratch_store() as tier:
        slow = _Slow.over(tier, latency)
        names = [replace(partition_of(), partition=n) for n in range(count)]
        settings = ManagerSettings()
        with managing(SingleObject(slow), source_of(root), settings) as manager:
            begun = time.perf_counter()
            for one in names:
                manager.assign(one, epoch=0)

            def are_copied() -> bool:
                return all(status_of(manager, n).copied_segments for n in names[1:])

            wait_for(are_copied)
            taken = time.perf_counter() - begun
            slow.ended.set()
    return taken


class _Slow(InterceptedStore):
    """A store in which each request of one partition takes long."""

    latency: float
    ended: threading.Event

    @classmethod
    def over(cls, store: ObjectStore, latency: float) -> Self:
        """Return a store over the same objects."""
        made = cls._onto(store)
        made.latency, made.ended = latency, threading.Event()
        return made

    @override
    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if self.latency and "/0/" in keys[0]:
            self.ended.wait(self.latency)
        return execute()


def show(idle: Sequence[Idle], ratio: float) -> None:
    """Print what was measured beside what it may be."""
    limits = []
    for one in idle:
        limits.append(Limit(one.name, one.share, _SHARE, "% of a core"))
        limits.append(Limit("  listings of the tier", one.listings, 1.0, "an interval"))
        if one.source_listings:
            said = "  listings of the log"
            limits.append(Limit(said, one.source_listings, 1.0, "an interval"))
    limits.append(Limit("others beside a slow partition", ratio, _SLOWED, "× as long"))
    show_limits(f"{_PARTITIONS:,} idle partitions, and a slow one", limits)


def counts(scale: Scale) -> tuple[int, int]:
    """Return how many partitions and intervals are measured."""
    return (20, 2) if scale == SMOKE else (_PARTITIONS, _INTERVALS)


def test_manager() -> None:
    show(bench_idle(*counts(FULL)), bench_slow_partition())
