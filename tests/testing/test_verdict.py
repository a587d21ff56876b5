import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from threading import Lock

import pytest
from hypothesis.errors import Flaky
from typing_extensions import override

from testing.broken.reading import TakesTheEndAsIncluded
from testing.pasted import run_test
from tieredfs import (
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    StorageUnavailableError,
    TopicIdPartition,
    UnsupportedOperationError,
)
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import (
    CHECKS,
    check_append_has_one_winner,
    check_append_survives_a_cleaner,
    check_copied_segment_is_read_back,
    check_copy_is_idempotent,
    check_errors_are_typed,
    check_listing_is_never_stale,
    check_ranges_are_exact,
    verdict,
)
from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.rule import MakeStorage
from tieredfs.testing.stores import READS, WRITES, WatchedStore, scratch_store
from tieredfs.testing.verdict import (
    EXTENTS,
    PRODUCERS,
    Extent,
    Outcome,
    Profile,
    Recipe,
    Subject,
    Verdict,
    VerdictProducer,
    promise_verdicts,
    rule_verdicts,
    rules,
    search,
)

RECIPE = Recipe(
    ("ObjectStore",), "make_storage = TakesTheEndAsIncluded", "ObjectStore()"
)

QUICK = EXTENTS[Profile.QUICK]


class Stores:
    """Empty stores, and how many were asked for."""

    def __init__(self) -> None:
        self.opened = ExitStack()
        self.count = 0

    def __call__(self) -> ObjectStore:
        self.count += 1
        return self.opened.enter_context(scratch_store())


