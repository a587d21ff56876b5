"""Requests of several threads that wait for each other, so that a race is always lost.

Threads that are merely started together seldom meet where they harm each other. Here
each request of one waits until the others have sent theirs.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Barrier, BrokenBarrierError
from typing import Final, TypeVar

from tieredfs.objects import ObjectStore
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.testing.faults import (
    Effect,
    FaultPlan,
    FaultyStore,
    Plan,
    SeededPlan,
    StoreFault,
)
from tieredfs.testing.stores import READS

__all__ = ["Rendezvous"]

_T = TypeVar("_T")

_PATIENCE_SECONDS: Final = 2.0
"""How long a thread waits once for others that a lock of the plugin holds back."""

_EVERY_READ: Final = SeededPlan(0, 1.0, (Effect.DELAY,), tuple(sorted(READS)))
_FIRST_WRITE: Final = FaultPlan((StoreFault(Effect.DELAY, 0, of_writes=True),))


class Rendezvous:
    """Where threads wait for each other, until one of them has ended or is late.

    The requests that are sent before ``run`` do not wait.
    """

    def __init__(self, threads: int) -> None:
        """Expect so many threads."""
        self._barrier = Barrier(threads)
        self._stores: list[tuple[FaultyStore, Plan]] = []

    def before_reads(self, store: ObjectStore) -> ObjectStore:
        """Return the same objects, where each read waits for one of every thread."""
        return self._with(store, _EVERY_READ)

    def before_first_write(self, store: ObjectStore) -> ObjectStore:
        """Return the same objects, where the first write waits for the others' first.

        Args:
            store: Any; each thread takes a store of its own.
        """
        return self._with(store, _FIRST_WRITE)

    def run(self, calls: Sequence[Callable[[], _T]]) -> list[_T]:
        """Make each call in a thread of its own, and return their results.

        Args:
            calls: One for each of the expected threads.
        """
        for store, plan in self._stores:
            store.follow(plan)

        def make(call: Callable[[], _T]) -> _T:
            try:
                return call()
            finally:
                self._barrier.abort()

        with DaemonExecutor(len(calls)) as pool:
            return [future.result() for future in [pool.submit(make, c) for c in calls]]

    def _with(self, store: ObjectStore, plan: Plan) -> ObjectStore:
        made = FaultyStore.over(store, during_pause=self._wait)
        self._stores.append((made, plan))
        return made

    def _wait(self) -> None:
        with suppress(BrokenBarrierError):
            self._barrier.wait(_PATIENCE_SECONDS)
