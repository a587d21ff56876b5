"""Calls within calls: how many are in progress, and which error is raised."""

import _thread
import gc
import os
import threading
import warnings
import weakref
from contextlib import suppress
from contextvars import ContextVar

import pytest

from tieredfs.objects.concurrency.nested_calls import NestedCalls


class Progress:
    """Count the calls in progress."""

    def __init__(self) -> None:
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._now -= 1


class Times:
    """The clocks of a thread, of which a test says what it does."""

    def __init__(self) -> None:
        self.clock = self.thread = 0.0

    def pass_by(self, *, computed: float, waited: float) -> None:
        self.thread += computed
        self.clock += computed + waited

    def calls(self) -> NestedCalls:
        """Return calls for files that take these times."""
        return NestedCalls(
            8, is_local=True, clock=lambda: self.clock, thread_clock=lambda: self.thread
        )


def test_results_come_in_the_order_of_the_items() -> None:
    assert NestedCalls(8).map(str, range(50)) == [str(n) for n in range(50)]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_nested_calls_share_one_limit(limit: int) -> None:
    calls, progress = NestedCalls(limit), Progress()

    def leaf(number: int) -> int:
        with progress:
            return number

    def inner(number: int) -> int:
        return sum(calls.map(leaf, range(number)))

    def outer(number: int) -> list[int]:
        return calls.map(inner, range(number))

    found = calls.map(outer, range(10))
    assert found == [[n * (n - 1) // 2 for n in range(m)] for m in range(10)]
    assert 1 <= progress.most <= limit


@pytest.mark.parametrize("limit", [1, 3])
def test_no_call_begins_while_the_limit_is_reached(limit: int) -> None:
    calls, progress, is_exceeded = NestedCalls(limit), Progress(), threading.Event()

    def hold(_: int) -> None:
        with progress:
            if progress.most > limit:
                is_exceeded.set()
            is_exceeded.wait(0.1)  # time enough for one call too many to begin

    def nested(_: int) -> None:
        calls.map(hold, range(3))

    calls.map(nested, range(3))
    assert progress.most == limit


def test_as_many_calls_as_allowed_are_in_progress() -> None:
    everyone = threading.Barrier(20)
    calls = NestedCalls(20)
    calls.map(lambda _: everyone.wait(10), range(20))
    calls.map(lambda _: everyone.wait(10), range(20))  # each has left its place


def test_files_in_memory_are_asked_for_in_one_thread() -> None:
    times, threads = Times(), set[threading.Thread]()
    calls = times.calls()

    def leaf(number: int) -> int:
        threads.add(threading.current_thread())
        times.pass_by(computed=1.0, waited=1.9)
        return number

    def outer(number: int) -> list[int]:
        return calls.map(leaf, range(number))

    assert calls.map(outer, range(5)) == [list(range(m)) for m in range(5)]
    assert len(threads) == 1


@pytest.mark.parametrize(
    ("computed", "waited", "alone"),
    [(1.0, 2.1, 1), (0.0, 0.003, 7), (0.001, 0.004, 6), (10e-6, 0.0003, 67)],
)
def test_files_are_asked_for_concurrently_when_one_call_after_the_other_has_waited(
    computed: float, waited: float, alone: int
) -> None:
    times, together = Times(), threading.Barrier(8)
    calls = times.calls()

    def call(number: int) -> int:
        if number < alone:
            times.pass_by(computed=computed, waited=waited)
        else:
            together.wait(10)
        return number

    assert calls.map(call, range(alone + 8)) == list(range(alone + 8))


def test_a_file_that_was_waited_for_and_cannot_be_read_makes_the_next_concurrent() -> (
    None
):
    times, together = Times(), threading.Barrier(2)
    calls = times.calls()

    def fail(_: int) -> None:
        times.pass_by(computed=0.0, waited=1.0)
        raise OSError

    with pytest.raises(OSError):  # noqa: PT011 - it has no message
        calls.map(fail, range(2))
    calls.map(lambda _: together.wait(10), range(2))


def test_ctrl_c_does_not_wait_for_a_file_and_no_other_is_asked_for() -> None:
    calls, begun, ended = NestedCalls(8, is_local=True), list[int](), threading.Event()
    over, results = threading.Event(), list[object]()

    def leaf(number: int) -> None:
        begun.append(number)
        _thread.interrupt_main()
        ended.wait(60)

    def outer(_: int) -> None:
        try:
            results.append(calls.map(leaf, range(5)))
        finally:
            over.set()

    with pytest.raises(KeyboardInterrupt):
        calls.map(outer, range(5))
    assert not over.is_set()
    ended.set()
    assert over.wait(10)
    assert begun == [0]
    assert not results, "it has some of the results for all"


def test_a_file_system_that_has_become_slow_is_not_judged_by_what_it_was() -> None:
    times, together = Times(), threading.Barrier(2)
    calls = times.calls()
    calls.map(lambda _: times.pass_by(computed=1000.0, waited=0.0), range(2))

    def call(number: int) -> None:
        if number < 3:
            times.pass_by(computed=0.001, waited=0.01)
        else:
            together.wait(10)

    calls.map(call, range(5))


def test_files_are_asked_for_where_no_thread_can_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    calls = NestedCalls(is_local=True)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert calls.map(str, range(3)) == ["0", "1", "2"]
    assert calls.map(lambda n: calls.map(str, range(n)), range(3)) == [
        [],
        ["0"],
        ["0", "1"],
    ]


def test_files_are_asked_for_in_the_context_of_the_caller() -> None:
    name = ContextVar("name", default="none")
    name.set("request")
    found = NestedCalls(is_local=True).map(lambda _: name.get(), range(2))
    assert found == ["request", "request"]


def test_an_error_of_a_call_for_a_file_keeps_nothing_alive() -> None:
    class Large:
        pass

    kept = weakref.WeakSet[Large]()

    def fail(_: int) -> None:
        large = Large()
        kept.add(large)
        raise OSError

    gc.collect()
    gc.disable()
    try:
        with suppress(OSError):
            NestedCalls(is_local=True).map(fail, range(2))
        assert not kept
    finally:
        gc.enable()


def test_an_error_of_the_first_call_for_a_file_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        NestedCalls(is_local=True).map(lambda number: 1 / number, range(3))


def test_the_error_of_the_first_item_is_raised_and_no_other_call_begins() -> None:
    begun: list[int] = []
    both = threading.Barrier(2)

    def fail(number: int) -> None:
        begun.append(number)
        both.wait(10)
        raise ValueError(f"item {number}")

    with pytest.raises(ValueError, match="item 0"):
        NestedCalls(2).map(fail, range(1000))
    assert sorted(begun) == [0, 1]


def test_an_error_does_not_wait_for_calls_in_progress() -> None:
    ended = threading.Event()

    def fail_or_wait(number: int) -> None:
        if not number:
            raise ValueError("the first")
        ended.wait(60)

    with pytest.raises(ValueError, match="the first"):
        NestedCalls(4).map(fail_or_wait, range(4))
    ended.set()


def test_an_error_ends_the_calls_inside_the_other_calls_too() -> None:
    calls, failed = NestedCalls(4), threading.Event()
    begun, begun_later, lock = threading.Event(), 0, threading.Lock()

    def leaf(_: int) -> None:
        nonlocal begun_later
        begun.set()
        with lock:
            begun_later += failed.is_set()
        failed.wait(0.01)  # time enough for all of them, if they went on

    def outer(number: int) -> None:
        if number:
            calls.map(leaf, range(200))
            return
        assert begun.wait(10)
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011 - it has no message
        calls.map(outer, range(3))
    failed.set()
    assert calls.map(str, range(3)) == ["0", "1", "2"]
    # Those that were in progress, and those for which a thread had looked just before.
    assert begun_later <= 2 * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_has_all_places_whatever_its_parent_is_calling() -> None:
    calls, may_end = NestedCalls(4), threading.Event()
    begun = threading.Barrier(5)

    def hold(_: int) -> None:
        begun.wait(10)
        may_end.wait(10)

    parent = threading.Thread(target=calls.map, args=(hold, range(4)))
    parent.start()
    begun.wait(10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
        child = os.fork()
    if not child:
        together = threading.Barrier(4)
        try:
            calls.map(lambda _: together.wait(10), range(4))
        except BaseException:  # noqa: BLE001 - the parent sees the exit code
            os._exit(1)
        os._exit(0)
    may_end.set()
    parent.join(10)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