@pytest.fixture
def stores() -> Iterator[Stores]:
    made = Stores()
    with made.opened:
        yield made


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave only rules that are tested quickly."""
    quick = (
        check_copied_segment_is_read_back,
        check_copy_is_idempotent,
        check_listing_is_never_stale,
        check_ranges_are_exact,
        check_errors_are_typed,
    )
    monkeypatch.setattr(rules, "CHECKS", quick)


def ask(
    make: MakeStorage,
    stores: Stores,
    extent: Extent = QUICK,
    *producers: VerdictProducer,
) -> list[Verdict]:
    """Return the verdicts of some producers, by default of the checks."""
    subject = Subject(make, stores, lambda _: None, RECIPE, extent)
    return [
        verdict
        for produce in producers or (rule_verdicts,)
        for verdict in produce(subject)
    ]


def test_there_is_a_verdict_on_each_rule(stores: Stores) -> None:
    few = replace(
        QUICK, sequences=10, steps=10, search_seconds=25.0, shrink_seconds=1.0
    )
    verdicts = ask(SingleObject, stores, few, *PRODUCERS)
    named = [*(c.__name__ for c in CHECKS), *(promise.rule for promise in Promise)]
    assert [v.name for v in verdicts] == named
    assert {v.outcome for v in verdicts} == {Outcome.HELD, Outcome.NOT_APPLICABLE}
    reasons = {v.name: v.reason for v in verdicts if v.outcome is not Outcome.HELD}
    assert reasons == {
        "check_read_only_refuses_to_write": "the layout has WRITE",
        "check_producers_before_are_older": (
            "no segment has a producer snapshot of its start"
        ),
    }


def test_a_rule_that_turns_out_not_to_apply_is_not_said_to_hold(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    appending = (check_append_has_one_winner, check_append_survives_a_cleaner)
    monkeypatch.setattr(rules, "CHECKS", appending)
    verdicts = ask(KafkaLocal, stores)
    assert [v.outcome for v in verdicts] == [Outcome.NOT_APPLICABLE] * len(appending)
    assert {v.reason for v in verdicts} == {"the layout cannot be appended to"}
    assert {v.outcome for v in ask(SingleObject, stores)} == {Outcome.HELD}


@pytest.mark.usefixtures("few")
def test_a_broken_rule_comes_with_code_that_breaks_it_again(stores: Stores) -> None:
    verdicts = ask(TakesTheEndAsIncluded, stores)
    found = {v.name: v for v in verdicts if v.outcome is Outcome.BROKEN}
    broken = found["check_ranges_are_exact"]
    assert broken.rule.startswith("`fetch_log_segment` returns exactly")
    assert broken.reason.startswith("fetch_log_segment(orders-0/")
    assert broken.code.endswith("check_ranges_are_exact(make_storage)")
    with pytest.raises(AssertionError, match="returned 1 bytes, expected 0"):
        run_test(broken.code, {"TakesTheEndAsIncluded": TakesTheEndAsIncluded})


def test_a_store_that_fails_is_no_verdict(stores: Stores) -> None:
    calls = count()

    def failing() -> ObjectStore:
        limit = 0 if next(calls) > 5 else None
        return WatchedStore.over(stores(), READS | WRITES, limit=limit)

    subject = Subject(SingleObject, failing, lambda _: None, RECIPE)
    with pytest.raises(StorageUnavailableError):
        list(PRODUCERS[0](subject))


@pytest.mark.usefixtures("few")
def test_a_longer_profile_tests_more_often(stores: Stores) -> None:
    ask(SingleObject, stores)
    once = stores.count
    stores.count = 0
    ask(SingleObject, stores, EXTENTS[Profile.FULL])
    assert stores.count - 1 == 5 * (once - 1)


@pytest.mark.usefixtures("few")
def test_what_is_broken_now_and_then_is_found_by_a_longer_profile(
    stores: Stores,
) -> None:
    made = count()

    def sometimes(store: ObjectStore) -> SingleObject:
        if next(made) == 40:
            raise RuntimeError("it was the fortieth")
        return SingleObject(store)

    assert not [v for v in ask(sometimes, stores) if v.outcome is Outcome.BROKEN]
    (broken,) = (
        verdict
        for verdict in ask(sometimes, stores, EXTENTS[Profile.FULL])
        if verdict.outcome is Outcome.BROKEN
    )
    assert "it was the fortieth" in broken.reason
    # In memory it does not break again: then the store is named.
    assert broken.code.endswith("(make_storage, ObjectStore())")


def test_a_broken_promise_comes_with_the_steps_that_break_it_again(
    stores: Stores,
) -> None:
    class ListsNoMore(SingleObject):
        """Lists a partition no more that it once found empty."""

        def __init__(self, store: ObjectStore) -> None:
            super().__init__(store)
            self.empty: set[TopicIdPartition] = set()

        @override
        def list_segments(
            self, partition: TopicIdPartition, min_offset: int = 0
        ) -> list[SegmentMetadata]:
            if partition in self.empty:
                raise NotFoundError(str(partition))
            try:
                return super().list_segments(partition, min_offset)
            except NotFoundError:
                self.empty.add(partition)
                raise

    verdicts = ask(ListsNoMore, stores, QUICK, promise_verdicts)
    (broken,) = (v for v in verdicts if v.outcome is Outcome.BROKEN)
    assert broken.name == "promise_copies_stay"
    code = broken.code.replace("TakesTheEndAsIncluded", "ListsNoMore")
    calls = [line for line in code.splitlines() if line.startswith("state.")]
    assert len(calls) <= 3
    assert all(len(call) < 100 for call in calls)
    with pytest.raises(BrokenPromiseError, match="lacks"):
        run_test(code, {"ListsNoMore": ListsNoMore})
    others = {v.outcome for v in verdicts if v is not broken}
    assert others == {Outcome.UNDECIDED}


def test_without_hypothesis_there_is_no_verdict_on_promises(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("promises", "replay", "search"):
        module = f"tieredfs.testing.verdict.{name}"
        monkeypatch.delitem(sys.modules, module, raising=False)
        monkeypatch.delattr(verdict, name, raising=False)
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(UnsupportedOperationError, match=r"tieredfs\[testing\]"):
        ask(SingleObject, stores, QUICK, promise_verdicts)


class ExitsOnCopy(SingleObject):
    """Ends the process where it should raise."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        raise SystemExit(0)


