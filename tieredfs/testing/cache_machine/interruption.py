"""Something that is done in the midst of a call, at a place that does not vary.

Two threads that merely run at the same time seldom meet where they harm each other.
"""

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final, TypeVar

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import result_of

__all__ = ["Interruption"]

_T = TypeVar("_T")

_PATIENCE_SECONDS: Final = 0.02
"""How long a call is held back by what is done in its midst, if a lock prevents it."""

_MAX_SECONDS: Final = 30.0


class Interruption:
    """Something that is done once, on a thread of its own, while a call is held back.

    The call goes on after a moment if it holds a lock that the other one needs.
    """

    def __init__(self, action: Callable[[], object]) -> None:
        """Begin; nothing is done yet.

        Args:
            action: What is done.
        """
        self._action = action
        self._lock = threading.Lock()
        self._pool = DaemonExecutor(1)
        self._done = threading.Event()
        self._is_begun = False

    def __call__(self) -> None:
        """Do it, if it was not done yet, and wait for its end for a moment."""
        with self._lock:
            if self._is_begun:
                return
            self._is_begun = True
        self._future = self._pool.submit(self._run)
        self._done.wait(_PATIENCE_SECONDS)

    def within(self, call: Callable[[], _T], step: int) -> _T:
        """Make a call, and do it in its midst, on the thread of the caller.

        Args:
            call: What is called.
            step: At the end of how many functions of tieredfs it is done; if there are
                not so many, it is not.
        """
        left = step

        def count(frame: FrameType, event: str, _: object) -> None:
            nonlocal left
            module = str(frame.f_globals.get("__name__"))
            if event != "return" or not module.startswith("tieredfs."):
                return
            left -= 1
            if left < 0:
                sys.setprofile(None)
                self()

        if sys.getprofile() is not None:  # a profiler measures the time
            return call()
        sys.setprofile(count)
        try:
            return call()
        finally:
            sys.setprofile(None)

    def end(self) -> bool:
        """Wait for its end, and raise its error; return whether it was done."""
        if not self._is_begun:
            return False
        result_of(self._future, _MAX_SECONDS)
        return True

    def _run(self) -> None:
        try:
            self._action()
        finally:
            self._done.set()
