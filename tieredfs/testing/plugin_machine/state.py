"""Any calls of a storage in any order, with faults, against a model of what it holds.

Two handles, each a storage of its own over one store, take turns, as two processes
would. After every step a third one, that is new, has to list what the model holds, and
to read it back to the byte, and one of the two has to list it. So the promises of
``Promise`` are asked; examples do not reach these:

- a copy is seen whole or not at all, also while it is made and wherever it died;
- what was copied stays, whatever else is copied or deleted, until it is deleted itself;
- a handle sees what another one has copied or deleted, and is never out of date;
- an error of the store is not taken for an answer, and a call repeated after it works;
- what failed calls left is found, is removed, and hides nothing.

A failure is printed as the shortest sequence of steps that hypothesis has found.
"""

import unittest
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import ClassVar, Final, TypeVar

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from tieredfs.errors import (
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
    UnsupportedOperationError,
)
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.faults import (
    FAILURES,
    NO_FAULTS,
    CrashError,
    FaultPlan,
    FaultyStore,
    StoreFault,
)
from tieredfs.testing.machines import CROWD, OpenStore
from tieredfs.testing.promise import Promise, keep
from tieredfs.testing.reading_back import keep_bytes, keep_indexes, keep_whole
from tieredfs.testing.rule import MakeStorage, expect_error
from tieredfs.testing.samples import Sample
from tieredfs.testing.segment_plan import (
    BatchPlan,
    PlannedRecord,
    SegmentPlan,
    build_segment,
)
from tieredfs.testing.steps import Failures, Step, recorded
from tieredfs.testing.storage_model import SegmentName, StorageModel, name_of
from tieredfs.testing.stores import scratch_store
from tieredfs.testing.strategies import plans

__all__ = ["StorageMachine", "Trial", "machine_test", "storage_machine"]

_T = TypeVar("_T")


@dataclass(slots=True)
class Trial:
    """A search for steps that break a promise.

    Attributes:
        failures: What was found.
        is_over: Whether no further sequence is to be begun.
    """

    failures: Failures = field(default_factory=Failures)
    is_over: Callable[[], bool] = lambda: False


def storage_machine(
    make_storage: MakeStorage,
    *,
    open_store: OpenStore = scratch_store,
    trial: Trial | None = None,
    crowd: int = CROWD,
) -> "type[StorageMachine]":
    """Return the machine of a plugin, whose methods are the steps.

    Args:
        make_storage: Makes the plugin's storage over a store.
        open_store: Opens a store without objects, and removes it afterwards.
        trial: What the machine takes part in; None for one of its own.
        crowd: Segments of the largest partition.
    """
    used = Trial() if trial is None else trial
    setup = _Setup(make_storage, open_store, used, crowd)
    return type("PluginMachine", (StorageMachine,), {"setup": setup})


