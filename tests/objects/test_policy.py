import math
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tieredfs import (
    ErrorKind,
    InvalidArgumentError,
    RequestCounter,
    RequestEvent,
    RequestPolicy,
)
from tieredfs.objects.policy import CommonDeadline, Deadline


class Clock:
    """A clock that advances only when it is set."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_deadline_runs_down_and_stays_at_nothing() -> None:
    clock = Clock()
    deadline = Deadline(5.0, clock)
    assert (deadline.remaining, deadline.elapsed) == (5.0, 0.0)
    clock.now += 2.0
    assert (deadline.remaining, deadline.elapsed) == (3.0, 2.0)
    assert deadline.check() == 3.0
    clock.now += 3.0
    assert (deadline.remaining, deadline.elapsed) == (0.0, 5.0)
    clock.now += 100.0
    assert (deadline.remaining, deadline.elapsed) == (0.0, 105.0)
    with pytest.raises(TimeoutError):
        deadline.check()


def test_a_deadline_that_is_earlier_leaves_a_part_of_what_was_left() -> None:
    clock = Clock()
    deadline = Deadline(20.0, clock)
    clock.now += 10.0
    early = deadline.earlier(0.1)
    assert (early.remaining, deadline.remaining) == (9.0, 10.0)
    clock.now += 9.5
    assert (early.remaining, deadline.remaining) == (0.0, 0.5)


def test_a_common_deadline_that_is_ended_wakes_those_that_sleep() -> None:
    deadline = CommonDeadline(600)
    with ThreadPoolExecutor(2) as pool:
        sleeping = [pool.submit(deadline.sleep, 300) for _ in range(2)]
        deadline.expire()
        for each in sleeping:
            each.result(timeout=10)
    assert deadline.remaining == 0
    deadline.sleep(300)


@given(st.floats(1e-3, 1e6), st.integers(1, 50), st.lists(st.floats(0, 1), max_size=49))
def test_attempts_that_all_stall_share_the_whole_deadline(
    deadline: float, attempts: int, waits: list[float]
) -> None:
    """Each wait is a part of what is left."""
    policy = RequestPolicy(attempts=attempts, deadline=deadline)
    left, made = deadline, 0
    while left and made < attempts:
        made += 1
        share = policy.share(left, made)
        assert share == left or (share >= 1 and share == left / 2)
        assert share == left or made < attempts
        left -= share
        if waits:
            left -= left * waits.pop()
    assert left == 0, "nothing was tried while there was time"


def test_a_policy_has_the_documented_defaults() -> None:
    policy = RequestPolicy()
    assert (policy.attempts, policy.deadline) == (5, 60.0)
    assert hash(policy) == hash(RequestPolicy())


@pytest.mark.parametrize(
    "fields",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"deadline": 0.0},
        {"deadline": -1.0},
        {"deadline": math.nan},
        {"backoff": -0.1},
        {"backoff": math.nan},
        {"backoff": math.inf},
        {"max_backoff": -1.0},
        {"max_backoff": math.nan},
        {"max_backoff": math.inf},
        {"deadline": math.inf},
        {"attempts": math.nan},
        {"attempts": "3"},
        {"attempts": 1.5},
        {"attempts": True},
        {"deadline": True},
        {"deadline": None},
    ],
    ids=repr,
)
def test_a_policy_that_allows_no_call_is_refused(fields: dict[str, Any]) -> None:
    ((name, value),) = fields.items()
    told = re.escape(f"RequestPolicy.{name} is {value!r}: give ")
    with pytest.raises(InvalidArgumentError, match=told):
        RequestPolicy(**fields)


def test_attempts_of_numpy_are_taken() -> None:
    three: Any = np.int64(3)
    assert RequestPolicy(attempts=three) == RequestPolicy(attempts=3)


def test_a_counter_adds_every_attempt_from_any_thread() -> None:
    counter = RequestCounter()
    events = [
        RequestEvent("get", "a", 10, 3, 0.1, None),
        RequestEvent("put", "b", 5, 1, 0.1, ErrorKind.NOT_FOUND),
    ]

    def work(_: int) -> None:
        for event in events:
            counter.on_request(event)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(500)))
    assert counter.by_verb() == {"get": 1500, "put": 500}
    assert (counter.requests, counter.size) == (2000, 7500)


def test_what_a_counter_gave_does_not_change_it() -> None:
    counter = RequestCounter()
    counter.by_verb()["get"] = 7
    assert (counter.requests, counter.size, counter.by_verb()) == (0, 0, {})
