"""A gate between stores and those who use them: once it is shut, nothing is stored."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from tieredfs.errors import StorageUnavailableError
from tieredfs.objects import ObjectStore
from tieredfs.objects.concurrency.waiting import SIGNAL_CHECK_SECONDS
from tieredfs.objects.policy import Deadline
from tieredfs.objects.request import Call, Requests

__all__ = ["Gate"]

_T = TypeVar("_T")

_ALWAYS: Final = frozenset({"delete", "abort_upload"})
"""What removes something: who has begun a write may clean up after it."""


class Gate:
    """Let the requests of stores pass until it is shut; safe to share between threads.

    A thread cannot be stopped in Python. So what a call does that was given up, after
    its objects were removed, is stopped here.
    """

    def __init__(self) -> None:
        """Begin open."""
        self._changed = threading.Condition()
        self._passing = 0
        self._is_shut = False

    def before(self, store: ObjectStore) -> ObjectStore:
        """Return a view of a store, on its connections, whose requests pass here."""
        view = store.with_policy(store.policy)
        requests = view._requests  # noqa: SLF001 - a view has no other seam
        given = {one.name: getattr(requests, one.name) for one in fields(requests)}
        view._requests = _GatedRequests(**given, gate=self)  # noqa: SLF001 - as above
        return view

    def shut(self, seconds: float) -> None:
        """Let no further request pass, and wait for those that have passed.

        Args:
            seconds: How long to wait at most, as a store may hang.
        """
        deadline = Deadline(seconds)
        with self._changed:
            self._is_shut = True
            while self._passing and deadline.remaining:
                self._changed.wait(min(SIGNAL_CHECK_SECONDS, deadline.remaining))

    @contextmanager
    def passing(self, verb: str, name: str) -> Iterator[None]:
        """Pass while a request is made.

        Raises:
            StorageUnavailableError: The gate is shut.
        """
        if verb in _ALWAYS:
            yield
            return
        with self._changed:
            if self._is_shut:
                raise StorageUnavailableError(f"{verb} {name}: the test has ended")
            self._passing += 1
        try:
            yield
        finally:
            with self._changed:
                self._passing -= 1
                self._changed.notify_all()


@dataclass(frozen=True)
class _GatedRequests(Requests):
    """Requests that pass a gate, of any view of the store.

    Attributes:
        gate: The gate.
    """

    gate: Gate = field(default_factory=Gate)

    def make(self, call: Call[_T], deadline: Deadline | None = None) -> _T:
        """Make a call if the gate is open.

        Raises:
            TieredFSError: As of other requests; and the gate is shut.
        """
        with self.gate.passing(call.verb, self.name(call.key)):
            return super().make(call, deadline)