def machine_test(
    name: str, machine: "type[StorageMachine]", examples: int | None, steps: int
) -> type[unittest.TestCase]:
    """Return a machine as a test case of some name; see ``state_machine_test``."""
    machine.__name__ = name
    test: type[unittest.TestCase] = machine.TestCase
    count = settings().max_examples if examples is None else examples
    test.settings = settings(  # type: ignore[attr-defined] # hypothesis reads it
        max_examples=count,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return test


def _id(number: int) -> bytes:
    return number.to_bytes(16)


_A: Final = Uuid.from_bytes(_id(2))
_PARTITIONS: Final = (
    TopicIdPartition("a", 1, _A),
    TopicIdPartition("a", 10, _A),
    TopicIdPartition("a-1", 0, Uuid.from_bytes(_id(3))),
    TopicIdPartition("a", 1, Uuid.from_bytes(_id(4))),
)
"""Partitions whose names begin with each other's, and a topic that was recreated."""

_CROWDED: Final = TopicIdPartition("crowded", 0, _A)

_LARGE: Final = SegmentPlan((BatchPlan((PlannedRecord(value=bytes(1 << 20)),)),))

_LOCK_SECONDS: Final = 0.2

HANDLES = st.integers(0, 1)
SEGMENTS = st.integers(0, 7)
PARTITIONS = st.integers(0, len(_PARTITIONS) - 1)
COUNTS = st.sampled_from([*[3] * 39, CROWD])
"""Of segments in one partition."""

PERMILLE = st.integers(0, 1000)
CONTENTS = st.lists(plans() | plans(is_compacted=True), min_size=1, max_size=2)
STORED = st.sampled_from([(), (0, 1), (0, 1, 2, 3, 4, 5, 6, 7)])
KINDS = st.sets(st.sampled_from(IndexType))
READ_FAULTS = st.just(NO_FAULTS) | st.builds(
    StoreFault,
    st.sampled_from(["error", "cut", "denied"]),
    st.sampled_from([0, 0, 1, 2]),
).map(lambda fault: FaultPlan((fault,)))
WRITE_FAULTS = READ_FAULTS | st.builds(
    StoreFault,
    st.sampled_from(
        ["delay", "crash", "crash_after", "lost_reply", "error", "cut", "denied"]
    ),
    st.integers(0, 6),
    st.just(True),  # noqa: FBT003 - of writes
).map(lambda fault: FaultPlan((fault,)))


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a machine is made of."""

    make_storage: MakeStorage
    open_store: OpenStore
    trial: Trial
    crowd: int


@dataclass(frozen=True, slots=True)
class _Handle:
    """A storage as one process has it."""

    storage: RemoteStorageManager
    store: FaultyStore


@dataclass(slots=True)
class _Beside:
    """A copy by another process, in the middle of a call.

    Attributes:
        one: What it copies.
        pool: Its thread.
        copied: Its result, once it has begun.
    """

    one: Sample
    pool: DaemonExecutor
    copied: Future[bytes | None] | None = None


def _can_write(machine: "StorageMachine") -> bool:
    return Capability.WRITE in machine.capabilities


def _holds(machine: "StorageMachine") -> bool:
    return bool(machine.model.whole)


class StorageMachine(RuleBasedStateMachine):
    """Two handles, one store, and the calls of the contract."""

    setup: ClassVar[_Setup]

    def __init__(self) -> None:
        """Begin with an empty store."""
        super().__init__()
        self._open = ExitStack()
        self._store = self._open.enter_context(self.setup.open_store())
        self.failures = self.setup.trial.failures
        self.is_over = self.setup.trial.is_over
        self.steps: list[Step] = []
        self.is_outage_ignored = False
        self.model = StorageModel()
        self._listed: dict[SegmentName, SegmentMetadata] = {}
        self._custom: dict[SegmentName, bytes] = {}
        self._handles = [self._made(), self._made()]
        self.capabilities = self._handles[0].storage.capabilities
        self._pool: list[Sample] = []
        self._beside: _Beside | None = None
        self._partitions = [*_PARTITIONS]

    def teardown(self) -> None:
        """Remove the store."""
        self._open.close()

    @initialize(contents=CONTENTS, stored=STORED)
    @recorded
    def begin(self, contents: list[SegmentPlan], stored: tuple[int, ...]) -> None:
        """Make segments, and copy some; those of a read-only layout are there."""
        self.failures.sequences += 1
        if not _can_write(self):
            self._adopt()
            return
        first, second = contents[0], contents[-1]
        a, ten, other, again = _PARTITIONS
        following = first.offsets
        slots = (
            (a, 0, first),
            (a, 0, second),  # under another id
            (a, following, second),
            (a, following + second.offsets, _LARGE),
            (ten, 0, second),
            (other, 1 << 40, first),
            (again, 0, first),
            (again, following // 2, second),  # two leaders' uploads overlap
        )
        self._pool = [
            build_segment(partition, SegmentId.from_bytes(_id(number)), start, plan)
            for number, (partition, start, plan) in enumerate(slots, 16)
        ]
        for number in stored:
            self._copy(self._pool[number], 0, NO_FAULTS)

    # What writers do.

    @precondition(_can_write)
    @rule(number=SEGMENTS, handle=HANDLES, plan=WRITE_FAULTS)
    @recorded
    def copy(self, number: int, handle: int, plan: FaultPlan) -> None:
        """Copy a segment, or copy it again."""
        self._copy(self._pool[number], handle, plan)

    @precondition(_can_write)
    @rule(numbers=st.tuples(SEGMENTS, SEGMENTS), handles=st.tuples(HANDLES, HANDLES))
    @recorded
    def copy_concurrently(
        self, numbers: tuple[int, int], handles: tuple[int, int]
    ) -> None:
        """Copy two segments concurrently, or one twice."""
        ones = [self._pool[number] for number in numbers]
        calls = [
            partial(_copy_or_refuse, self._handles[h].storage, one)
            for h, one in zip(handles, ones, strict=True)
        ]
        customs = _run_concurrently(calls)
        for one, custom in zip(ones, customs, strict=True):
            if custom is None:
                self._refuse(one)
            else:
                self.model.end_copy(one)
                self._custom[name_of(one.metadata)] = custom

    @precondition(_can_write)
    @rule(
        number=SEGMENTS, handle=HANDLES, write=st.integers(0, 2), deletes=st.booleans()
    )
    @recorded
    def copy_beside(self, number: int, handle: int, write: int, deletes: bool) -> None:  # noqa: FBT001 - hypothesis names it
        """Copy or delete a segment while another process copies its neighbour."""
        plan = FaultPlan((StoreFault("delay", write, of_writes=True),))
        with DaemonExecutor(1) as pool:
            self._beside = _Beside(self._neighbour(number), pool)
            if deletes:
                self._delete(self._pool[number], handle, plan)
            else:
                self._copy(self._pool[number], handle, plan)
            self._end_beside()

    @precondition(_can_write)
    @rule(count=COUNTS, handle=HANDLES)
    @recorded
    def copy_a_crowd(self, count: int, handle: int) -> None:
        """Copy many segments to a partition of their own, list them and delete it."""
        for number in range(min(count, self.setup.crowd)):
            self._copy(_one_of_a_crowd(number), handle, NO_FAULTS)
        storage = self._handles[handle].storage
        listed = _found(partial(storage.list_segments, _CROWDED))
        self.model.check_segments(_CROWDED, listed)
        self.model.begin_delete(self.model.of(_CROWDED))
        storage.delete_partition(_CROWDED)
        self.model.end_delete_partition(_CROWDED)

    @precondition(_can_write)
    @rule(number=SEGMENTS, handle=HANDLES, plan=WRITE_FAULTS)
    @recorded
    def delete_segment(self, number: int, handle: int, plan: FaultPlan) -> None:
        """Delete a segment, which need not be there."""
        self._delete(self._pool[number], handle, plan)

    def _delete(self, one: Sample, handle: int, plan: FaultPlan) -> None:
        metadata = self._known(one)
        self.model.begin_delete([one])
        storage = self._handles[handle].storage
        ended = self._try(handle, plan, lambda: storage.delete_log_segment(metadata))
        if ended is None:
            self.model.dirty.add(metadata.partition)
        else:
            self.model.end_delete(one)

    @precondition(_can_write)
    @rule(number=PARTITIONS, handle=HANDLES, plan=WRITE_FAULTS)
    @recorded
    def delete_partition(self, number: int, handle: int, plan: FaultPlan) -> None:
        """Delete a partition."""
        partition = self._partition(number)
        self.model.begin_delete(self.model.of(partition))
        storage = self._handles[handle].storage
        ended = self._try(handle, plan, lambda: storage.delete_partition(partition))
        if ended is None:
            self.model.dirty.add(partition)
        else:
            self.model.end_delete_partition(partition)
            self._require_clean(partition)

    # What readers do.

    @rule(number=PARTITIONS, handle=HANDLES, plan=WRITE_FAULTS, removes=st.booleans())
    @recorded
    def scrub(self, number: int, handle: int, plan: FaultPlan, removes: bool) -> None:  # noqa: FBT001 - hypothesis names it
        """Find what failed calls have left, and remove it; without one, nothing."""
        partition, storage = self._partition(number), self._handles[handle].storage
        ended = self._try(handle, plan, lambda: [*storage.scrub(partition)])
        if ended is not None and partition not in self.model.dirty:
            keep(
                Promise.LEFTOVERS_ARE_REMOVED,
                not ended[0],
                f"scrub of {partition} found {ended[0]}",
            )
        if not removes or not _can_write(self):
            return
        storage = self._handles[handle].storage  # another one after a crash
        removed = self._try(handle, plan, lambda: storage.cancel_copying(partition))
        if removed is not None:
            self.model.dirty.discard(partition)
            self._require_clean(partition)

    @rule(handle=HANDLES)
    @recorded
    def restart(self, handle: int) -> None:
        """Begin again, as another process would."""
        self._handles[handle].storage.close()
        self._handles[handle] = self._made()

    @rule(handle=HANDLES, plan=READ_FAULTS)
    @recorded
    def list_partitions(self, handle: int, plan: FaultPlan) -> None:
        """List all partitions."""
        storage = self._handles[handle].storage
        ended = self._try(handle, plan, storage.list_partitions)
        if ended is not None:
            # What may not be looked into is listed by its name alone.
            is_denied = any(fault.effect == "denied" for fault in plan.faults)
            self.model.check_partitions(ended[0], has_ids=not is_denied)

    @rule(
        handle=HANDLES,
        offset=st.integers(0, 30) | st.just((1 << 40) + 1),
        plan=READ_FAULTS,
    )
    @recorded
    def list_from(self, handle: int, offset: int, plan: FaultPlan) -> None:
        """List the segments of each partition from an offset on, and seek it."""
        for partition in self._partitions:
            storage = self._handles[handle].storage
            listing = partial(storage.list_segments, partition, offset)
            ended = self._try(handle, plan, partial(_found, listing))
            if ended is not None:
                self.model.check_segments(partition, ended[0], offset)
            seeking = partial(storage.seek, partition, offset)
            ended = self._try(handle, plan, partial(_found, seeking))
            if ended is not None:
                self.model.check_seek(partition, ended[0], offset)

    @precondition(_holds)
    @rule(
        number=SEGMENTS, handle=HANDLES, start=PERMILLE, end=PERMILLE, plan=READ_FAULTS
    )
    @recorded
    def fetch_range(
        self, number: int, handle: int, start: int, end: int, plan: FaultPlan
    ) -> None:
        """Fetch a range of a log, and ranges that it does not have."""
        one, storage = self._whole(number), self._handles[handle].storage
        size, metadata = len(one.log), self._known(one)
        low, high = sorted((size * start // 1000, size * end // 1000))
        ended = self._try(
            handle, plan, lambda: storage.fetch_log_segment(metadata, low, high)
        )
        if ended is not None:
            keep_bytes(f"[{low}, {high}) of {metadata}", ended[0], one.log[low:high])
        for wrong, error in (
            ((low, size + 1), CorruptObjectError),
            ((high + 1, high), InvalidArgumentError),
        ):
            call = partial(storage.fetch_log_segment, metadata, *wrong)
            expect_error(
                call, error, f"fetching [{wrong[0]}, {wrong[1]}) of {metadata}"
            )

    @precondition(_holds)
    @rule(number=SEGMENTS, handle=HANDLES, kinds=KINDS, plan=READ_FAULTS)
    @recorded
    def fetch_indexes(
        self, number: int, handle: int, kinds: set[IndexType], plan: FaultPlan
    ) -> None:
        """Fetch some indexes of a segment: together, and one by one."""
        one, storage = self._whole(number), self._handles[handle].storage
        metadata = self._known(one)
        ended = self._try(
            handle, plan, lambda: storage.fetch_indexes(metadata, sorted(kinds))
        )
        if ended is not None:
            wanted = {k: v for k, v in one.data.indexes.items() if k in kinds}
            keep_indexes(metadata, ended[0], wanted)
        for kind in sorted(kinds):
            fetch = partial(storage.fetch_index, metadata, kind)
            if kind not in one.data.indexes:
                expect_error(fetch, NotFoundError, f"fetching {kind} of {metadata}")
                continue
            fetched = self._try(handle, plan, fetch)
            if fetched is not None:
                wanted = {kind: one.data.indexes[kind]}
                keep_indexes(metadata, {kind: fetched[0]}, wanted)

    @precondition(_holds)
    @rule(numbers=st.tuples(SEGMENTS, SEGMENTS), handle=HANDLES)
    @recorded
    def fetch_indexes_concurrently(self, numbers: tuple[int, int], handle: int) -> None:
        """Fetch the indexes of two segments concurrently, with one storage."""
        storage = self._handles[handle].storage
        ones = [self._whole(number) for number in numbers]
        calls = [partial(storage.fetch_all_indexes, self._known(one)) for one in ones]
        for one, found in zip(ones, _run_concurrently(calls), strict=True):
            keep_indexes(one.metadata, found, one.data.indexes)

    @precondition(_can_write)
    @rule(number=SEGMENTS, handle=HANDLES)
    @recorded
    def fetch_what_is_gone(self, number: int, handle: int) -> None:
        """Fetch a segment of which nothing is left, not even by a failed delete."""
        one, storage = self._pool[number], self._handles[handle].storage
        name = name_of(one.metadata)
        is_stored = name in self.model.whole or name.partition in self.model.dirty
        if is_stored or name not in self._listed:
            return
        metadata = self._known(one)
        asked: Mapping[str, Callable[[], object]] = {
            "its log": lambda: storage.fetch_log_segment(metadata),
            "an index": lambda: storage.fetch_index(metadata, IndexType.OFFSET),
        }
        for said, call in asked.items():
            expect_error(call, NotFoundError, f"{metadata} is gone: fetching {said}")

    # What has to be so.

    def check(self) -> None:
        """List and read all with a storage that is new, and list with an older one."""
        fresh = self._made().storage
        self._check(fresh, is_over=True)
        for name, one in self.model.whole.items():
            keep_whole(fresh, self._listed[name], one)
        # One that has been there for longer, and may remember what is no longer so.
        older = self._handles[len(self.steps) % len(self._handles)].storage
        for partition in self._partitions:
            listed = _found(partial(older.list_segments, partition))
            self.model.check_segments(partition, listed)

    def _check(self, storage: RemoteStorageManager, *, is_over: bool) -> None:
        """List everything; while a call is made, what is unknown stays unknown."""
        partitions = storage.list_partitions()
        self.model.check_partitions(partitions)
        names = [*self.model.whole, *self.model.unknown]
        for partition in {
            *partitions,
            *self._partitions,
            *(n.partition for n in names),
        }:
            listed = _found(partial(storage.list_segments, partition))
            self.model.check_segments(partition, listed)
            for metadata in listed or ():
                name = name_of(metadata)
                self._listed[name] = metadata
                if name in self.model.unknown:
                    # Another thread of the call may have deleted it since.
                    gone = () if is_over else (NotFoundError,)
                    with suppress(*gone):
                        keep_whole(storage, metadata, self.model.unknown[name])
            if is_over:
                self.model.observe(partition, listed)

    def _look_meanwhile(self, seconds: float) -> None:
        """Copy and list in the middle of another handle's call, as a third process."""
        del seconds
        storage = self._made().storage
        beside = self._beside
        if beside is not None and beside.copied is None:
            self.model.begin_copy(beside.one)
            beside.copied = beside.pool.submit(_copy_or_refuse, storage, beside.one)
            # One that waits for a lock of the process goes on when the call has ended.
            wait([beside.copied], timeout=_LOCK_SECONDS)
        self._check(storage, is_over=False)

    def _end_beside(self) -> None:
        """Take over what the other process has copied."""
        beside, self._beside = self._beside, None
        if beside is None or beside.copied is None:
            return
        custom = beside.copied.result()
        if custom is None:
            self._refuse(beside.one)
        else:
            self.model.end_copy(beside.one)
            self._custom[name_of(beside.one.metadata)] = custom

    def _neighbour(self, number: int) -> Sample:
        """Return another segment of the same partition, or of the next one."""
        of_first = sum(one.metadata.partition == _PARTITIONS[0] for one in self._pool)
        count = of_first if number < of_first else len(self._pool)
        return self._pool[(number + 1) % count]

    def _copy(self, one: Sample, handle: int, plan: FaultPlan) -> None:
        name = name_of(one.metadata)
        was_whole = name in self.model.whole
        storage = self._handles[handle].storage
        self.model.begin_copy(one)
        ended = self._try(handle, plan, lambda: _copy_or_refuse(storage, one))
        if ended is None:
            if Capability.ATOMIC_COPY not in self.capabilities:
                self.model.dirty.add(name.partition)
            return
        if ended[0] is None:
            self._refuse(one)
            return
        if was_whole and name in self._custom:
            keep(
                Promise.REPEATED_COPIES_AGREE,
                ended[0] == self._custom[name],
                f"copying {one.metadata} again returned {ended[0]!r}, "
                f"not {self._custom[name]!r}",
            )
        self.model.end_copy(one)
        self._custom[name] = ended[0]

    def _refuse(self, one: Sample) -> None:
        """Take note that a layout cannot store a segment, of which it has nothing."""
        keep(
            Promise.CALLS_SUCCEED,
            name_of(one.metadata) not in self.model.whole,
            f"copying {one.metadata} again is refused",
        )
        self.model.refuse_copy(one)

    def _try(
        self, handle: int, plan: FaultPlan, call: Callable[[], _T]
    ) -> tuple[_T] | None:
        """Make a call while a plan is followed.

        Returns:
            What it returned; None if it failed because of the plan.
        """
        store = self._handles[handle].store
        store.follow(plan)
        try:
            returned = (call(),)
            self._note_outage(store)
        except CrashError:
            self._handles[handle] = self._made()
        except (StorageUnavailableError, PermissionDeniedError) as error:
            if not any(request.effect for request in store.requests):
                raise AssertionError(f"without a fault it raised {error!r}") from error
        except Exception:
            self._note_outage(store)
            raise
        else:
            return returned
        finally:
            store.follow(NO_FAULTS)
        return None

    def _note_outage(self, store: FaultyStore) -> None:
        """Note whether a call went on though a request of it had failed."""
        if any(request.effect in FAILURES for request in store.requests):
            self.is_outage_ignored = True

    def _made(self) -> _Handle:
        store = FaultyStore.over(self._store, sleep=self._look_meanwhile)
        return _Handle(self.setup.make_storage(store), store)

    def _adopt(self) -> None:
        """Take what a layout that is read only holds for what it has to hold."""
        storage = self._handles[0].storage
        self._partitions = storage.list_partitions()
        # What a reader finds without segments is not to be anything else.
        self.model.dirty = set(self._partitions)
        for partition in self._partitions:
            for listed in _found(partial(storage.list_segments, partition)) or ():
                described = storage.describe(listed)
                log = bytes(storage.fetch_log_segment(listed))
                found = storage.fetch_all_indexes(listed)
                indexes = {kind: bytes(index) for kind, index in found.items()}
                plain = replace(described, version="", custom_metadata=b"")
                one = Sample(listed, LogSegmentData(log, indexes), plain)
                self.model.end_copy(one)
                self._pool.append(one)

    def _partition(self, number: int) -> TopicIdPartition:
        return self._partitions[number % len(self._partitions)]

    def _whole(self, number: int) -> Sample:
        """Return a whole segment."""
        ones = [*self.model.whole.values()]
        return ones[number % len(ones)]

    def _known(self, one: Sample) -> SegmentMetadata:
        """Return a segment's metadata, as it was last listed if it was."""
        return self._listed.get(name_of(one.metadata), one.metadata)

    def _require_clean(self, partition: TopicIdPartition) -> None:
        left = list(self._made().storage.scrub(partition))
        keep(
            Promise.LEFTOVERS_ARE_REMOVED,
            not left,
            f"all was removed, and scrub of {partition} found {left}",
        )


@cache
def _one_of_a_crowd(number: int) -> Sample:
    """Return a numbered segment of one record, the same each time."""
    return build_segment(_CROWDED, SegmentId.from_bytes(_id(1000 + number)), number)


def _copy_or_refuse(storage: RemoteStorageManager, one: Sample) -> bytes | None:
    """Copy a segment; return None if the layout cannot store such a log."""
    try:
        return storage.copy_log_segment(one.metadata, one.data)
    except UnsupportedOperationError:
        return None


def _found(call: Callable[[], _T]) -> _T | None:
    """Return what a call returns; None for NotFoundError."""
    try:
        return call()
    except NotFoundError:
        return None


def _run_concurrently(calls: Sequence[Callable[[], _T]]) -> list[_T]:
    """Make calls in a thread each, and return their results."""
    with DaemonExecutor(len(calls)) as pool:
        return [future.result() for future in [pool.submit(call) for call in calls]]
