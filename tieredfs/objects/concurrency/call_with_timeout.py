"""Blocking calls that cannot be cancelled, with a timeout.

A client that blocks may block forever, and a thread in Python cannot be stopped. So a
call is made on a thread of its own, which is waited for until the deadline and no
longer, not even at the end of the process. An abandoned write may be performed minutes
later. Two rules limit the effect within a process: writes of one path take turns, so no
write is acknowledged while an earlier one may still land; and no call is begun while
too many abandoned calls have not ended.
"""

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS, result_of
from tieredfs.objects.policy import Deadline

__all__ = [
    "MAX_ABANDONED_CALLS",
    "AbandonedCallsError",
    "BlockingCalls",
    "EarlierWriteError",
    "calls_to",
]

_T = TypeVar("_T")

MAX_ABANDONED_CALLS = 32
"""Maximum abandoned calls to one server that have not ended, each with its thread."""


class EarlierWriteError(TimeoutError):
    """A write was not begun: an earlier one of the same path may still land."""


class AbandonedCallsError(OSError):
    """A call was not begun: too many abandoned calls have not ended."""


class BlockingCalls:
    """The blocking calls to one server that are in progress in this process."""

    def __init__(self) -> None:
        """Create an empty set of calls."""
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._under_way: dict[object, bool] = {}  # whether each was abandoned
        self._writes: dict[str, object] = {}

    def run(
        self, function: Callable[[], _T], timeout: float, *, writes: str = ""
    ) -> _T:
        """Run ``function`` on a thread of its own, and return its result.

        Args:
            function: The blocking call; after a timeout its outcome is lost.
            timeout: Seconds, including the wait for an earlier write.
            writes: The path that the call changes. Calls that change one path are never
                in progress together, even when the first of them was abandoned.

        Raises:
            TimeoutError: The call was not done in time, and may still go on.
            EarlierWriteError: It was not begun in time: the path was being written.
            AbandonedCallsError: It was not begun: too many calls were abandoned.
            Exception: What ``function`` raised.
        """
        deadline = Deadline(timeout)
        future: Future[_T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - it is the caller's
                self._end(future, writes)
                future.set_exception(error)
            else:
                self._end(future, writes)
                future.set_result(result)

        # A pool's threads would be waited for when the process ends.
        thread = threading.Thread(target=work, name="tieredfs-call", daemon=True)
        self._begin(future, writes, deadline)
        try:
            thread.start()
            return result_of(future, deadline.remaining)
        except BaseException:  # a timeout, Ctrl-C, no more threads
            # Ctrl-C may come between a thread's beginning and the end of its start.
            if future.cancel():
                self._end(future, writes)
            else:
                self._abandon(future)
            raise

    def _begin(self, call: object, writes: str, deadline: Deadline) -> None:
        with self._lock:
            while writes and writes in self._writes:
                left = deadline.remaining
                if not left:
                    msg = f"an earlier write of {writes} has not ended and may yet land"
                    raise EarlierWriteError(msg)
                self._changed.wait(min(left, SIGNAL_CHECK_SECONDS))
            if sum(self._under_way.values()) >= MAX_ABANDONED_CALLS:
                msg = (
                    f"{MAX_ABANDONED_CALLS} calls to this store were given up and "
                    "have not ended; wait until they end, or restart the process"
                )
                raise AbandonedCallsError(msg)
            self._under_way[call] = False
            if writes:
                self._writes[writes] = call

    def _abandon(self, call: object) -> None:
        with self._lock:
            if call in self._under_way:
                self._under_way[call] = True

    def _end(self, call: object, writes: str) -> None:
        with self._lock:
            self._under_way.pop(call, None)
            if self._writes.get(writes) is call:
                del self._writes[writes]
            self._changed.notify_all()


_servers: "weakref.WeakValueDictionary[str, BlockingCalls]"
_lock: threading.Lock


def calls_to(server: str) -> BlockingCalls:
    """Return the calls to a server; all stores of this process share them.

    Args:
        server: A text that identifies the server, as ``server_of`` returns it, or one
            store on it.
    """
    with _lock:
        return _servers.setdefault(server, BlockingCalls())


def _forget() -> None:
    """Start without calls: a forked child has none of the parent's threads."""
    global _servers, _lock  # noqa: PLW0603 - as global as threads are
    _servers = weakref.WeakValueDictionary()
    _lock = threading.Lock()


_forget()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
