"""Whether calls end when they have to."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from tieredfs import DeadlineExceededError, ObjectStore, RequestPolicy

__all__ = ["assert_all_end_by_the_deadline"]

LIMIT = 1.5


def assert_all_end_by_the_deadline(
    store: ObjectStore, calls: Iterable[Callable[[ObjectStore], object]]
) -> None:
    """Make calls that will not be answered, all at once.

    Each has to fail at the deadline, not before, and not later than a tenth after.
    """
    hasty = store.with_policy(RequestPolicy(deadline=LIMIT))

    def timed(call: Callable[[ObjectStore], object]) -> float:
        begun = time.monotonic()
        with pytest.raises(DeadlineExceededError):
            call(hasty)
        return time.monotonic() - begun

    calls = list(calls)
    with ThreadPoolExecutor(len(calls)) as pool:
        took = list(pool.map(timed, calls))
    assert LIMIT <= min(took) <= max(took) <= LIMIT * 1.1
