import inspect
import os
import pickle
import warnings
from collections.abc import Callable
from itertools import permutations
from random import Random
from typing import ClassVar
from unittest.mock import create_autospec, sentinel

import pytest

from tieredfs import (
    AlreadyExistsError,
    Capability,
    IndexType,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestPolicy,
    SegmentMetadata,
    StorageUnavailableError,
    UnsupportedOperationError,
)
from tieredfs.cache import with_index_cache
from tieredfs.storage import StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.testing.samples import MISSING, PARTITIONS, all_samples, sample
from tieredfs.testing.wrappers import (
    REMOTE_CALLS,
    CallLog,
    Chance,
    CountingStorage,
    DelayedStorage,
    Fault,
    FaultyStorage,
    ReadOnlyStorage,
    Recorded,
    RecordingStorage,
    StorageCall,
)

ASKS_NOTHING = {
    "recognises",
    "highest_epoch",
    "is_active",
    "is_end_checked",
    "is_layout_current",
    "is_txn_index_empty",
    "log_checksum",
    "name_of",
    "note_checked_end",
    "with_policy",
    "with_observer",
    "close",
}
ANSWERS_NOTHING = {
    "cancel_copying",
    "check_key",
    "close",
    "delete_log_segment",
    "delete_partition",
    "note_checked_end",
}
VIEWS = {"with_policy", "with_observer"}
PUBLIC = {
    name
    for name, _ in inspect.getmembers(RemoteStorageManager, inspect.isroutine)
    if not name.startswith("_")
}
FIRST = PARTITIONS[0]

never = Chance(0.0, Random(0))  # noqa: S311 - no secret depends on it


def always(call: StorageCall) -> Fault:
    return Fault(NotFoundError(f"{call.method} fails"))


WRAPPERS: dict[str, Callable[[RemoteStorageManager], RemoteStorageManager]] = {
    "counting": CountingStorage,
    "delayed": lambda inner: DelayedStorage(inner, 0.5, sleep=abs),
    "faulty": lambda inner: FaultyStorage(inner, never),
    "read only": ReadOnlyStorage,
    "recording": RecordingStorage,
}


@pytest.fixture
def filled(memory: ObjectStore) -> RemoteStorageManager:
    """The native layout with the samples of the kit."""
    storage = SingleObject(memory)
    for one in all_samples():
        storage.copy_log_segment(one.metadata, one.data)
    return storage


def parameters_of(method: str) -> list[str]:
    takes = inspect.signature(getattr(RemoteStorageManager, method)).parameters
    return [name for name in takes if name != "self"]


def chances() -> Random:
    return Random(5)  # noqa: S311 - no secret depends on it


def read(storage: RemoteStorageManager) -> list[tuple[SegmentMetadata, bytes, int]]:
    return [
        (
            storage.describe(listed),
            bytes(storage.fetch_log_segment(listed)),
            len(storage.fetch_all_indexes(listed)),
        )
        for partition in storage.list_partitions()
        for listed in storage.list_segments(partition)
    ]


def count_of(storage: RemoteStorageManager) -> dict[str, int]:
    assert isinstance(storage, CountingStorage)
    return storage.counter.by_method()


def calls_of(log: CallLog) -> list[str]:
    return [recorded.call.method for recorded in log.calls()]


