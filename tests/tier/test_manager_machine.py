"""Managers that lead one log in turn, and die or stand still at any write.

The log grows, rolls, is cleaned and loses its oldest segments under their feet, and
transactions begin and end in it. Another manager may run, in the same leader epoch or
in a later one, at any write of a run.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)
from typing_extensions import override

from support.interrupted import Clock, Interrupted, Interruption
from support.rolling_log import RollingLog
from tieredfs import (
    FencedError,
    NotFoundError,
    SegmentMetadata,
    StorageUnavailableError,
)
from tieredfs.format.segment.key_scheme import JOURNAL_FOLDER, MANAGER_FOLDER
from tieredfs.log.journal.entry import parse_entry
from tieredfs.log.journal.heartbeat import LIFETIME_SECONDS, Heartbeat
from tieredfs.log.journal.journal import PartitionJournal, read_state
from tieredfs.log.journal.state import PartitionState
from tieredfs.log.manager.leader import LeaderTask
from tieredfs.log.manager.settings import ManagerSettings
from tieredfs.log.manager.tiering import Tiering
from tieredfs.log.retention.plan import Retention
from tieredfs.storage.layouts.kafka_log import KafkaLog
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.stores import scratch_store

PARTITION = RollingLog.partition
MANAGERS = 3
FIRST_MS = 1000
"""The timestamp of the first record; those of the others follow, one each."""

MAX_IDLE_SECONDS = 600.0
MAX_RUNS = 12
"""Of the manager that finishes, each of which has to come nearer to the end."""

DELAYS = (0, 300)
MS_PER_SECOND = 10
"""As slowly runs the clock by which records grow old, beside that of the store: so
that records of one log do not all expire in one second."""


@dataclass(slots=True)
class Manager:
    """One that is alive, and has been the leader since its leader epoch began.

    Attributes:
        name: Its unique name.
        store: The store of the tier, as it reaches it.
        task: What it does.
        epoch: Its leader epoch.
        retention: What it keeps.
    """

    name: str
    store: Interrupted
    task: LeaderTask
    epoch: int
    retention: Retention


class Managers(RuleBasedStateMachine):
    """Managers of one log, and what they have to leave."""

    def __init__(self) -> None:
        super().__init__()
        self._scratch = scratch_store()
        self._broker = scratch_store()
        self.store = self._scratch.__enter__()
        self.source = self._broker.__enter__()
        self.log = RollingLog(self.source)
        self.clock = Clock()
        self.managers: dict[int, Manager] = {}
        self.running: set[int] = set()
        """Those that stand still in the middle of a run."""
        self.announced: dict[str, str] = {}
        """The last entry of each manager, unless it has changed a segment since."""
        self.seen: dict[str, dict[str, float]] = {}
        """The heartbeats of all when each manager has last written its own."""
        self.epoch = 0
        self.epochs: dict[str, int] = {}
        """The leader epoch of each manager that ever was."""
        self.made = 0
        self.copied_end = 0
        """The end of what was ever seen in the tier."""
        self.log_start = 0
        self.allowed = 0
        """The earliest offset that any run was allowed to leave."""
        self.delay_ms = 0
        self.is_cleaned = False

    @override
    def teardown(self) -> None:
        self._scratch.__exit__(None, None, None)
        self._broker.__exit__(None, None, None)

    @property
    def now_ms(self) -> int:
        return FIRST_MS + int(self.clock.seconds * MS_PER_SECOND)

    @property
    def stored(self) -> list[SegmentMetadata]:
        try:
            return SingleObject(self.store).list_segments(PARTITION)
        except NotFoundError:
            return []

    def _limit(self, retention: Retention) -> int:
        """Return from which offset on a run with these limits may keep the log."""
        limits = [retention.start_offset]
        if retention.max_age_ms is not None:
            limits.append(self.now_ms - retention.max_age_ms - FIRST_MS + 1)
        if retention.max_bytes is not None:
            log_start = read_state(self.store, PARTITION).log_start
            kept = [one for one in self.stored if _end(one) > log_start]
            # A run copies first what is closed, and that counts as well.
            sizes = {(one.start_offset, _end(one)): one.size or 0 for one in kept}
            for one, later in pairwise(self.log.log.segments):
                if later.start > log_start:
                    sizes[one.start, later.start] = len(one.log)
            excess = sum(sizes.values()) - retention.max_bytes
            for (_, end), size in sorted(sizes.items()):
                if not 0 < size <= excess:
                    break
                excess -= size
                limits.append(end)
        return max(limits)

    def _watch(self, name: str, verb: str, keys: Sequence[str]) -> None:
        """Check that only the leader changes segments, but for what has expired.

        One that is deposed between its entry in the journal and the copy that this
        announces may end that copy, and no more.
        """
        if keys[0].startswith(f"{MANAGER_FOLDER}alive/"):
            # It compares the times of both heartbeats; the other one may beat now.
            self.seen[name] = dict(self.clock.written)
        if keys[0].startswith(JOURNAL_FOLDER):
            self._check_entry(name, keys[0])
            self.announced[name] = keys[0]
        mine = [key for key in keys if not key.startswith(MANAGER_FOLDER)]
        if not mine:
            return
        announced = self.announced.pop(name, None)
        state = read_state(self.store, PARTITION)
        if verb == "delete":
            self._check_delay(state, mine)
        if state.leader is not None and state.leader.owner == name:
            if verb != "delete":
                last = int(mine[0].rpartition("/")[2][:20])
                assert last >= state.log_start, "what has expired is copied again"
            return
        here = SingleObject(self.store)
        kept = [one for one in self.stored if _end(one) > state.log_start]
        names = {here.name_of(one) for one in kept}
        if verb == "delete" and not any(f"{self.store.url}/{k}" in names for k in mine):
            return
        assert announced is not None, (name, state.leader)
        if self._exists(announced):  # or it was deleted, as too old
            entry = parse_entry(self.store.get(announced), PARTITION, announced)
            assert entry.writer == name, (name, state.leader)

    def _check_entry(self, name: str, key: str) -> None:
        """Check that a manager takes charge only in place of one that may be replaced.

        An entry whose number another manager has taken is refused by the store.
        """
        last = PartitionJournal(self.store, PARTITION, "reader").read()
        if last is None:
            return
        if int(key.rpartition("/")[2].removesuffix(".json")) <= last.number:
            return
        before, epoch = last.state.leader, self.epochs[name]
        assert epoch >= last.state.leader_epoch
        if before is not None and epoch == before.epoch and before.owner != name:
            beat = f"{MANAGER_FOLDER}alive/{before.owner}"
            seen = self.seen.get(name, self.clock.written)
            age = self.clock.seconds - seen.get(beat, 0.0)
            assert age > LIFETIME_SECONDS, f"{before.owner} is alive"

    def _exists(self, key: str) -> bool:
        return any(one.key == key for one in self.store.list(key))

    def _check_delay(self, state: PartitionState, keys: Sequence[str]) -> None:
        """Check that readers had the time to finish with what is deleted."""
        here = SingleObject(self.store)
        for one in self.stored:
            tracked = state.segments.get(one.id)
            is_named = here.name_of(one).removeprefix(f"{self.store.url}/") in keys
            if is_named and _end(one) <= state.log_start and tracked is not None:
                assert tracked.since_ms + self.delay_ms <= self.now_ms

    def _make(self, number: int, epoch: int, retention: Retention) -> Manager:
        self.made += 1
        name = f"manager-{number}-{self.made}"
        self.epochs[name] = epoch
        store = Interrupted.made(
            self.store,
            self.clock,
            watch=lambda verb, keys: self._watch(name, verb, keys),
        )
        tiering = Tiering(
            SingleObject(store),
            KafkaLog(self.source),
            ManagerSettings(delete_delay_ms=self.delay_ms, max_idle=MAX_IDLE_SECONDS),
            Heartbeat(store, name, clock=lambda: self.clock.seconds),
            lambda: self.now_ms,
            None,
        )
        task = LeaderTask(
            tiering, PARTITION, epoch, retention, clock=lambda: self.clock.seconds
        )
        made = Manager(name, store, task, epoch, retention)
        self.managers[number] = made
        return made

    def _run(self, number: int, cut: Interruption | None) -> bool:
        """Let a manager run, if it does not already; return whether it did all.

        It is fenced, if at all, before it has changed anything: ``_watch`` sees that.
        """
        manager = self.managers.get(number)
        if manager is None or number in self.running:
            return False
        self._note_limit(manager)
        manager.store.begin(cut)
        self.running.add(number)
        try:
            return not manager.task.is_idle and not manager.task.run()
        except FencedError:
            return False
        except StorageUnavailableError:
            assert manager.store.is_dead
            del self.managers[number]
            return False
        finally:
            self.running.discard(number)
            self._note_limit(manager)

    def _alive(self, number: int) -> int:
        """Return the number of a manager that is alive: the given one, if it is."""
        if number not in self.managers and self.managers:
            number = min(self.managers)
        if number not in self.managers:
            self._make(number, self.epoch, Retention())
        return number

    def _note_limit(self, manager: Manager) -> None:
        self.allowed = max(self.allowed, self._limit(manager.retention))

    def _broker_acts(self, act: str, number: int) -> None:
        """Let the broker do something to the log."""
        self._see()
        if act == "roll":
            self.log.roll()
        elif act == "merge" and self.is_cleaned:
            self.log.merge(number)
        elif act == "delete":
            self.log.delete_until(self.copied_end)  # as Kafka: never what is not copied
        elif act in {"data", "commit", "abort", "plain"}:
            self.log.produce(act, number % 2, 1 + number)
        for one in self.managers.values():
            self._note_limit(one)

    def _see(self) -> None:
        self.copied_end = max([self.copied_end, *map(_end, self.stored)])

    acts = st.sampled_from(
        [*["roll"] * 3, "merge", "delete", "data", "data", "commit", "abort", "plain"]
    )
    numbers = st.integers(0, MANAGERS - 1)
    retentions = st.builds(
        Retention,
        max_age_ms=st.none() | st.integers(0, 3000),
        max_bytes=st.none() | st.integers(0, 8).map(lambda count: count * 200),
        start_offset=st.sampled_from([0, 0, 3, 9, 20]),
    )

    @initialize(delay_ms=st.sampled_from(DELAYS), is_cleaned=st.booleans())
    def begin(self, delay_ms: int, *, is_cleaned: bool) -> None:
        self.delay_ms, self.is_cleaned = delay_ms, is_cleaned
        self.grow(3)

    @rule(count=st.integers(1, 3))
    def grow(self, count: int) -> None:
        for _ in range(count):
            self.log.produce("plain", 0, 2)
            self.log.roll()

    @rule(what=st.sampled_from(["plain", "data", "data"]), producer=st.integers(0, 1))
    def produce(self, what: str, producer: int) -> None:
        self.log.produce(what, producer, 2)

    @rule(act=acts, number=st.integers(0, 3))
    def broker(self, act: str, number: int) -> None:
        self._broker_acts(act, number)

    @rule(number=numbers, is_newer=st.booleans(), retention=retentions)
    def assign(self, number: int, retention: Retention, *, is_newer: bool) -> None:
        """A manager becomes the leader: of a new epoch, or beside another one."""
        if self.is_cleaned:  # what is stored twice counts twice
            retention = Retention(retention.max_age_ms, None, retention.start_offset)
        self.epoch += is_newer
        self._make(number, self.epoch, retention)

    @rule(number=numbers, other=numbers)
    def release(self, number: int, other: int) -> None:
        """One lets go, and what is closed then is for the others."""
        self._run(self._alive(number), None)
        manager = self.managers.pop(number, None)
        if manager is not None:
            manager.store.begin(None)
            with suppress(FencedError):  # another one was faster
                manager.task.release()
        self.grow(1)
        self._run(other, None)

    @rule(seconds=st.sampled_from([1.0, 31.0, LIFETIME_SECONDS + 1, 700.0]))
    def wait(self, seconds: float) -> None:
        self.clock.seconds += seconds

    @rule(number=numbers, other=numbers)
    def run(self, number: int, other: int) -> None:
        for one in (self._alive(number), other):
            if self._run(one, None):
                # It says that nothing is left, whether it or another one has done it.
                self._see()
                state = read_state(self.store, PARTITION)
                ends = [state.log_start, *map(_end, self.stored)]
                assert max(ends) >= self.log.copyable_end

    @rule(number=numbers, offset=st.integers(0, 30))
    def raise_start(self, number: int, offset: int) -> None:
        manager = self.managers.get(number)
        if manager is not None:
            manager.task.raise_start_offset(offset)
            start = max(offset, manager.retention.start_offset)
            manager.retention = Retention(
                manager.retention.max_age_ms, manager.retention.max_bytes, start
            )

    @rule(number=numbers, at=st.integers(0, 14), landed=st.booleans())
    def die(self, number: int, at: int, *, landed: bool) -> None:
        self._run(self._alive(number), Interruption(at, landed, None))

    @rule(
        number=numbers,
        other=numbers,
        epochs=st.sampled_from([0, 1, None]),
        retention=retentions,
        at=st.integers(0, 10),
        dies_at=st.none() | st.integers(0, 8),
        grown=st.integers(0, 3),
        landed=st.booleans(),
        dies_landed=st.booleans(),
        is_deleted=st.booleans(),
        seconds=st.sampled_from([0.0, LIFETIME_SECONDS + 1, LIFETIME_SECONDS + 1]),
        act=acts,
    )
    def meet(  # noqa: PLR0917 - drawn by name
        self,
        number: int,
        other: int,
        epochs: int | None,
        retention: Retention,
        at: int,
        dies_at: int | None,
        grown: int,
        seconds: float,
        act: str,
        *,
        landed: bool,
        dies_landed: bool,
        is_deleted: bool,
    ) -> None:
        """One runs while another stands still, as long as it is alive or longer."""

        def happen() -> None:
            self.clock.seconds += seconds
            self._broker_acts(act, at)
            if other not in self.running:
                if epochs is not None:
                    self.assign(other, retention, is_newer=bool(epochs))
                dies = None
                if dies_at is not None:
                    dies = Interruption(dies_at, dies_landed, None)
                self._run(other, dies)
            if is_deleted:
                self._broker_acts("delete", 0)

        number = self._alive(number)
        self.grow(grown)
        self._run(number, Interruption(at, landed, happen))

    @rule(
        number=numbers,
        is_new=st.sampled_from([False, False, True]),
        retention=retentions,
    )
    @precondition(lambda self: self.epoch or self.managers)
    def finish(self, number: int, retention: Retention, *, is_new: bool) -> None:
        """In the end all is copied and all that has expired is gone."""
        # Also one that has had nothing to do looks again after some minutes.
        self.clock.seconds += MAX_IDLE_SECONDS + 1
        last = [n for n, one in self.managers.items() if one.epoch == self.epoch]
        if is_new or not last:
            self.assign(number, retention, is_newer=is_new)
        elif number not in last:
            number = last[0]
        manager = self.managers[number]
        for _ in range(MAX_RUNS):
            self.clock.seconds += self.delay_ms / MS_PER_SECOND + 1
            is_done = manager.task.is_idle or self._run(number, None)
            # Where a transaction is open, it is never done.
            is_done |= self.log.closed_end > self.log.copyable_end
            if is_done and not read_state(self.store, PARTITION).segments:
                break
        self._see()
        state = read_state(self.store, PARTITION)
        assert state.segments == {}
        stored = self.stored
        copyable = self.log.copyable_end
        assert max([state.log_start, *map(_end, stored)]) >= copyable
        assert all(_end(one) > state.log_start for one in stored)
        if stored and not self.is_cleaned:
            assert not self._is_expired(stored, manager.retention)

    def _is_expired(
        self, stored: Sequence[SegmentMetadata], retention: Retention
    ) -> bool:
        """Return whether the first segment ought not to be there any more."""
        end, size = _end(stored[0]), stored[0].size or 0
        is_old = (
            retention.max_age_ms is not None
            and FIRST_MS + end - 1 <= self.now_ms - retention.max_age_ms
        )
        total = sum(one.size or 0 for one in stored)
        is_excess = (
            retention.max_bytes is not None and size <= total - retention.max_bytes
        )
        return is_old or is_excess or end <= retention.start_offset

    @invariant()
    def nothing_is_lost_and_nothing_comes_back(self) -> None:
        state, stored = read_state(self.store, PARTITION), self.stored
        self._see()
        assert self.log_start <= state.log_start <= max(self.allowed, 0)
        self.log_start = state.log_start
        end = state.log_start
        for one in stored:
            assert one.start_offset <= max(end, state.log_start), "a gap"
            end = max(end, _end(one))
        assert end >= self.copied_end, "an acknowledged segment is lost"
        assert self.copied_end <= max(self.log.log.stable_offset, self.log_start)


def _end(segment: SegmentMetadata) -> int:
    return 0 if segment.end_offset is None else segment.end_offset + 1


Managers.TestCase.settings = settings(
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestManagers = Managers.TestCase
