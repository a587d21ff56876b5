"""Whether calls end when they have to."""

import gc
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

import pytest

from tieredfs import DeadlineExceededError, ObjectStore, RequestPolicy

__all__ = ["assert_all_end_by", "assert_all_end_by_the_deadline"]

LIMIT = 1.5


def assert_all_end_by_the_deadline(
    store: ObjectStore, calls: Iterable[Callable[[ObjectStore], object]]
) -> None:
    """Make calls that will not be answered, all at once.

    Each has to fail at the deadline, not before, and not later than a tenth after.
    """
    hasty = store.with_policy(RequestPolicy(deadline=LIMIT))

    def fail(call: Callable[[ObjectStore], object]) -> None:
        with pytest.raises(DeadlineExceededError):
            call(hasty)

    took = assert_all_end_by(LIMIT, [partial(fail, call) for call in calls])
    assert min(took) >= LIMIT


def assert_all_end_by(
    limit: float, calls: Iterable[Callable[[], object]]
) -> list[float]:
    """Make calls all at once; none may take longer than a limit and a tenth.

    A busy machine wakes every thread late, those that only wait as well: that much more
    is nobody's fault.

    Returns:
        The seconds that each took.
    """

    def timed(call: Callable[[], object]) -> float:
        begun = time.monotonic()
        call()
        return time.monotonic() - begun

    calls = list(calls)
    with _without_collections(), ThreadPoolExecutor(2 * len(calls)) as pool:
        waits = [pool.submit(timed, partial(_wait, limit)) for _ in calls]
        took = list(pool.map(timed, calls))
        late = max(wait.result() for wait in waits) - limit
    assert max(took) <= limit * 1.1 + 3 * late
    return took


def _wait(seconds: float) -> None:
    threading.Event().wait(seconds)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Keep the garbage of all earlier tests: to collect it stops threads for 0.5 s."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