class TestEveryMethodOfTheContract:
    @pytest.mark.parametrize("method", sorted(PUBLIC - {"recognises", *VIEWS}))
    def test_is_passed_on_with_its_arguments(self, method: str) -> None:
        inner = create_autospec(RemoteStorageManager, instance=True)
        inner.store = sentinel.store
        inner.capabilities = frozenset()
        given = {name: getattr(sentinel, name) for name in parameters_of(method)}
        answer = getattr(StorageWrapper(inner), method)(**given)
        passed = getattr(inner, method)
        passed.assert_called_once()
        bound = inspect.signature(getattr(inner, method)).bind(
            *passed.call_args.args, **passed.call_args.kwargs
        )
        assert bound.arguments == given
        assert answer is (None if method in ANSWERS_NOTHING else passed.return_value)

    def test_either_may_ask_the_store_or_never_does(self) -> None:
        assert set(REMOTE_CALLS) | ASKS_NOTHING == PUBLIC
        assert not set(REMOTE_CALLS) & ASKS_NOTHING

    @pytest.mark.parametrize("method", REMOTE_CALLS)
    def test_is_seen_by_wrappers_that_see_calls(self, method: str) -> None:
        inner = create_autospec(RemoteStorageManager, instance=True)
        inner.store = sentinel.store
        inner.capabilities = frozenset()
        by_position = [
            name for name in parameters_of(method) if name not in {"layout", "after"}
        ]
        given = [getattr(sentinel, name) for name in by_position]
        log = CallLog()
        answer = getattr(RecordingStorage(inner, log), method)(*given)
        assert log.calls() == [Recorded(StorageCall(method, tuple(given)), answer)]

    def test_keeps_its_documentation(self) -> None:
        for method in REMOTE_CALLS:
            assert inspect.getdoc(getattr(CountingStorage, method))


class TestInAnyOrder:
    @pytest.mark.parametrize(
        "order", [*permutations(WRAPPERS, 3), tuple(WRAPPERS)], ids="-".join
    )
    def test_what_is_read_stays_true(
        self, order: tuple[str, ...], filled: RemoteStorageManager
    ) -> None:
        expected = read(filled)
        storage = filled
        for name in order:
            storage = WRAPPERS[name](storage)
        assert read(storage) == expected
        lost = {Capability.WRITE, Capability.ATOMIC_COPY}
        assert storage.capabilities == (
            filled.capabilities - (lost if "read only" in order else set())
        )
        policy = RequestPolicy(attempts=2)
        view = storage.with_policy(policy)
        assert (type(view), view.store.policy) == (type(storage), policy)
        assert storage.store.policy == filled.store.policy != policy
        assert (read(view), view.capabilities) == (expected, storage.capabilities)
        copied = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own
        assert (type(copied), read(copied)) == (type(storage), expected)
        assert copied.capabilities == storage.capabilities
        assert repr(storage) == repr(filled)
        with storage:
            pass
        assert read(storage) == expected

    def test_whoever_stands_in_front_sees_what_those_behind_do(
        self, filled: RemoteStorageManager
    ) -> None:
        log = CallLog()
        storage = RecordingStorage(FaultyStorage(filled, always), log)
        with pytest.raises(NotFoundError, match="list_partitions fails"):
            storage.list_partitions()
        (recorded,) = log.calls()
        assert isinstance(recorded.error, NotFoundError)
        behind = FaultyStorage(RecordingStorage(filled, log), always)
        with pytest.raises(NotFoundError):
            behind.list_partitions()
        assert len(log.calls()) == 1

    def test_a_cache_of_indexes_may_stand_among_them(
        self, filled: RemoteStorageManager, tmp_path: object
    ) -> None:
        counting = CountingStorage(filled)
        storage = RecordingStorage(with_index_cache(counting, str(tmp_path)))
        assert read(storage) == read(filled)
        assert read(storage) == read(filled)
        assert count_of(counting)["fetch_all_indexes"] == len(all_samples())
        storage.close()

    def test_what_tells_a_storage_from_others_is_that_of_the_one_behind(
        self, filled: RemoteStorageManager
    ) -> None:
        assert ReadOnlyStorage(CountingStorage(filled)).identity == filled.identity

    def test_all_of_them_close_what_is_behind_them(self, memory: ObjectStore) -> None:
        closed = []

        class Closing(SingleObject):
            def close(self) -> None:
                closed.append(self)

        storage: RemoteStorageManager = Closing(memory)
        for wrap in WRAPPERS.values():
            storage = wrap(storage)
        with storage.with_policy(RequestPolicy(attempts=1)) as view:
            view.with_policy(RequestPolicy()).close()
        assert closed == []
        storage.close()
        assert len(closed) == 1

    def test_a_view_that_was_pickled_closes_what_it_has_there(
        self, memory: ObjectStore
    ) -> None:
        view = Closing(memory).with_policy(RequestPolicy(attempts=1))
        Closing.closed.clear()
        again = pickle.loads(pickle.dumps(view))  # noqa: S301 - ours
        again.close()
        assert Closing.closed == [again]

    def test_a_view_in_a_child_of_a_fork_leaves_the_original_open(
        self, memory: ObjectStore
    ) -> None:
        storage = Closing(memory)
        view = storage.with_policy(RequestPolicy(attempts=1))
        Closing.closed.clear()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of other threads
            child = os.fork()
        if not child:
            view.close()
            os._exit(len(Closing.closed))
        assert os.waitpid(child, 0)[1] == 0


