"""What is done in the midst of a call is done once, and at the same place each time."""

import threading

import pytest

from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.cache_machine.interruption import Interruption
from tieredfs.testing.cache_machine.pool import POOL


def call_with_two_steps(seen: list[str]) -> str:
    """Call two functions of tieredfs."""
    seen.append("first")
    assert Entries({POOL[0]: 7}).size == 7
    seen.append("second")
    assert str(POOL[0])
    seen.append("end")
    return "returned"


def test_it_is_done_at_the_end_of_the_given_function() -> None:
    seen: list[str] = []
    midst = Interruption(lambda: seen.append("in the midst"))
    assert midst.within(lambda: call_with_two_steps(seen), 0) == "returned"
    assert midst.end()
    assert seen == ["first", "in the midst", "second", "end"]


def test_it_is_not_done_in_a_call_that_is_too_short() -> None:
    seen: list[str] = []
    midst = Interruption(lambda: seen.append("in the midst"))
    assert midst.within(lambda: call_with_two_steps(seen), 100) == "returned"
    assert not midst.end()
    assert seen == ["first", "second", "end"]


def test_it_is_done_once() -> None:
    seen: list[str] = []
    midst = Interruption(lambda: seen.append("in the midst"))
    midst()
    midst()
    assert midst.end()
    assert seen == ["in the midst"]


def test_a_call_goes_on_while_a_lock_holds_it_back() -> None:
    lock = threading.Lock()
    seen: list[str] = []

    def action() -> None:
        with lock:
            seen.append("in the midst")

    midst = Interruption(action)
    with lock:
        midst()
        seen.append("the call")
    assert midst.end()
    assert seen == ["the call", "in the midst"]


def test_its_error_is_raised_at_the_end() -> None:
    midst = Interruption(lambda: 1 // 0)
    midst()
    with pytest.raises(ZeroDivisionError):
        midst.end()
