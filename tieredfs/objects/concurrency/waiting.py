"""Waits that Ctrl-C ends, also when it comes while they begin.

Python looks for signals, lets other threads run, and only then waits for a lock. A
signal that comes in between, or that the system hands to another thread, does not wake
the wait: with a store that hangs it would be seen minutes later, at the deadline. So no
wait is longer than a moment at a time.
"""

import threading
from collections.abc import Collection
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import Any, Final, TypeVar

from tieredfs.objects.policy import Deadline

__all__ = ["MOMENT", "acquire", "result_of", "wait_for_all"]

_T = TypeVar("_T")

MOMENT: Final = 0.25
"""Seconds until a waiting thread looks for signals."""


def result_of(future: Future[_T], timeout: float) -> _T:
    """Return a future's result.

    Args:
        future: What is waited for.
        timeout: Seconds.

    Raises:
        TimeoutError: It is not done in time.
        Exception: What the future raised.
    """
    deadline = Deadline(timeout)
    while True:
        try:
            return future.result(min(MOMENT, deadline.remaining))
        except TimeoutError:
            if future.done():  # it raised that itself, or came to its end just now
                return future.result()
            if not deadline.remaining:
                raise


def wait_for_all(futures: Collection[Future[Any]]) -> None:
    """Wait until all are done, or one has failed."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, MOMENT, FIRST_EXCEPTION)
        if any(one.cancelled() or one.exception() for one in done):
            return


def acquire(lock: threading.Lock, timeout: float) -> bool:
    """Acquire a lock; return whether that was done within so many seconds."""
    deadline = Deadline(timeout)
    while not lock.acquire(timeout=min(MOMENT, deadline.remaining)):
        if not deadline.remaining:
            return False
    return True