@pytest.mark.usefixtures("few")
def test_a_plugin_that_ends_the_process_breaks_the_rule(stores: Stores) -> None:
    verdicts = ask(ExitsOnCopy, stores, QUICK, *PRODUCERS)
    broken = {v.name for v in verdicts if v.outcome is Outcome.BROKEN}
    assert {"check_copied_segment_is_read_back", "promise_calls_succeed"} <= broken


class FailsOnce(SingleObject):
    """Reaches its store but once."""

    calls = count()

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        if next(self.calls) == 3:
            raise StorageUnavailableError("list: 503 Slow Down")
        return super().list_segments(partition, min_offset)


@pytest.mark.usefixtures("few")
def test_an_outage_of_a_moment_breaks_no_rule(stores: Stores) -> None:
    verdicts = ask(FailsOnce, stores)
    assert next(FailsOnce.calls) > 4
    assert not [v for v in verdicts if v.outcome is Outcome.BROKEN]


class WaitsForItself(SingleObject):
    """Takes a lock twice where a segment is deleted."""

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        lock = Lock()
        with lock:
            lock.acquire()


def test_a_plugin_that_hangs_is_broken_and_the_verdict_says_where(
    stores: Stores,
) -> None:
    hasty = replace(QUICK, call_seconds=5.0)
    verdicts = ask(WaitsForItself, stores, hasty, *PRODUCERS)
    rule, promise = (v for v in verdicts if v.outcome is Outcome.BROKEN)
    where = rf"did not end within 5 s: it is at \S+{Path(__file__).name}:\d+ in delete_"
    for broken in (rule, promise):
        assert re.search(where, broken.reason)
    assert rule.code.endswith(f"{rule.name}(make_storage, ObjectStore())")
    assert re.search(r"state\.delete_|deletes=True", promise.code)
    (reason,) = {v.reason for v in verdicts if f"{rule.name} did not end" in v.reason}
    assert reason == f"{rule.name} did not end"


def test_what_hangs_in_a_plugin_does_not_keep_the_process_running() -> None:
    script = """
from threading import Event
from tieredfs.testing.rendezvous import Rendezvous
from tieredfs.testing.stuck import StuckCallError, call_within
try:
    call_within(0.1, lambda: Rendezvous(2).run([Event().wait, Event().wait]))
except StuckCallError as error:
    print(error)
"""
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.startswith("A call did not end within 0.1 s: it is at")
    assert done.stderr == ""


