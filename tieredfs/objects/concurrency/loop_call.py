"""Coroutines that run on a loop of another thread, while this thread waits.

``asyncio.run_coroutine_threadsafe`` lets both threads lock one future. Ctrl-C that
arrives just as the waiting thread has locked it leaves it locked (bpo-29988): the loop
then waits for it for ever, and with it every later request of the process. So nothing
here is locked by both: the loop alone touches the task, and releases a lock when it has
ended.
"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any, Final, Generic, TypeVar

from tieredfs.objects.concurrency.waiting import acquire

__all__ = ["run_on_loop"]

_T = TypeVar("_T")


def run_on_loop(
    begin: Callable[[], Coroutine[Any, Any, _T]],
    loop: asyncio.AbstractEventLoop,
    timeout: float,
) -> _T:
    """Run a coroutine on a loop, and return its result.

    After an error here, such as a timeout or Ctrl-C, the coroutine is cancelled: it
    leaves no download behind. It may end later.

    Args:
        begin: Returns the coroutine; it is called on the loop.
        loop: The loop, which another thread runs.
        timeout: Seconds to wait.

    Raises:
        TimeoutError: It was not done in time.
        CancelledError: Something else cancelled it.
        RuntimeError: The loop is closed.
        Exception: What the coroutine raised.
    """
    call = _LoopCall(begin, loop)
    is_done = False
    try:
        loop.call_soon_threadsafe(call.begin)
        is_done = acquire(call.ended, timeout)
    finally:
        if not is_done:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(call.cancel)
    try:
        if not is_done or call.task is None:
            raise TimeoutError
        if call.task.cancelled():
            raise CancelledError
        return call.task.result()
    finally:
        del call  # an error's traceback refers to this frame: avoid a cycle


class _LoopCall(Generic[_T]):
    """A task, which only the loop touches until it has ended."""

    def __init__(
        self,
        begin: Callable[[], Coroutine[Any, Any, _T]],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self.ended: Final = threading.Lock()
        """Held until the task has ended."""
        self.ended.acquire()
        self.task: asyncio.Task[_T] | None = None
        self._begin: Final = begin
        self._loop: Final = loop

    def begin(self) -> None:
        self.task = self._loop.create_task(self._begin())
        self.task.add_done_callback(self._end)

    def cancel(self) -> None:
        if self.task is not None:  # else Ctrl-C came before the loop had it
            self.task.cancel()

    def _end(self, task: "asyncio.Task[_T]") -> None:
        if not task.cancelled():
            task.exception()  # else the loop would log its error, too
        self.ended.release()
