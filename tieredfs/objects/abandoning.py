"""Give up on a call that cannot be cancelled.

A client that blocks may block for ever; a thread in Python cannot be ended. So the call
is made on a thread that nobody has to wait for, not even the end of the process.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

__all__ = ["run_abandonable"]

_T = TypeVar("_T")


def run_abandonable(function: Callable[[], _T], timeout: float) -> _T:
    """Return what ``function`` returns, on a thread that is left alone in the end.

    Args:
        function: What to do; after a timeout its outcome is lost.
        timeout: Seconds.

    Raises:
        TimeoutError: It was not done in time, and may still go on.
        Exception: What ``function`` raised.
    """
    future: Future[_T] = Future()

    def work() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # noqa: BLE001 - it is the caller's
            future.set_exception(error)

    # A pool's threads would be waited for when the process ends.
    threading.Thread(target=work, name="tieredfs-call", daemon=True).start()
    return future.result(timeout)
