"""Copies that fail and processes that die lose nothing, and block nothing."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from typing_extensions import override

from support.distant_store import DistantStore
from support.made_logs import MadeLog, made_logs
from support.samples import new_store
from tieredfs import (
    AlreadyExistsError,
    NotFoundError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
)
from tieredfs.log.scrub.scrub import LeftoverState, scrub
from tieredfs.testing.faults import (
    CrashError,
    Effect,
    FaultPlan,
    FaultyStore,
    KeyPlan,
    StoreFault,
    StoreRequest,
)
from tieredfs.testing.stores import InterceptedStore
from tieredfs_kafscale import KafScale
from tieredfs_kafscale.segment_writer import SegmentWriter

_T = TypeVar("_T")

SEGMENTS = 4
# Their indexes differ, if every batch has an entry.
GENERATIONS = [
    made_logs(name, SEGMENTS, batches)
    for name, batches in (("a", (1, 2)), ("b", (2, 1)))
]
PARTITION = GENERATIONS[0][0].metadata.partition
EFFECTS = [Effect.ERROR, Effect.LOST_REPLY, Effect.CRASH, Effect.CRASH_AFTER]
HALVES = [".kfs", ".index"]


@dataclass(frozen=True)
class Lost:
    """Puts of some halves are not executed, in whatever order they are sent."""

    halves: Sequence[str]

    def fault(self, request: StoreRequest) -> StoreFault | None:
        is_lost = request.write is not None and request.key.endswith(tuple(self.halves))
        is_lost &= request.verb != "delete"
        return StoreFault(Effect.ERROR, request.number) if is_lost else None


class TimedKafScale(KafScale):
    """Waits for other copies in a time of its own, which passes only while it waits."""

    seconds = 0.0

    @property
    @override
    def _writer(self) -> SegmentWriter:
        return replace(super()._writer, clock=lambda: self.seconds, sleep=self._wait)

    def _wait(self, seconds: float) -> None:
        self.seconds += seconds


class Copies(RuleBasedStateMachine):
    """Segments are copied in order, one process after the other.

    A copy that was not acknowledged may be made again with another log, as a broker
    does that uses the offsets again after a restart.
    """

    faulty_store = FaultyStore

    @initialize()
    def begin(self) -> None:
        self.store = new_store()
        self.restart()
        self.acknowledged: dict[int, bytes] = {}
        self.next = 0

    @property
    def faulty(self) -> FaultyStore:
        store = self.storage.store
        assert isinstance(store, FaultyStore)
        return store

    @rule(
        generation=st.sampled_from(GENERATIONS),
        effect=st.none() | st.sampled_from(EFFECTS),
        at=st.integers(0, 12),
        skip=st.booleans(),
    )
    def copy(
        self,
        generation: list[MadeLog],
        effect: Effect | None,
        at: int,
        skip: bool,
    ) -> None:
        """Copy the next segment; after a failure its offsets may stay unused."""
        if self.next >= SEGMENTS:
            return
        made = generation[self.next]
        faults = () if effect is None else (StoreFault(effect, at),)
        self.faulty.follow(FaultPlan(faults))
        try:
            self.storage.copy_log_segment(_in_partition(made).metadata, made.data)
        except CrashError:
            self.restart()
            self.next += skip
        except TieredFSError:
            self.next += skip
        else:
            self.acknowledged[made.metadata.start_offset] = made.log
            self.next += 1
        self.faulty.follow()

    @rule(generation=st.sampled_from(GENERATIONS), lost=st.sampled_from(HALVES))
    def copy_one_half(self, generation: list[MadeLog], lost: str) -> None:
        """Copy the next segment in a process that dies when one half is stored."""
        if self.next >= SEGMENTS:
            return
        made = generation[self.next]
        self.faulty.follow(Lost([lost]))
        with suppress(TieredFSError):
            self.storage.copy_log_segment(_in_partition(made).metadata, made.data)
            self.acknowledged[made.metadata.start_offset] = made.log
            self.next += 1
        self.restart()

    @rule(generation=st.sampled_from(GENERATIONS))
    def copy_undisturbed(self, generation: list[MadeLog]) -> None:
        """Copy the next segment: only another one that is listed there prevents it."""
        if self.next >= SEGMENTS:
            return
        made = generation[self.next]
        start = made.metadata.start_offset
        before = self.listed().get(start, made.log)
        try:
            self.storage.copy_log_segment(_in_partition(made).metadata, made.data)
        except AlreadyExistsError:
            assert before != made.log
        else:
            assert before == made.log
            self.acknowledged[start] = made.log
        self.next += 1

    @rule()
    def restart(self) -> None:
        """Go on in another process."""
        self.storage = TimedKafScale(
            self.faulty_store.over(self.store), index_interval=1
        )

    @rule(effect=st.none() | st.sampled_from(EFFECTS), at=st.integers(0, 6))
    def clean(self, effect: Effect | None, at: int) -> None:
        """Remove what copies have left."""
        faults = () if effect is None else (StoreFault(effect, at),)
        self.faulty.follow(FaultPlan(faults))
        try:
            self.storage.cancel_copying(PARTITION)
        except CrashError:
            self.restart()
        except TieredFSError:
            pass
        else:
            assert list(KafScale(self.store).scrub(PARTITION)) == []
        self.faulty.follow()

    def listed(self) -> dict[int, bytes]:
        """Return the logs that a reader sees, by their first offsets."""
        reader = opened(self.store)
        found: dict[int, bytes] = {}
        with suppress(NotFoundError):
            for segment in reader.list_segments(PARTITION):
                log = bytes(reader.fetch_log_segment(segment))
                found[segment.start_offset] = log
                reader.fetch_all_indexes(segment)
                assert b"".join(reader.stream_log(segment)) == log
        return found

    @invariant()
    def every_acknowledged_segment_is_whole(self) -> None:
        found = self.listed()
        assert found.items() >= self.acknowledged.items()
        given = {
            (made.metadata.start_offset, made.log) for g in GENERATIONS for made in g
        }
        assert found.items() <= given

    @invariant()
    def an_index_is_beside_no_log_but_its_own(self) -> None:
        for start, log in self.listed().items():
            key = f"default/t/0/segment-{start:020d}.index"
            with suppress(NotFoundError):  # it is listed for a segment after it
                assert self.store.get(key) == INDEXES[log]


def opened(store: ObjectStore) -> KafScale:
    return KafScale(store, index_interval=1)


def _in_partition(made: MadeLog) -> MadeLog:
    return made._replace(metadata=replace(made.metadata, partition=PARTITION))


def _index_of(made: MadeLog) -> bytes:
    store = new_store()
    opened(store).copy_log_segment(made.metadata, made.data)
    (key,) = [entry.key for entry in store.list() if entry.key.endswith(".index")]
    return bytes(store.get(key))


INDEXES = {made.log: _index_of(made) for logs in GENERATIONS for made in logs}


def test_of_copies_of_different_logs_to_one_offset_one_is_acknowledged_and_kept() -> (
    None
):
    store = new_store().with_policy(RequestPolicy(deadline=0.5))
    for number in range(20):
        base = GENERATIONS[number % 2][0].metadata.start_offset
        start = threading.Barrier(2)

        def copy(generation: list[MadeLog], start: threading.Barrier = start) -> bool:
            made = _in_partition(generation[0])
            start.wait(10)
            try:
                KafScale(store).copy_log_segment(made.metadata, made.data)
            except AlreadyExistsError:
                return False
            return True

        with ThreadPoolExecutor(2) as pool:
            acknowledged = list(pool.map(copy, GENERATIONS))
        assert sum(acknowledged) == 1
        reader = KafScale(store)
        (kept,) = reader.list_segments(PARTITION)
        assert kept.start_offset == base
        expected = GENERATIONS[acknowledged.index(True)][0].log
        assert reader.fetch_log_segment(kept) == expected
        assert list(reader.scrub(PARTITION)) == []
        reader.delete_log_segment(kept)


class AfterDelete:
    """Let the first write after a deletion be late."""

    def __init__(self) -> None:
        self.is_next = self.is_done = False

    def fault(self, request: StoreRequest) -> StoreFault | None:
        if request.verb == "delete":
            self.is_next = True
        elif self.is_next and request.write is not None and not self.is_done:
            self.is_done = True
            return StoreFault(Effect.DELAY, request.number)
        return None


def test_the_half_of_a_copy_under_way_is_not_taken_for_a_dead_ones() -> None:
    store = new_store().with_policy(RequestPolicy(deadline=5))
    mine, theirs = (_in_partition(one[0]) for one in GENERATIONS)
    key = f"default/t/0/segment-{0:020d}.index"
    paused, deleted, ended = (threading.Event() for _ in range(3))

    def pause() -> None:
        paused.set()
        deleted.wait(0.3)

    def go_on() -> None:
        deleted.set()
        ended.wait(5)

    plan = KeyPlan(key, Effect.DELAY)
    first = KafScale(FaultyStore.over(store, plan, during_pause=pause))
    second = KafScale(FaultyStore.over(store, AfterDelete(), during_pause=go_on))
    with ThreadPoolExecutor(1) as pool:
        copied = pool.submit(first.copy_log_segment, mine.metadata, mine.data)
        copied.add_done_callback(lambda _: ended.set())
        assert paused.wait(5)
        with pytest.raises(AlreadyExistsError):
            second.copy_log_segment(theirs.metadata, theirs.data)
        copied.result(5)
    (kept,) = KafScale(store).list_segments(PARTITION)
    assert KafScale(store).fetch_log_segment(kept) == mine.log


class BeforeLog(InterceptedStore):
    """The same objects, where a function is called before a log is put, or fails.

    They are put concurrently.
    """

    call: Callable[[], object]

    @classmethod
    def over(cls, store: ObjectStore, call: Callable[[], object]) -> "BeforeLog":
        made = cls._onto(store)
        made.call = call
        return made

    @property
    def is_local(self) -> bool:
        return False

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        if verb.startswith("put") and keys[0].endswith(".kfs"):
            self.call()
        return execute()


def _die() -> None:
    raise StorageUnavailableError("the process died")


def test_a_scrub_while_the_log_is_sent_keeps_the_index_that_is_put_beside_it(
    tmp_path: Path,
) -> None:
    one = _in_partition(GENERATIONS[0][0])
    store = ObjectStore(str(tmp_path)).with_policy(RequestPolicy(deadline=2.0))
    with pytest.raises(StorageUnavailableError):
        KafScale(BeforeLog.over(store, _die)).copy_log_segment(one.metadata, one.data)
    (left,) = tmp_path.rglob("*.index")
    at = time.time() - 3 * 86_400
    os.utime(left, (at, at))
    states: list[LeftoverState] = []

    def run_scrub() -> None:
        end = time.monotonic() + 5
        while time.monotonic() < end and not (
            left.exists() and left.stat().st_mtime > at + 86_400
        ):
            time.sleep(0.01)
        report = scrub(KafScale(store), [PARTITION], delete=True)
        states.extend(one.state for one in report.leftovers)

    sent = KafScale(BeforeLog.over(store, run_scrub))
    sent.copy_log_segment(one.metadata, one.data)
    assert states == [LeftoverState.KEPT]
    (kept,) = KafScale(store).list_segments(PARTITION)
    assert KafScale(store).fetch_log_segment(kept) == one.log


class DeletedIndex(InterceptedStore):
    """The same objects, where the first index that is put is deleted afterwards."""

    deleted: list[str]

    @classmethod
    def over(cls, store: ObjectStore) -> "DeletedIndex":
        made = cls._onto(store)
        made.deleted = []
        return made

    def _send(self, verb: str, keys: Sequence[str], execute: Callable[[], _T]) -> _T:
        answer = execute()
        if verb == "put" and keys[0].endswith(".index") and not self.deleted:
            self.deleted.extend(keys)
            self.delete(keys)
        return answer


def test_an_index_that_a_late_scrub_deletes_is_put_again() -> None:
    """It had looked at what another log's copy has left, which this one replaces."""
    one = _in_partition(GENERATIONS[0][0])
    store = new_store().with_policy(RequestPolicy(deadline=0.5))
    key = f"default/t/0/segment-{0:020d}.index"
    store.put(key, b"that of another log", overwrite=False)
    late = DeletedIndex.over(store)
    KafScale(late).copy_log_segment(one.metadata, one.data)
    assert late.deleted == [key]
    (kept,) = KafScale(store).list_segments(PARTITION)
    assert KafScale(store).fetch_log_segment(kept) == one.log


class DistantCopies(Copies):
    """The log and the index are sent concurrently."""

    faulty_store = DistantStore


TestDistantCopies = DistantCopies.TestCase
TestDistantCopies.settings = settings(stateful_step_count=12)
TestCopies = Copies.TestCase
TestCopies.settings = settings(stateful_step_count=12)
