"""The machine passes on correct plugins, and finds what is wrong with broken ones."""

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from testing.broken.copying import CopiesOnce, ListsHalves, RemembersWhatItCopied
from testing.broken.deleting import DeletesByPrefix
from testing.broken.indexes import KeepsIndexesByOffset
from testing.broken.listing import ListsOnePage, RemembersThatItWasEmpty
from testing.broken.reading import (
    LosesTheLastByte,
    TakesOutagesForAMissingIndex,
    TakesOutagesForNothing,
)
from testing.layouts import read_only
from tieredfs import ObjectStore, RemoteStorageManager
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import MakeStorage, state_machine_test
from tieredfs.testing.machine import Trial, storage_machine
from tieredfs.testing.machines import CROWD
from tieredfs.testing.promise import BrokenPromiseError, Promise
from tieredfs.testing.segment_plan import SegmentPlan


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


BROKEN: dict[MakeStorage, set[Promise]] = {
    ListsHalves: {Promise.NOTHING_ELSE_IS_LISTED, Promise.READS_ARE_EXACT},
    CopiesOnce: {Promise.CALLS_SUCCEED},
    KeepsIndexesByOffset: {Promise.READS_ARE_EXACT},
    DeletesByPrefix: {Promise.COPIES_STAY},
    LosesTheLastByte: {Promise.READS_ARE_EXACT},
    TakesOutagesForAMissingIndex: {Promise.OUTAGES_ARE_REPORTED},
    TakesOutagesForNothing: {Promise.OUTAGES_ARE_REPORTED},
    RemembersThatItWasEmpty: {Promise.COPIES_STAY},
    RemembersWhatItCopied: {Promise.COPIES_STAY},
}
"""What most sequences find, and which promise may be the first that is seen broken."""


@pytest.mark.parametrize("make", BROKEN)
def test_a_broken_plugin_is_found(make: MakeStorage) -> None:
    """By sequences from one seed, so that it does not depend on what else runs."""
    trial = Trial()
    once = settings(
        max_examples=100,
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
            seed(0)(storage_machine(make, trial=trial)), settings=once
        )
    assert trial.failures.shortest.keys() <= BROKEN[make]


def test_a_plugin_that_lists_one_page_is_found() -> None:
    """By the step itself: 1001 segments are copied in few of the examples."""
    machine = storage_machine(ListsOnePage)()
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