class Panics(SingleObject):
    """Raises what is no Exception, as a panic of Rust."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        raise KeyboardInterrupt("a panic")


@pytest.mark.usefixtures("few")
def test_what_is_no_exception_breaks_the_rule(stores: Stores) -> None:
    verdicts = ask(Panics, stores, QUICK, *PRODUCERS)
    broken = [v for v in verdicts if v.outcome is Outcome.BROKEN]
    assert "promise_calls_succeed" in {v.name for v in broken}
    assert all("KeyboardInterrupt('a panic')" in v.reason for v in broken)


HASTY = replace(QUICK, call_seconds=1.0)


class HangsWhenMade(SingleObject):
    """Hangs when it is made, from some storage on."""

    hangs_at = 2
    made = count(1)

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        if next(self.made) >= self.hangs_at:
            lock = Lock()
            with lock:
                lock.acquire()


def hanging_at(number: int, monkeypatch: pytest.MonkeyPatch) -> MakeStorage:
    monkeypatch.setattr(HangsWhenMade, "hangs_at", number)
    monkeypatch.setattr(HangsWhenMade, "made", count(1))
    return HangsWhenMade


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_plugin_that_hangs_when_it_is_made_breaks_one_rule_of_each_kind(
    producer: VerdictProducer, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = hanging_at(1, monkeypatch)
    verdicts = ask(make, stores, HASTY, producer)
    (broken,) = (v for v in verdicts if v.outcome is Outcome.BROKEN)
    assert {v.outcome for v in verdicts if v is not broken} == {Outcome.UNDECIDED}
    wanted = {"check_construction_sends_no_request", "promise_calls_succeed"}
    assert broken.name in wanted
    assert re.search(r"did not end within 1 s: it is at .* in __init__", broken.reason)


def test_what_hangs_before_the_first_step_of_a_search_is_given_up(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = hanging_at(2, monkeypatch)
    verdicts = ask(make, stores, HASTY, promise_verdicts)
    (broken,) = (v for v in verdicts if v.outcome is Outcome.BROKEN)
    assert broken.name == "promise_calls_succeed"
    _, test = broken.code.split("def test_promise_calls_succeed():\n")
    (made,) = test.splitlines()
    assert made.startswith("    state = plugin_machine(make_storage, open_store=")
    assert made.endswith(")()")


def test_time_decides_nothing(stores: Stores) -> None:
    short = replace(
        QUICK, sequences=1000, steps=5, search_seconds=1.0, shrink_seconds=1.0
    )
    verdicts = ask(SingleObject, stores, short, promise_verdicts)
    assert {v.outcome for v in verdicts} == {Outcome.UNDECIDED}
    (reason,) = {v.reason for v in verdicts}
    said = r"the time was enough for \d+ of 1000 sequences of calls"
    assert re.fullmatch(said, reason)


def test_sequences_that_hypothesis_cannot_repeat_decide_nothing(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise Flaky("it drew something else")

    monkeypatch.setattr(search, "run_state_machine_as_test", fail)
    verdicts = ask(SingleObject, stores, QUICK, promise_verdicts)
    assert {v.outcome for v in verdicts} == {Outcome.UNDECIDED}
    (reason,) = {v.reason for v in verdicts}
    assert reason == "a sequence of calls went another way when it was made again"


class FarStore(ObjectStore):
    """A store in memory that takes itself for one on another machine."""

    @property
    @override
    def is_local(self) -> bool:
        return False


def test_over_a_network_a_fifth_of_the_sequences_decides(stores: Stores) -> None:
    few = replace(QUICK, sequences=10, steps=5, search_seconds=60.0, shrink_seconds=1.0)

    def far() -> ObjectStore:
        return FarStore(stores().url)

    for make, tried in ((stores, 10), (far, 2)):
        subject = Subject(SingleObject, make, lambda _: None, RECIPE, few)
        verdicts = [*promise_verdicts(subject)]
        assert {v.reason for v in verdicts} == {f"in {tried} sequences of calls"}
        assert {v.outcome for v in verdicts} == {Outcome.HELD}


def test_the_code_of_a_promise_imports_only_what_it_uses(stores: Stores) -> None:
    few = replace(
        QUICK, sequences=30, steps=10, search_seconds=60.0, shrink_seconds=5.0
    )
    verdicts = ask(TakesTheEndAsIncluded, stores, few, promise_verdicts)
    broken = [v for v in verdicts if v.outcome is Outcome.BROKEN]
    assert broken
    for code in (v.code for v in broken):
        parsed = ast.walk(ast.parse(code))
        imports = [one for one in parsed if isinstance(one, ast.ImportFrom)]
        names = {name.name for one in imports for name in one.names} - {"ObjectStore"}
        assert {
            name for name in names if len(re.findall(rf"\b{name}\b", code)) < 2
        } == set()


def test_a_search_leaves_no_file_of_hypothesis(tmp_path: Path) -> None:
    script = """
from tieredfs import ObjectStore, open_storage
from tieredfs.testing.verdict import Extent, Recipe, Subject, promise_verdicts
from itertools import count
numbers = count()
subject = Subject(
    lambda store: open_storage(store, "single-object"),
    lambda: ObjectStore(f"memory://traces/{next(numbers)}"),
    lambda _: None,
    Recipe((), "", ""),
    Extent(1, 5, 5, 60.0, 60.0, 1.0),
)
print({verdict.outcome.value for verdict in promise_verdicts(subject)})
"""
    folders = {name: str(tmp_path) for name in ("TMPDIR", "TEMP", "TMP")}
    done = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-W", "error", "-c", script],
        cwd=tmp_path,
        env={
            **{k: v for k, v in os.environ.items() if not k.startswith("HYPOTHESIS")},
            **folders,
            "PYTHONPATH": os.pathsep.join(sys.path),
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout == "{'held'}\n"
    assert not list(tmp_path.iterdir())
