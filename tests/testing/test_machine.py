"""The machine passes on correct plugins, and finds what is wrong with broken ones."""

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from typing_extensions import override

from testing.broken.copying import CopiesOnce, ListsHalves, RemembersWhatItCopied
from testing.broken.deleting import DeletesByPrefix
from testing.broken.freshness import RemembersThatItWasEmpty
from testing.broken.indexes import KeepsIndexesByOffset
from testing.broken.listing import ListsOnePage
from testing.broken.outages import (
    TakesOutagesForAMissingIndex,
    TakesOutagesForNothing,
)
from testing.broken.reading import LosesTheLastByte
from testing.layouts import LAYOUTS, read_only
from tieredfs import (
    LogSegmentData,
    ObjectStore,
    RemoteStorageManager,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import MakeStorage, state_machine_test
from tieredfs.testing.faults import Effect, FaultPlan, StoreFault
from tieredfs.testing.plugin_machine.limited_search import Search
from tieredfs.testing.plugin_machine.machine import PluginMachine, plugin_machine
from tieredfs.testing.plugin_machine.pool import CROWD
from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.segment_plan import SegmentPlan
from tieredfs.testing.verdict import EXTENTS, Profile


class SingleObjectCase:
    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return SingleObject(store)


class ChunkedCase:
    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return SingleObject(store, compression="zstd")


class KafkaLocalCase:
    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return KafkaLocal(store)


class ReadOnlyCase:
    """What a broker tiered, which is there from the beginning."""

    def make_storage(self, store: ObjectStore) -> RemoteStorageManager:
        return read_only(store)


TestReadOnly = state_machine_test(ReadOnlyCase, examples=5)
TestSingleObject = state_machine_test(SingleObjectCase, examples=50)
TestChunked = state_machine_test(ChunkedCase, examples=20)
TestKafkaLocal = state_machine_test(KafkaLocalCase, examples=50)


class FindsNothingBetween(SingleObject):
    """Seeks the segments that have an offset, not those after it."""

    @override
    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        listed = self.list_segments(partition)
        return [
            one
            for one in listed
            if one.end_offset is None or one.start_offset <= offset <= one.end_offset
        ]


BROKEN: dict[MakeStorage, set[Promise]] = {
    ListsHalves: {Promise.NOTHING_ELSE_IS_LISTED, Promise.READS_ARE_EXACT},
    CopiesOnce: {Promise.CALLS_SUCCEED},
    KeepsIndexesByOffset: {Promise.CALLS_SUCCEED, Promise.READS_ARE_EXACT},
    DeletesByPrefix: {Promise.COPIES_STAY},
    LosesTheLastByte: {Promise.READS_ARE_EXACT},
    TakesOutagesForAMissingIndex: {Promise.OUTAGES_ARE_REPORTED},
    TakesOutagesForNothing: {Promise.OUTAGES_ARE_REPORTED},
    RemembersThatItWasEmpty: {Promise.COPIES_STAY},
    RemembersWhatItCopied: {Promise.COPIES_STAY},
    FindsNothingBetween: {Promise.SEEK_FINDS_THE_FIRST},
}
"""What most sequences find, and which promise may be the first that is seen broken."""


@pytest.mark.parametrize("make", BROKEN)
def test_a_broken_plugin_is_found(make: MakeStorage) -> None:
    """By as many sequences as the quick profile tries.

    What a seed draws depends on the modules that were imported: what is found by nine
    of ten seeds gets more of them.
    """
    search = Search()
    factor = 5 if make is TakesOutagesForAMissingIndex else 1
    once = settings(
        max_examples=factor * EXTENTS[Profile.QUICK].sequences,
        stateful_step_count=30,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        verbosity=Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(BrokenPromiseError):
        run_state_machine_as_test(
            seed(0)(plugin_machine(make, search=search)), settings=once
        )
    assert search.failures.shortest.keys() <= BROKEN[make]


class ListsBackwards(SingleObject):
    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        return super().list_segments(partition, min_offset)[::-1]


class TellsAnotherTime(SingleObject):
    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        return [replace(one, max_timestamp_ms=1) for one in found]


class ReturnsAnotherName(SingleObject):
    numbers = count()

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        name = super().copy_log_segment(metadata, data)
        return name[:-1] + bytes([next(self.numbers)])


class CancelsNothing(KafkaLocal):
    @override
    def cancel_copying(self, partition: TopicIdPartition) -> None:
        return


def begin_with_two(machine: PluginMachine) -> None:
    machine.begin([SegmentPlan()], (0, 2))


def copy_twice(machine: PluginMachine) -> None:
    machine.begin([SegmentPlan()], ())
    machine.copy(0, 0, FaultPlan(), is_open=False)
    machine.copy(0, 0, FaultPlan(), is_open=False)


def clean_after_a_crash(machine: PluginMachine) -> None:
    machine.begin([SegmentPlan()], ())
    died = fault(Effect.CRASH, 1, of_writes=True)
    machine.copy(0, 0, died, is_open=False)
    machine.scrub(0, 0, FaultPlan(), removes=True)


KNOWN: list[tuple[MakeStorage, Callable[[PluginMachine], None], Promise]] = [
    (ListsBackwards, begin_with_two, Promise.LISTINGS_ARE_SORTED),
    (TellsAnotherTime, begin_with_two, Promise.LISTED_FIELDS_ARE_TRUE),
    (ReturnsAnotherName, copy_twice, Promise.REPEATED_COPIES_AGREE),
    (CancelsNothing, clean_after_a_crash, Promise.LEFTOVERS_ARE_REMOVED),
]
"""Plugins, steps that break a promise with them, and which."""


@pytest.mark.parametrize(("make", "steps", "promise"), KNOWN)
def test_a_broken_promise_is_named(
    make: MakeStorage, steps: Callable[[PluginMachine], None], promise: Promise
) -> None:
    machine = plugin_machine(make)()
    try:
        with pytest.raises(BrokenPromiseError) as found:
            steps(machine)
    finally:
        machine.teardown()
    assert found.value.promise is promise


def test_each_promise_was_seen_broken() -> None:
    found = {promise for _, _, promise in KNOWN}
    assert found.union(*BROKEN.values()) == set(Promise)


def test_most_steps_begin_with_something_stored() -> None:
    """An empty store breaks few plugins."""
    began: list[tuple[str, bool]] = []

    class Watched(plugin_machine(SingleObject)):  # type: ignore[misc] # made at runtime
        @override
        def check(self) -> None:
            began.append((self.steps[-1].name, bool(self.model.whole)))
            super().check()

    some = settings(max_examples=20, stateful_step_count=15, database=None)
    run_state_machine_as_test(
        seed(0)(Watched),
        settings=settings(
            some,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
    for name, share in (("restart", 1.0), ("begin", 0.5)):
        filled = [is_filled for step, is_filled in began if step == name]
        assert sum(filled) >= share * len(filled) > 0


def test_a_plugin_that_lists_one_page_is_found() -> None:
    """By the step itself: 1001 segments are copied in few of the examples."""
    machine = plugin_machine(ListsOnePage)()
    machine.begin([SegmentPlan()], ())
    machine.copy_a_crowd(3, 0)
    with pytest.raises(AssertionError, match="lacks"):
        machine.copy_a_crowd(CROWD, 0)
    machine.teardown()


def test_the_profile_of_hypothesis_says_how_many_examples() -> None:
    before = settings.get_current_profile_name()
    settings.register_profile("seven", settings(max_examples=7))
    settings.load_profile("seven")
    try:
        made: Any = state_machine_test(SingleObjectCase)
        fixed: Any = state_machine_test(SingleObjectCase, examples=3)
    finally:
        settings.load_profile(before)
    assert (made.settings.max_examples, fixed.settings.max_examples) == (7, 3)


@contextmanager
def begun(make: MakeStorage, search: Search | None = None) -> Iterator[PluginMachine]:
    """A machine whose steps can be made, as they are pasted."""
    machine = plugin_machine(make, search=search)()
    try:
        machine.begin([SegmentPlan()], ())
        yield machine
    finally:
        machine.teardown()


def test_each_call_of_a_step_may_take_as_long_as_a_step() -> None:
    """A search that makes calls is not taken for one that hangs."""
    search = Search()
    with begun(SingleObject, search) as machine:
        before = search.failures.current
        machine.try_call(0, FaultPlan(), machine.handles[0].storage.list_partitions)
        assert search.failures.current is not before
        assert search.failures.current == before


def fault(effect: Effect, at: int, *, of_writes: bool = False) -> FaultPlan:
    return FaultPlan((StoreFault(effect, at, of_writes),))


@pytest.mark.parametrize("make", [SingleObject, KafkaLocal])
@pytest.mark.parametrize("effect", Effect)
def test_a_sound_plugin_reports_each_fault_of_a_write(
    make: MakeStorage, effect: Effect
) -> None:
    with begun(make) as machine:
        for at in range(3):
            machine.copy(at, 0, fault(effect, at, of_writes=True))
            machine.delete_segment(at, 1, fault(effect, at, of_writes=True))
            machine.scrub(0, 0, fault(effect, at), removes=True)


@pytest.mark.parametrize("effect", Effect)
def test_a_layout_may_list_the_name_alone_of_what_it_may_not_look_into(
    effect: Effect,
) -> None:
    with begun(LAYOUTS["kafka-log-epochs"]) as machine:
        for at in range(3):
            machine.list_partitions(0, fault(effect, at))


class RaisesOnCopy(SingleObject):
    """Raises what no caller expects."""

    def copy_log_segment(self, *_: object) -> bytes:
        raise KeyError("of the plugin")


def copy(machine: PluginMachine) -> None:
    machine.copy(0, 0, FaultPlan())


def fetch_what_is_gone(machine: PluginMachine) -> None:
    copy(machine)
    machine.delete_segment(0, 0, FaultPlan())
    machine.fetch_what_is_gone(0, 0)


def list_during_an_outage(machine: PluginMachine) -> None:
    copy(machine)
    machine.list_partitions(0, fault(Effect.ERROR, 0))


class ReturnsNothing(SingleObject):
    """Reads each log as an empty one."""

    def fetch_log_segment(self, *_: object, **__: object) -> memoryview:
        return memoryview(b"")


class RaisesForWhatIsGone(SingleObject):
    """Raises another error than the contract's."""

    def fetch_log_segment(self, *args: Any, **named: Any) -> memoryview:  # noqa: ANN401 - as it is called
        try:
            return super().fetch_log_segment(*args, **named)
        except FileNotFoundError:
            raise KeyError("of the plugin") from None


@pytest.mark.parametrize(
    ("make", "step", "raised", "promise"),
    [
        (RaisesOnCopy, copy, KeyError, Promise.CALLS_SUCCEED),
        (RaisesForWhatIsGone, fetch_what_is_gone, KeyError, Promise.CALLS_SUCCEED),
        (ReturnsNothing, copy, None, Promise.READS_ARE_EXACT),
        (
            TakesOutagesForNothing,
            list_during_an_outage,
            None,
            Promise.OUTAGES_ARE_REPORTED,
        ),
    ],
)
def test_a_failure_says_its_sentence_once_and_what_the_plugin_raised(
    make: MakeStorage,
    step: Callable[[PluginMachine], None],
    raised: type[Exception] | None,
    promise: Promise,
) -> None:
    search = Search()
    with begun(make, search) as machine, pytest.raises(BrokenPromiseError) as found:
        step(machine)
    (failure,) = search.failures.shortest.values()
    assert (failure.error, failure.error.promise) == (found.value, promise)
    assert failure.raised is raised
    printed = "".join(traceback.format_exception(found.value))
    assert printed.count(failure.error.sentence) == 1