class Closing(SingleObject):
    """Notes which of them were closed."""

    closed: ClassVar[list[SingleObject]] = []

    def close(self) -> None:
        self.closed.append(self)


class TestCounting:
    def test_calls_are_counted_by_method(self, filled: RemoteStorageManager) -> None:
        storage = CountingStorage(filled)
        read(storage)
        samples = len(all_samples())
        assert count_of(storage) == {
            "list_partitions": 1,
            "list_segments": len(PARTITIONS),
            "describe": samples,
            "fetch_log_segment": samples,
            "fetch_all_indexes": samples,
        }
        assert storage.counter.calls == 1 + len(PARTITIONS) + 3 * samples

    def test_failed_ones_are_too_and_views_share_the_counter(
        self, filled: RemoteStorageManager
    ) -> None:
        storage = CountingStorage(filled)
        with pytest.raises(NotFoundError):
            storage.with_policy(RequestPolicy(attempts=1)).list_segments(MISSING)
        assert count_of(storage) == {"list_segments": 1}

    def test_what_is_pickled_begins_at_zero(self, filled: RemoteStorageManager) -> None:
        storage = CountingStorage(filled)
        storage.list_partitions()
        copied = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own
        assert copied.counter.calls == 0
        assert storage.counter.calls == 1


class TestDelay:
    def test_every_call_waits_before_it_is_made(
        self, filled: RemoteStorageManager
    ) -> None:
        waited: list[float] = []
        storage = DelayedStorage(filled, 0.25, sleep=waited.append)
        assert read(storage) == read(filled)
        calls = 1 + len(PARTITIONS) + 3 * len(all_samples())
        assert waited == [0.25] * calls


class TestFaults:
    def test_a_call_fails_before_it_is_made(self, filled: RemoteStorageManager) -> None:
        (listed, *_) = filled.list_segments(FIRST)
        with pytest.raises(NotFoundError, match="delete_log_segment fails"):
            FaultyStorage(filled, always).delete_log_segment(listed)
        assert listed in filled.list_segments(FIRST)

    def test_a_call_is_made_and_its_answer_lost(
        self, filled: RemoteStorageManager
    ) -> None:
        (listed, *_) = filled.list_segments(FIRST)
        lost = Fault(StorageUnavailableError("lost"), is_landed=True)
        with pytest.raises(StorageUnavailableError, match="lost"):
            FaultyStorage(filled, lambda _: lost).delete_log_segment(listed)
        assert listed not in filled.list_segments(FIRST)

    def test_the_plan_sees_the_call(self, filled: RemoteStorageManager) -> None:
        seen: list[StorageCall] = []
        storage = FaultyStorage(filled, seen.append)
        (listed, *_) = storage.list_segments(FIRST, 5)
        storage.fetch_log_segment(listed, 0, end=4)
        assert seen == [
            StorageCall("list_segments", (FIRST, 5)),
            StorageCall("fetch_log_segment", (listed, 0), {"end": 4}),
        ]

    def test_chance_can_be_repeated_and_keeps_its_rate(self) -> None:
        def faults() -> list[Fault | None]:
            chance = Chance(0.3, chances(), landing=0.5)
            return [chance(StorageCall("seek")) for _ in range(1000)]

        first, again = faults(), faults()
        assert [f and f.is_landed for f in first] == [f and f.is_landed for f in again]
        failed = [fault for fault in first if fault is not None]
        assert 200 < len(failed) < 400
        assert 50 < sum(fault.is_landed for fault in failed) < 300
        assert all(fault.error.retryable for fault in failed)

    def test_chance_leaves_other_methods_alone(self) -> None:
        chance = Chance(1.0, chances(), methods=["seek"])
        assert chance(StorageCall("seek")) is not None
        assert chance(StorageCall("survey")) is None


