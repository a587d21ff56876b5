"""Concurrent tasks: which failure is raised, and what still runs afterwards."""

import threading
from functools import partial

import pytest

from tieredfs.objects.concurrency.parallel import run_all


def test_answers_come_in_the_order_of_the_tasks() -> None:
    tasks = [partial(str, number) for number in range(50)]
    assert run_all(tasks, concurrency=8) == [str(number) for number in range(50)]


def test_the_failure_that_ended_the_others_is_raised_and_not_theirs() -> None:
    stopped, all_begun, ended = threading.Event(), threading.Barrier(8), []

    def ends_when_it_is_told_to() -> None:
        all_begun.wait()
        stopped.wait()
        ended.append(1)
        raise TimeoutError

    def fails() -> None:
        all_begun.wait()
        raise ValueError

    tasks = [*[ends_when_it_is_told_to] * 4, fails, *[ends_when_it_is_told_to] * 3]
    with pytest.raises(ValueError):  # noqa: PT011 # it has no message
        run_all(tasks, concurrency=8, stop=stopped.set)
    assert len(ended) == 7
