"""When a search is over, and which failures it keeps."""

from tieredfs.testing.plugin_machine.limited_search import Failure, Search
from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.plugin_machine.step import Step


class Clock:
    """Shows the time that a test has set."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def failure(*names: str, promise: Promise = Promise.CALLS_SUCCEED) -> Failure:
    error = BrokenPromiseError(promise, "It did not.")
    return Failure(error, tuple(Step(name, ()) for name in names))


def test_a_search_without_failures_ends_after_its_seconds() -> None:
    clock = Clock()
    search = Search(5.0, 2.0, clock)
    clock.now += 5.0
    assert not search.is_over()
    clock.now += 0.1
    assert search.is_over()


def test_a_search_that_is_stopped_ends_at_once() -> None:
    search = Search()
    assert not search.is_over()
    search.stop()
    assert search.is_over()


def test_a_failure_is_made_shorter_for_as_long_as_the_limits_say() -> None:
    clock = Clock()
    search = Search(5.0, 2.0, clock)
    clock.now += 4.0
    search.failures.add(failure("begin", "copy"))
    assert not search.is_over()
    clock.now += 2.0
    assert not search.is_over()
    clock.now += 0.1
    assert search.is_over()


def test_a_search_without_limits_does_not_end() -> None:
    clock = Clock()
    search = Search(clock=clock)
    clock.now += 1e9
    assert not search.is_over()


def test_the_shortest_failure_of_each_promise_is_kept() -> None:
    search = Search()
    search.failures.add(failure("begin", "copy"))
    search.failures.add(failure("begin"))
    search.failures.add(failure("begin", "copy", "restart"))
    search.failures.add(failure("scrub", promise=Promise.COPIES_STAY))
    kept = {p: len(f.steps) for p, f in search.failures.shortest.items()}
    assert kept == {Promise.CALLS_SUCCEED: 1, Promise.COPIES_STAY: 1}