class TestReadOnly:
    def test_nothing_is_written(self, filled: RemoteStorageManager) -> None:
        counting = CountingStorage(filled)
        storage = ReadOnlyStorage(counting)
        one = sample(FIRST, 7)
        log = LogSource(0, "t", lambda _, __: memoryview(b""), is_steady=True)
        for write in (
            lambda: storage.copy_log_segment(one.metadata, one.data),
            lambda: storage.copy_open_log(one.metadata, log, one.data.indexes),
            lambda: storage.replace_log_segment(one.metadata, log, one.data.indexes),
            lambda: storage.append_log_segment(one.metadata, one.data),
            lambda: storage.delete_log_segment(one.metadata),
            lambda: storage.delete_partition(FIRST),
            lambda: storage.cancel_copying(FIRST),
        ):
            with pytest.raises(UnsupportedOperationError, match="opened read only"):
                write()
        assert not count_of(counting)

    def test_what_is_left_over_is_still_found(self, memory: ObjectStore) -> None:
        one = sample(FIRST, 0)
        KafkaLocal(memory).copy_log_segment(one.metadata, one.data)
        (gone,) = [e.key for e in memory.list() if e.key.endswith(".snapshot")]
        memory.delete([gone])
        storage = ReadOnlyStorage(KafkaLocal(memory))
        assert len(list(storage.scrub(FIRST))) == 4


class TestRecording:
    def test_calls_are_written_down_with_their_answers(
        self, filled: RemoteStorageManager
    ) -> None:
        log = CallLog()
        storage = RecordingStorage(filled, log)
        (listed, *_) = storage.list_segments(FIRST, min_offset=0)
        storage.fetch_index(listed, IndexType.OFFSET)
        first, second = log.calls()
        assert first.call == StorageCall("list_segments", (FIRST,), {"min_offset": 0})
        assert first.answer == filled.list_segments(FIRST)
        assert second.call == StorageCall("fetch_index", (listed, IndexType.OFFSET))
        assert second.answer == filled.fetch_index(listed, IndexType.OFFSET)

    def test_views_share_the_log_and_what_is_pickled_begins_empty(
        self, filled: RemoteStorageManager
    ) -> None:
        storage = RecordingStorage(filled)
        storage.with_policy(RequestPolicy(attempts=1)).list_partitions()
        assert calls_of(storage.log) == ["list_partitions"]
        copied = pickle.loads(pickle.dumps(storage))  # noqa: S301 - our own
        assert copied.log.calls() == []

    def test_what_raised_is_written_down_and_raised(
        self, filled: RemoteStorageManager
    ) -> None:
        error = AlreadyExistsError("first")
        behind = FaultyStorage(filled, lambda _: Fault(error))
        storage = RecordingStorage(behind)
        with pytest.raises(AlreadyExistsError) as caught:
            storage.seek(FIRST, 3)
        assert caught.value is error
        assert storage.log.calls() == [
            Recorded(StorageCall("seek", (FIRST, 3)), error=error)
        ]
