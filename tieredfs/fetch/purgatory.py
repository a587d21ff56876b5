"""Fetches that wait for a store: each is completed once, by its deadline.

| state | may become | when |
|---|---|---|
| queued | running | a thread is free |
| running | waiting | the attempt failed, and another one may help |
| waiting | queued | its wait is over |
| running | completed | it has a result, or an error that stays |
| all of these | completed | its deadline has passed, or the purgatory was closed |

Source: the purgatory of Kafka's delayed remote fetches, KIP-405. There a fetch that is
not completed in time is cancelled, and its work is lost. Here an attempt that runs goes
on: its caller may keep what it fetches, for the next one who asks.
"""

import os
import random
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Self, TypeVar

from tieredfs.errors import (
    ClosedError,
    DeadlineExceededError,
    StorageUnavailableError,
)
from tieredfs.fetch.attempts import After
from tieredfs.fetch.backoff import Backoff
from tieredfs.fetch.delayed_calls import DelayedCalls
from tieredfs.integers import to_integer
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["FetchPurgatory", "PurgatoryLimits"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class PurgatoryLimits:
    """How many fetches there may be: Kafka's ``remote.log.reader`` settings.

    Attributes:
        threads: Maximum number of attempts that run concurrently.
        max_pending: Maximum number of fetches that are not completed and do not run.
    """

    threads: int = 10
    max_pending: int = 100

    def __post_init__(self) -> None:
        """Refuse limits that allow nothing.

        Raises:
            InvalidArgumentError: A limit is not an integer, or below 1.
        """
        for name in self.__slots__:
            to_integer(getattr(self, name), name, minimum=1)


@dataclass(eq=False, slots=True)
class _Fetch:
    """A fetch that is not completed.

    Attributes:
        name: What is fetched, for messages.
        attempt: Makes one attempt, given the seconds that are left and its number; None
            once it is completed: it may refer to much.
        end: When it has to be completed.
        future: Is completed once; None after that: its result may be large.
        number: Number of the last attempt, from 1; 0 before the first.
        is_running: Whether an attempt runs.
        error: Why the last attempt has failed.
    """

    name: str
    attempt: Callable[[float, int], Any] | None
    end: float
    future: Future[Any] | None
    number: int = 0
    is_running: bool = False
    error: BaseException | None = None


class FetchPurgatory:
    """Make fetches in threads of its own, and try again until their deadlines."""

    def __init__(
        self,
        limits: PurgatoryLimits | None = None,
        *,
        backoff: Backoff | None = None,
        clock: Callable[[], float] = time.monotonic,
        after: After | None = None,
        drawn: Callable[[], float] = random.random,
        begin: Callable[[Callable[[], object]], object] | None = None,
    ) -> None:
        """Create it without starting a thread.

        Args:
            limits: How many fetches there may be; None for Kafka's defaults.
            backoff: How long to wait before another attempt, and how often; None for
                100 ms, doubling up to 5 s, until the deadline.
            clock: Returns a time in seconds that only grows.
            after: Makes a call after some seconds; None for one thread that does.
            drawn: Returns a random number from 0 to 1.
            begin: Makes a call in another thread, of as many as the limits allow; None
                for a pool of daemons.
        """
        self._limits = limits or PurgatoryLimits()
        self._backoff = backoff or Backoff(retries=None)
        self._clock = clock
        self._drawn = drawn
        self._given = after, begin
        self._lock = make_lock()
        self._is_closed = False
        self._start_anew()

    def _start_anew(self) -> None:
        """Begin without a thread, and without a fetch."""
        after, begin = self._given
        threads = DaemonExecutor(self._limits.threads, "tieredfs-purgatory")
        self._delayed = DelayedCalls(self._clock)
        self._after = after or self._delayed.after
        self._begin = begin or threads.submit
        self._open: set[_Fetch] = set()
        self._process = os.getpid()

    @property
    def is_free(self) -> bool:
        """Whether another fetch would not wait for one that runs, nor let one wait."""
        with self._lock:
            return len(self._open) < self._limits.threads or self._is_forked

    @property
    def _is_forked(self) -> bool:
        return self._process != os.getpid()

    def submit(
        self, name: str, attempt: Callable[[float, int], _T], seconds: float
    ) -> "Future[_T]":
        """Fetch something, and return a future that is completed once.

        It is completed with what an attempt returned, or with the error of the last
        one; at the deadline with ``DeadlineExceededError``, or with the error of the
        last attempt if there was one. An attempt that runs then goes on, and what it
        returns is dropped here.

        Args:
            name: What is fetched, for messages.
            attempt: Makes one attempt, given the seconds until the deadline and its
                number, from 1.
            seconds: How long it may take.

        Raises:
            ClosedError: The purgatory was closed.
            StorageUnavailableError: As many fetches are pending as may be.
        """
        future: Future[_T] = Future()
        future.set_running_or_notify_cancel()  # none of its callers can cancel it
        fetch = _Fetch(name, attempt, self._clock() + seconds, future)
        try:
            with self._lock:
                self._admit(fetch)
            expire = partial(self._expire, fetch)
            self._start(fetch, partial(self._after, seconds, expire))
            self._queue(fetch)
        except BaseException:  # as of Ctrl-C: no caller has it
            with self._lock:
                self._open.discard(fetch)
            raise
        return future

    def close(self) -> None:
        """Complete every fetch with ``ClosedError``; closing again does nothing.

        It does not wait for the attempts that run.
        """
        with self._lock:
            self._is_closed = True
            left = list(self._open)
        self._delayed.clear()
        for fetch in left:
            msg = f"{fetch.name}: the purgatory of fetches was closed"
            self._complete(fetch, error=ClosedError(msg))

    def __enter__(self) -> Self:
        """Use it in a with block."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()

    def _admit(self, fetch: _Fetch) -> None:
        """Open a fetch if there is room for it; the lock is held."""
        if self._is_forked:  # the child has none of the threads
            self._start_anew()
        if self._is_closed:
            msg = f"{fetch.name}: the purgatory of fetches was closed"
            raise ClosedError(msg)
        free = self._limits.threads - (len(self._open) - self._pending())
        if self._pending() >= self._limits.max_pending + max(free, 0):
            msg = (
                f"{fetch.name}: {self._limits.max_pending} fetches wait already for "
                f"{self._limits.threads} that run: try again later"
            )
            raise StorageUnavailableError(msg)
        self._open.add(fetch)

    def _pending(self) -> int:
        return sum(not fetch.is_running for fetch in self._open)

    def _queue(self, fetch: _Fetch) -> None:
        self._start(fetch, partial(self._begin, partial(self._run, fetch)))

    def _start(self, fetch: _Fetch, start: Callable[[], object]) -> None:
        """Start something for a fetch, which fails if no thread can be had."""
        try:
            start()
        except RuntimeError as error:  # there are no more threads
            msg = f"{fetch.name}: no thread can be started to fetch it"
            unavailable = StorageUnavailableError(msg)
            unavailable.__cause__ = error
            self._complete(fetch, error=unavailable)

    def _run(self, fetch: _Fetch) -> None:
        """Make an attempt, unless the fetch was completed meanwhile."""
        with self._lock:
            attempt = fetch.attempt
            if fetch not in self._open or attempt is None:
                return
            fetch.is_running, fetch.number = True, fetch.number + 1
        left = fetch.end - self._clock()
        try:
            result = attempt(max(left, 0.0), fetch.number)
        except BaseException as error:  # noqa: BLE001 - the future raises it
            self._failed(fetch, error)
        else:
            self._complete(fetch, result=result)

    def _failed(self, fetch: _Fetch, error: BaseException) -> None:
        delay = self._delay(fetch, error)
        if delay is None:
            self._complete(fetch, error=error)
            return
        with self._lock:
            fetch.is_running, fetch.error = False, error
        self._start(fetch, partial(self._after, delay, partial(self._queue, fetch)))

    def _delay(self, fetch: _Fetch, error: BaseException) -> float | None:
        """Return the wait before the next attempt; None if none is made."""
        delay = self._backoff.wait_after(error, fetch.number, self._drawn())
        is_late = delay is None or self._clock() + delay >= fetch.end
        return None if is_late else delay

    def _expire(self, fetch: _Fetch) -> None:
        error = fetch.error
        if error is None:
            msg = f"{fetch.name}: it was not fetched by its deadline"
            error = DeadlineExceededError(msg)
        self._complete(fetch, error=error)

    def _complete(
        self, fetch: _Fetch, result: object = None, error: BaseException | None = None
    ) -> None:
        with self._lock:
            if fetch not in self._open:
                return
            self._open.remove(fetch)
            future, fetch.future = fetch.future, None
            fetch.attempt, fetch.error = None, None
        # Outside of the lock: this calls what waits for it.
        if future is not None and error is None:
            future.set_result(result)
        elif future is not None:
            future.set_exception(error)
