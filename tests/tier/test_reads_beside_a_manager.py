"""A log is one log while its segments move from the disk to the tier, and expire there.

A reader may begin at any moment, and go on at any later one. What it reads has no hole
and nothing twice; what is in neither place is out of range.
"""

import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from typing_extensions import override

from support.log_directories import log_of, partition_of, source_of, write_log
from tieredfs import ObjectStore, OffsetOutOfRangeError, Tier, open_tier
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.manager.leader import LeaderTask
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.manager.tiering import Tiering
from tieredfs.log.retention.plan import Retention
from tieredfs.storage.layouts.single_object.layout import SingleObject

EACH = 10
READERS = 3


class Reader:
    """A scan that has begun: what it has read, and what it reads next."""

    def __init__(self, tier: Tier, start: int) -> None:
        scan = tier.topic("t").scan(start=start, columns=["offset", "value"])
        self._batches = iter(scan)
        self.next = start

    def go_on(self) -> bool:
        """Read a batch; return whether there was one."""
        batch = next(self._batches, None)
        if batch is None:
            return False
        offsets = batch["offset"].to_pylist()
        assert offsets == list(range(self.next, self.next + len(offsets)))
        assert batch["value"].to_pylist() == [b"v%d" % n for n in offsets]
        self.next += len(offsets)
        return True


class Moves(RuleBasedStateMachine):
    """A broker, the manager of its directory, and readers of both."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(dir=_memory()))
        self.logs, self.store = self.root / "logs", ObjectStore(str(self.root / "tier"))
        self.readers: list[Reader] = []
        self.task = self.started(0)

    @override
    def teardown(self) -> None:
        shutil.rmtree(self.root)

    @initialize()
    def begin(self) -> None:
        self.folder = write_log(self.logs, {0: log_of(0)})
        self.active = self.local_start = self.tier_start = self.copied = 0
        self.roll()
        self.run()

    def started(self, log_start: int) -> LeaderTask:
        """Return the task of a manager, as after its start."""
        target = SingleObject(self.store)
        tiering = Tiering(
            target,
            source_of(self.logs),
            ManagerSettings(delete_delay_ms=0),
            Heartbeat(self.store, "manager"),
            lambda: 0,
            None,
        )
        retention = Retention(start_offset=log_start)
        return LeaderTask(tiering, partition_of(), None, retention)

    @property
    def end(self) -> int:
        """The end of the log."""
        return self.active + EACH

    @property
    def start(self) -> int:
        """The first offset that is in one of both places."""
        return min(self.tier_start, self.local_start)

    @rule()
    def roll(self) -> None:
        """The broker closes a segment, and writes all of the next one."""
        self.active += EACH
        log = self.folder / f"{self.active:020d}.log"
        log.write_bytes(log_of(self.active))

    @rule()
    def run(self) -> None:
        """The manager copies what is closed, and deletes what has expired."""
        self.task.run()
        self.copied = self.active

    @rule(segments=st.integers(1, 3))
    @precondition(lambda self: self.local_start < self.copied)
    def delete_local(self, segments: int) -> None:
        """The broker deletes its oldest segments, of which the tier has a copy."""
        for _ in range(segments):
            if self.local_start >= self.copied:
                break
            (self.folder / f"{self.local_start:020d}.log").unlink()
            self.local_start += EACH

    @rule(segments=st.integers(1, 3))
    @precondition(lambda self: self.tier_start < self.copied)
    def expire(self, segments: int) -> None:
        """The tier begins later."""
        start = min(self.tier_start + segments * EACH, self.copied)
        self.task.raise_start_offset(start)
        self.run()
        self.tier_start = start

    @rule()
    def restart(self) -> None:
        """Another manager follows, which knows only what the journal says."""
        self.task = self.started(0)

    @rule(at=st.floats(0, 1, exclude_max=True))
    @precondition(lambda self: len(self.readers) < READERS)
    def begin_read(self, at: float) -> None:
        """A reader begins anywhere in the log."""
        start = self.start + int(at * (self.end - self.start))
        self.readers.append(Reader(self.tier(), start))

    @rule(number=st.integers(0, READERS - 1))
    @precondition(lambda self: self.readers)
    def go_on(self, number: int) -> None:
        """A reader reads one more batch; what is gone may be out of its range."""
        reader = self.readers[number % len(self.readers)]
        try:
            if reader.go_on():
                return
            assert reader.next % EACH == 0
        except OffsetOutOfRangeError:
            assert reader.next < self.start
        self.readers.remove(reader)

    @rule(below=st.integers(1, 25))
    def read_what_is_gone(self, below: int) -> None:
        """What is in neither place is out of range, and not something else."""
        if self.start - below < 0:
            return
        try:
            reader = Reader(self.tier(), self.start - below)
        except OffsetOutOfRangeError:
            return
        raise AssertionError(f"read from {reader.next}")

    @rule()
    def finish(self) -> None:
        """Every reader that has begun reads to its end, unless that has expired."""
        while self.readers:
            self.go_on(0)

    @invariant()
    def the_log_is_one_log(self) -> None:
        if not hasattr(self, "folder"):
            return
        topic = self.tier().topic("t")
        assert topic.beginning_offsets() == {0: self.start}
        assert topic.end_offsets() == {0: self.end}
        found = topic.scan(columns=["offset"]).to_table()["offset"].to_pylist()
        assert found == list(range(self.start, self.end))

    def tier(self) -> Tier:
        """Open both places."""
        return open_tier(self.store.url, local=self.logs, plugin="single-object")


def _memory() -> Path | None:
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made there
    return memory if memory.is_dir() else None


Moves.TestCase.settings = settings(
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestMoves = Moves.TestCase
