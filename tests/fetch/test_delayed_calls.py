"""Calls are made after their waits, by one thread that ends with the last of them."""

import threading
from functools import partial

import pytest

from tieredfs.fetch.delayed_calls import DelayedCalls

WAIT_SECONDS = 30.0


def test_they_are_made_in_the_order_of_their_times_and_the_thread_ends() -> None:
    made: list[int] = []
    before = set(threading.enumerate())
    done = threading.Event()
    calls = DelayedCalls()
    calls.after(0.03, done.set)
    for number, seconds in ((2, 0.02), (1, 0.01), (0, 0.0)):
        calls.after(seconds, partial(made.append, number))
    assert done.wait(WAIT_SECONDS)
    assert made == [0, 1, 2]
    for one in set(threading.enumerate()) - before:
        one.join(WAIT_SECONDS)
        assert not one.is_alive()
    again = threading.Event()
    calls.after(0.0, again.set)
    assert again.wait(WAIT_SECONDS)


def test_an_earlier_call_that_is_added_later_does_not_wait_for_the_others() -> None:
    calls, first = DelayedCalls(), threading.Event()
    calls.after(5.0, lambda: None)
    calls.after(0.0, first.set)
    assert first.wait(WAIT_SECONDS)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_one_that_fails_ends_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(args[1]))

    def fail() -> None:
        raise ZeroDivisionError

    calls, done = DelayedCalls(), threading.Event()
    calls.after(0.0, fail)
    calls.after(0.01, done.set)
    assert done.wait(WAIT_SECONDS)
    assert [type(error) for error in seen] == [ZeroDivisionError]
