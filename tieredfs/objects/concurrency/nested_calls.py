"""Make calls concurrently that make further calls concurrently, a few at a time in all.

To plan a topic is to plan its partitions, and to plan a partition is to ask for its
segments. With a pool for each, their limits would multiply; with one pool for both, the
partitions could occupy it and wait for ever for their segments.

Files that the system has in memory are never waited for, and threads that ask for them
only hand the interpreter's lock to each other: 50,000 segments were planned in 3.8 s by
many threads, and in 1.4 s by one. A file system of a network is waited for. So one
thread makes the calls of a local store, until they have waited for most of their time.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from contextvars import copy_context
from functools import partial
from math import inf
from typing import Final, TypeVar

from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor, run_call
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.objects.concurrency.waiting import result_of

__all__ = ["NestedCalls"]

_DEFAULT_LIMIT: Final = 32  # small requests, which cost only latency
_MIN_WAIT_SECONDS: Final = 0.02
_MIN_WAIT_SHARE: Final = 2  # of what was computed: a busy machine is waited for, too

_T = TypeVar("_T")
_R = TypeVar("_R")


class NestedCalls:
    """A limit on calls that are in progress, not counting those that wait for others.

    A call that waits lends its place to one of those it waits for, so calls nested at
    any depth always proceed.
    """

    def __init__(
        self,
        limit: int | None = None,
        *,
        is_local: bool = False,
        clock: Callable[[], float] = time.monotonic,
        thread_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Create the limit, without starting a thread.

        Args:
            limit: Maximum number of calls in progress, at least 1; None for that of
                small requests.
            is_local: Whether files are asked for: then the calls are made one after the
                other until they have waited for twice as long as they have computed.
            clock: Returns a time in seconds that only grows.
            thread_clock: Returns the seconds for which this thread has computed.
        """
        self._lock: Final = make_lock()
        self._limit = _DEFAULT_LIMIT if limit is None else limit
        self._free = self._limit - 1  # the caller's own place is the first
        self._is_concurrent = not is_local
        self._waited = self._computed = 0.0  # seconds, of calls that were not
        self._clock, self._thread_clock = clock, thread_clock
        self._process = os.getpid()
        self._here = threading.local()

    def map(self, call: Callable[[_T], _R], items: Sequence[_T]) -> list[_R]:
        """Return the results of a call for each item, in their order.

        Neither an error nor Ctrl-C waits for the calls in progress. No other call is
        begun then, nor by those in progress.

        Args:
            call: May use this object again.
            items: What it is called with.

        Raises:
            Exception: What the call raised for the first item that it raised for.
        """
        if self._is_concurrent:
            return self._map_concurrently(call, items)
        outer: _Map | None = getattr(self._here, "map", None)
        if outer is not None:
            return self._map_serially(call, items, outer)
        if len(items) < 2:  # noqa: PLR2004 - no thread for one
            return [call(item) for item in items]
        made = _Map(None)
        self._waited = self._computed = 0.0  # a file system may have become slow

        def work() -> list[_R]:
            self._here.map = made
            try:
                return self._map_serially(call, items, made)
            finally:
                self._here.map = None

        future: Future[list[_R]] | None = None
        try:
            # In a thread of its own, since a call may hang: here Ctrl-C is noticed.
            try:
                future = DaemonExecutor(1).submit(copy_context().run, work)
            except RuntimeError:  # no more threads
                return work()
            return result_of(future, inf)
        finally:
            made.leave()
            future = None  # an error's traceback refers to this frame: avoid a cycle

    def _map_serially(
        self, call: Callable[[_T], _R], items: Sequence[_T], made: "_Map"
    ) -> list[_R]:
        """Make calls one after the other, until the next ones are concurrent.

        Raises:
            CancelledError: The caller waits no longer.
            Exception: What the call raised.
        """
        found = list[_R]()
        while not self._is_concurrent and len(found) < len(items):
            if made.is_left:
                raise CancelledError
            found.append(self._make(call, items[len(found)]))
        return found + self._map_concurrently(call, items[len(found) :])

    def _map_concurrently(
        self, call: Callable[[_T], _R], items: Sequence[_T]
    ) -> list[_R]:
        if len(items) < 2:  # noqa: PLR2004 - no thread for one
            return [call(item) for item in items]
        waiting = deque((Future[_R](), item) for item in items)
        futures = [future for future, _ in waiting]
        pool = DaemonExecutor(len(items))
        made = _Map(getattr(self._here, "map", None))

        def work(*, has_own_place: bool) -> None:
            self._here.map = made
            try:
                while waiting:
                    if made.is_left:
                        return
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
                for future, _ in list(waiting) if made.is_left else ():
                    future.cancel()  # a call that waits for it has been left, too
                if has_own_place:
                    self._leave_place()

        pool.submit(work, has_own_place=False)
        try:
            return [result_of(future, inf) for future in futures]
        finally:
            made.leave()
            waiting.clear()

    def _make(self, call: Callable[[_T], _R], item: _T) -> _R:
        """Make a call, and decide whether the next ones are concurrent."""
        began, before = self._clock(), self._thread_clock()
        try:
            return call(item)
        finally:
            computed = self._thread_clock() - before
            self._computed += computed
            self._waited += self._clock() - began - computed
            least = max(_MIN_WAIT_SHARE * self._computed, _MIN_WAIT_SECONDS)
            self._is_concurrent |= self._waited > least

    def _take_place(self) -> bool:
        with self._lock:
            self._reset_after_fork()
            if not self._free:
                return False
            self._free -= 1
            return True

    def _leave_place(self) -> None:
        with self._lock:
            self._reset_after_fork()
            self._free += 1

    def _reset_after_fork(self) -> None:
        """Free the places of the parent's threads, which a forked child lacks."""
        if self._process != os.getpid():
            self._process, self._free = os.getpid(), self._limit - 1


class _Map:
    """One call of ``map``, inside another one or not.

    Attributes:
        outer: The call inside which it was made.
    """

    def __init__(self, outer: "_Map | None") -> None:
        self.outer = outer
        self._is_left = False

    def leave(self) -> None:
        """Note that its caller has its results, or an error, and waits no longer."""
        self._is_left = True

    @property
    def is_left(self) -> bool:
        """Whether its caller, or that of an outer call, waits no longer."""
        return self._is_left or (self.outer is not None and self.outer.is_left)
