"""Managers that expire one log, and die at any request: nothing is lost, nothing stays.

A run may be interrupted at any of its writes: it dies there, before or after the store
has done it, or another manager runs there from beginning to end.
"""

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
from tieredfs import (
    FencedError,
    NotFoundError,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.log.journal.heartbeat import LIFETIME_SECONDS
from tieredfs.log.journal.journal import PartitionJournal, read_state
from tieredfs.log.retention.delete import delete_partitions
from tieredfs.log.retention.expire import ExpiredPartition, expire
from tieredfs.log.retention.plan import Retention
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import scratch_store

PARTITION = PARTITIONS[0]
EACH = 20
FIRST_MS = 1_760_000_000_000
MANAGERS = ("one", "two", "three")
SEGMENTS = 16


class Managers(RuleBasedStateMachine):
    """Managers of one log, and what they have to leave."""

    def __init__(self) -> None:
        super().__init__()
        self._scratch = scratch_store()
        self.store = self._scratch.__enter__()
        self.clock = Clock()
        self.copied = 0
        self.log_start = 0
        self.allowed = 0
        """The earliest offset that any run was allowed to leave."""

    @override
    def teardown(self) -> None:
        self._scratch.__exit__(None, None, None)

    @property
    def starts(self) -> list[int]:
        try:
            listed = SingleObject(self.store).list_segments(PARTITION)
        except NotFoundError:
            return []
        return [segment.start_offset for segment in listed]

    @property
    def now_ms(self) -> int:
        return FIRST_MS + int(self.clock.seconds)

    def _limit(self, retention: Retention) -> int:
        """Return from which offset on a run with these limits may keep the log."""
        until, present = 0, [n for n in range(self.copied) if n * EACH in self.starts]
        remaining = sum(len(sample(PARTITION, n).log) for n in present)
        for number in present:
            one = sample(PARTITION, number)
            newest = one.described.max_timestamp_ms or 0
            age = retention.max_age_ms
            is_old = age is not None and newest <= self.now_ms - age
            after = remaining - len(one.log)
            is_excess = retention.max_bytes is not None and after >= retention.max_bytes
            if not (is_old or is_excess):
                break
            until, remaining = (number + 1) * EACH, after
        return until

    def _run(
        self, owner: str, retention: Retention, cut: Interruption | None
    ) -> ExpiredPartition | None:
        """Let a manager run; return None if it dies."""
        self.allowed = max(self.allowed, self._limit(retention))
        store = Interrupted.made(self.store, self.clock, cut)
        try:
            (found,) = expire(
                SingleObject(store),
                [PARTITION],
                retention,
                owner=owner,
                now_ms=lambda: self.now_ms,
            )
        except StorageUnavailableError:
            return None
        assert found.error is None or isinstance(found.error, FencedError)
        return found

    retentions = st.builds(
        Retention,
        max_age_ms=st.none() | st.integers(0, 200),
        max_bytes=st.none() | st.integers(0, 6).map(lambda count: count * 1300),
    )
    owners = st.sampled_from(MANAGERS)

    @initialize()
    def begin(self) -> None:
        self.copy(5)

    @rule(count=st.integers(1, 4))
    @precondition(lambda self: self.copied < SEGMENTS)
    def copy(self, count: int) -> None:
        for _ in range(count):
            one = sample(PARTITION, self.copied)
            SingleObject(self.store).copy_log_segment(one.metadata, one.data)
            self.copied += 1

    @rule(seconds=st.sampled_from([1.0, 61.0, 200.0]))
    def wait(self, seconds: float) -> None:
        self.clock.seconds += seconds

    @rule(owner=owners, retention=retentions)
    def run(self, owner: str, retention: Retention) -> None:
        found = self._run(owner, retention, None)
        assert found is not None
        if found.error is None:
            assert self.starts == list(range(found.log_start, self.copied * EACH, EACH))
            assert read_state(self.store, PARTITION).to_delete == frozenset()

    @rule(
        owner=owners, retention=retentions, at=st.integers(0, 12), landed=st.booleans()
    )
    def die(self, owner: str, retention: Retention, at: int, *, landed: bool) -> None:
        self._run(owner, retention, Interruption(at, landed, None))

    @rule(
        owner=owners,
        other=owners,
        retention=retentions,
        also=retentions,
        at=st.integers(0, 12),
        landed=st.booleans(),
        seconds=st.sampled_from([0.0, 61.0]),
    )
    def meet(
        self,
        owner: str,
        other: str,
        retention: Retention,
        also: Retention,
        at: int,
        seconds: float,
        *,
        landed: bool,
    ) -> None:
        """One runs while another stands still, as long as it is alive or longer."""

        def act() -> None:
            self.clock.seconds += seconds
            self._run(f"{other}-2", also, None)

        found = self._run(owner, retention, Interruption(at, landed, act))
        assert found is not None

    @rule()
    def finish(self) -> None:
        """In the end all that has expired is gone, whoever died before."""
        self.clock.seconds += LIFETIME_SECONDS + 1
        found = self._run("last", Retention(), None)
        assert found is not None
        assert found.error is None
        state = read_state(self.store, PARTITION)
        assert state.to_delete == frozenset()
        assert self.starts == list(range(state.log_start, self.copied * EACH, EACH))

    @rule(at=st.none() | st.integers(0, 8), landed=st.booleans())
    @precondition(lambda self: self.copied >= SEGMENTS)
    def delete(self, at: int | None, *, landed: bool) -> None:
        """All of it is deleted, in the end, though its first run dies."""
        self.clock.seconds += LIFETIME_SECONDS + 1
        cut = None if at is None else Interruption(at, landed, None)
        for one in (cut, None):
            self.clock.seconds += LIFETIME_SECONDS + 1
            store = Interrupted.made(self.store, self.clock, one)
            try:
                delete_partitions(SingleObject(store), [PARTITION], owner="remover")
            except TieredFSError:
                assert one is not None
        assert list(self.store.list("orders")) == []
        assert PartitionJournal(self.store, PARTITION, "reader").read() is None
        self.copied, self.log_start, self.allowed = 0, 0, 0
        self.copy(5)

    @invariant()
    def nothing_is_lost_and_nothing_comes_back(self) -> None:
        log_start, starts = read_state(self.store, PARTITION).log_start, self.starts
        assert self.log_start <= log_start <= self.allowed
        self.log_start = log_start
        end = self.copied * EACH
        first = starts[0] if starts else end
        assert starts == list(range(first, end, EACH))  # without a hole
        assert first <= max(log_start, 0) or not starts


Managers.TestCase.settings = settings(
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestManagers = Managers.TestCase
