"""A thread pool that the end of the process does not wait for.

Python joins the threads of ``concurrent.futures.ThreadPoolExecutor`` when a process
ends, so one request that hangs keeps the process running until its deadline: after
Ctrl-C, after an error, after ``close``.
"""

import asyncio
import math
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, ParamSpec, TypeVar

from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS, result_of
from tieredfs.objects.policy import Deadline

__all__ = ["DaemonExecutor", "run_call", "run_on_daemons"]

_P = ParamSpec("_P")
_T = TypeVar("_T")

_MAX_BLOCKING_CALLS = 32
"""Maximum concurrent blocking calls of a loop, the same as asyncio's own maximum."""


class DaemonExecutor(ThreadPoolExecutor):
    """Run calls on daemon threads, which end when there is no call to run.

    A pool that is dropped holds no thread, so it need not be shut down. It subclasses
    ThreadPoolExecutor only because asyncio accepts no other class.
    """

    def __init__(self, max_workers: int, thread_name_prefix: str = "tieredfs") -> None:
        """Create a pool without starting a thread.

        Args:
            max_workers: Maximum number of calls that run concurrently.
            thread_name_prefix: Prefix of the threads' names.
        """
        super().__init__(max_workers, thread_name_prefix)  # which starts no thread
        self._limit = max_workers
        self._name = thread_name_prefix
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[tuple[Future[object], Callable[[], object]]] = deque()
        self._workers: set[threading.Thread] = set()
        self._is_shut_down = False

    def submit(
        self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> Future[_T]:
        """Run ``fn`` on a thread of the pool.

        Returns:
            The future of the call; cancelling it prevents a start of the call.

        Raises:
            RuntimeError: The pool was shut down, or no thread can be started.
        """
        future: Future[_T] = Future()
        call = (future, partial(fn, *args, **kwargs))
        with self._lock:
            if self._is_shut_down:
                raise RuntimeError("the pool was shut down")
            self._waiting.append(call)  # type: ignore[arg-type] # a future of anything
            if len(self._workers) < self._limit:
                self._start_worker()
        return future

    def map(
        self,
        fn: Callable[..., _T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[_T]:
        """Run ``fn`` for each set of arguments, and yield the results in order.

        Args:
            fn: The function to run.
            iterables: Its arguments.
            timeout: Seconds until all calls have to be done; None for no limit.
            chunksize: Ignored: threads take one call at a time.

        Raises:
            TimeoutError: A call is not done in time.
            Exception: What ``fn`` raised.
        """
        del chunksize
        deadline = Deadline(math.inf if timeout is None else timeout)
        futures = deque(self.submit(fn, *one) for one in zip(*iterables, strict=False))

        def results() -> Iterator[_T]:
            try:
                while futures:
                    yield result_of(futures.popleft(), deadline.remaining)
            finally:
                for future in futures:
                    future.cancel()

        return results()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - Executor's own
        """Accept no more calls.

        Args:
            wait: Whether to return only when no call is running or waiting.
            cancel_futures: Whether to cancel the calls that have not begun.
        """
        with self._lock:
            self._is_shut_down = True
            dropped = list(self._waiting) if cancel_futures else []
            if cancel_futures:
                self._waiting.clear()
        for future, _ in dropped:
            future.cancel()
        if wait:
            with self._lock:
                while self._workers:
                    self._changed.wait(SIGNAL_CHECK_SECONDS)

    def _start_worker(self) -> None:
        """Start one more thread; the lock is held."""
        name = f"{self._name}-{len(self._workers)}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        try:
            self._workers.add(thread)
            thread.start()
        except RuntimeError:  # no more threads; those that run take the call
            self._workers.discard(thread)
            if not self._workers:
                self._waiting.clear()
                raise
        except BaseException:  # Ctrl-C, perhaps after it was started
            if thread.ident is None:
                self._workers.discard(thread)
            raise

    def _work(self) -> None:
        """Run calls until none is waiting."""
        while True:
            with self._lock:
                if not self._waiting:
                    self._workers.discard(threading.current_thread())
                    self._changed.notify_all()
                    return
                future, call = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                run_call(future, call)
            del future, call  # else the last result lives while the next is computed


def run_call(future: Future[_T], call: Callable[[], _T]) -> None:
    """Make a call, and give its result or its error to a future."""
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - it is raised by result()
        future.set_exception(error)
    else:
        future.set_result(result)
    finally:
        del future  # an error's traceback refers to this frame: avoid a cycle


_loops: "weakref.WeakSet[asyncio.AbstractEventLoop]" = weakref.WeakSet()


def run_on_daemons(loop: asyncio.AbstractEventLoop) -> None:
    """Let a loop make its blocking calls on daemon threads.

    Resolving a host name is such a call: it takes minutes if the name server is silent.
    """
    if loop not in _loops:
        _loops.add(loop)
        executor = DaemonExecutor(_MAX_BLOCKING_CALLS, "tieredfs-loop")
        loop.call_soon_threadsafe(loop.set_default_executor, executor)
