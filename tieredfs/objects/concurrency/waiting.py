"""Waits that Ctrl-C interrupts, even when it arrives just as a wait begins.

Python checks for signals, lets other threads run, and only then waits for a lock. A
signal that arrives in between, or that the system delivers to another thread, does not
interrupt the wait: with a store that hangs it would be noticed minutes later, at the
deadline. So each wait is split into short ones.
"""

from collections.abc import Callable, Collection
from concurrent.futures import FIRST_EXCEPTION, Future, wait
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tieredfs.objects.policy import Deadline

if TYPE_CHECKING:
    from threading import Lock, RLock

__all__ = [
    "SIGNAL_CHECK_SECONDS",
    "LockTimeoutError",
    "acquire",
    "call_holding",
    "result_of",
    "wait_for_all",
]

_T = TypeVar("_T")

SIGNAL_CHECK_SECONDS: Final = 0.25
"""Seconds after which a waiting thread checks for signals."""


def result_of(future: Future[_T], timeout: float) -> _T:
    """Return a future's result.

    Args:
        future: The future to wait for.
        timeout: Seconds to wait.

    Raises:
        TimeoutError: The future is not done in time.
        Exception: What the future raised.
    """
    deadline = Deadline(timeout)
    try:
        while True:
            try:
                return future.result(min(SIGNAL_CHECK_SECONDS, deadline.remaining))
            except TimeoutError:
                if future.done():  # it raised TimeoutError itself, or ended just now
                    return future.result()
                if not deadline.remaining:
                    raise
    finally:
        del future  # an error's traceback refers to this frame: avoid a cycle


def wait_for_all(futures: Collection[Future[Any]]) -> None:
    """Wait until all futures are done, or one has failed."""
    pending = set(futures)
    while pending:
        done, pending = wait(pending, SIGNAL_CHECK_SECONDS, FIRST_EXCEPTION)
        if any(one.cancelled() or one.exception() for one in done):
            return


def acquire(lock: "Lock | RLock", timeout: float) -> bool:
    """Acquire a lock; return whether it was acquired within ``timeout`` seconds."""
    deadline = Deadline(timeout)
    while not lock.acquire(timeout=min(SIGNAL_CHECK_SECONDS, deadline.remaining)):
        if not deadline.remaining:
            return False
    return True


class LockTimeoutError(TimeoutError):
    """Another thread has held a lock for too long."""


def call_holding(lock: "RLock", timeout: float, function: Callable[[], _T]) -> _T:
    """Call a function while this thread holds a lock, and return its result.

    Ctrl-C may be noticed just after the lock was acquired, before this is known. So it
    is an RLock, which knows its thread.

    Args:
        lock: It is released afterwards, whenever Ctrl-C comes.
        timeout: Seconds to wait for the lock.
        function: What to call.

    Raises:
        LockTimeoutError: The lock was not acquired in time; nothing was called.
        Exception: What the function raised.
    """
    try:
        if not acquire(lock, timeout):
            raise LockTimeoutError
        return function()
    finally:
        try:  # noqa: SIM105 - Ctrl-C could come in what is called to suppress
            lock.release()
        except RuntimeError:  # it was not acquired
            pass
