"""Make calls concurrently that make further calls concurrently, a few at a time in all.

To plan a topic is to plan its partitions, and to plan a partition is to ask for its
segments. With a pool for each, their limits would multiply; with one pool for both, the
partitions could occupy it and wait for ever for their segments.
"""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from math import inf
from typing import Final, TypeVar

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor, run_call
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.objects.concurrency.waiting import result_of

__all__ = ["NestedCalls"]

_DEFAULT_LIMIT: Final = 32  # small requests, which cost only latency

_T = TypeVar("_T")
_R = TypeVar("_R")


class NestedCalls:
    """A limit on calls that are in progress, not counting those that wait for others.

    A call that waits lends its place to one of those it waits for, so calls nested at
    any depth always proceed.
    """

    def __init__(self, limit: int | None = None) -> None:
        """Create the limit, without starting a thread.

        Args:
            limit: Maximum number of calls in progress, at least 1; None for that of
                small requests.
        """
        self._lock: Final = make_lock()
        # The caller's own place is the first.
        self._free = (_DEFAULT_LIMIT if limit is None else limit) - 1

    def map(self, call: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
        """Return the results of a call for each item, in their order.

        Neither an error nor Ctrl-C waits for the calls in progress.

        Args:
            call: May use this object again.
            items: What it is called with.

        Raises:
            Exception: What the call raised for the first item that it raised for.
        """
        if len(items) < 2:  # noqa: PLR2004 - no thread for one
            return [call(item) for item in items]
        waiting = deque((Future[_R](), item) for item in items)
        futures = [future for future, _ in waiting]
        pool = DaemonExecutor(len(items))

        def work(*, has_own_place: bool) -> None:
            try:
                while waiting:
                    try:
                        future, item = waiting.popleft()
                    except IndexError:  # another thread was faster
                        return
                    if waiting and self._take_place():
                        pool.submit(work, has_own_place=True)
                    run_call(future, partial(call, item))
                    if future.exception() is not None:
                        waiting.clear()  # those before it have begun
            finally:
                if has_own_place:
                    self._leave_place()

        pool.submit(work, has_own_place=False)
        try:
            return [result_of(future, inf) for future in futures]
        finally:
            waiting.clear()

    def _take_place(self) -> bool:
        with self._lock:
            if not self._free:
                return False
            self._free -= 1
            return True

    def _leave_place(self) -> None:
        with self._lock:
            self._free += 1
