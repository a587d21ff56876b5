"""Calls that are made after a wait, all by one thread."""

import heapq
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["DelayedCalls"]


@dataclass(order=True, slots=True)
class _Delayed:
    due: float
    number: int
    call: Callable[[], object] = field(compare=False)


class DelayedCalls:
    """Make each call when its time has come, in the order of their times.

    The thread is a daemon, and ends when no call is left. A call must return quickly:
    the others wait for it. An exception that it raises is reported by
    ``threading.excepthook``, and ends nothing else.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create it without starting a thread.

        Args:
            clock: Returns a time in seconds that only grows.
        """
        self._clock = clock
        self._lock = make_lock()
        self._changed = threading.Condition(self._lock)
        self._process = os.getpid()
        self._numbers = count()
        self._left: list[_Delayed] = []
        self._is_running = False

    def after(self, seconds: float, call: Callable[[], object]) -> None:
        """Make a call after some seconds.

        Raises:
            RuntimeError: No thread can be started.
        """
        due = self._clock() + seconds
        with self._lock:
            if self._process != os.getpid():  # a forked child lacks the thread
                self._process, self._is_running = os.getpid(), False
                self._left.clear()
            if not self._is_running:
                thread = threading.Thread(
                    target=self._run, name="tieredfs-delayed", daemon=True
                )
                thread.start()  # which waits for this lock
                self._is_running = True
            heapq.heappush(self._left, _Delayed(due, next(self._numbers), call))
            self._changed.notify_all()

    def clear(self) -> None:
        """Make none of the calls that are left, and let the thread end."""
        with self._lock:
            self._left.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        while (call := self._next()) is not None:
            try:
                call()
            except Exception as error:  # noqa: BLE001 - as at the end of a thread
                details = (type(error), error, error.__traceback__, None)
                threading.excepthook(threading.ExceptHookArgs(details))
            del call  # it may hold much while the next one is waited for

    def _next(self) -> Callable[[], object] | None:
        """Wait for the next call that is due; None if no call is left."""
        with self._lock:
            while self._left:
                seconds = self._left[0].due - self._clock()
                if seconds <= 0:
                    return heapq.heappop(self._left).call
                self._changed.wait(seconds)
            self._is_running = False
            return None
