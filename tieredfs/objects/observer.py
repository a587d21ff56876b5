"""Observe every request that an object store makes."""

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from tieredfs.errors import ErrorKind
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["RequestCounter", "RequestEvent", "RequestObserver"]


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """One completed call of a verb.

    A page of a listing, one of several ranges and one of several deleted keys are each
    a call of their own. Each attempt of a call is one request. (Only what a client
    itself uploads in parts takes more: with s3fs, an object of 100 MiB and more.)

    Attributes:
        verb: The store's verb, such as ``get_range``.
        key: The key or prefix of the call, relative to the store.
        size: Bytes of content moved; 0 for a listing.
        attempts: Number of attempts: 1 unless the call was repeated.
        seconds: Duration of the call, including waits between attempts.
        outcome: None for success, else the kind of the error; ``error`` for an error
            that is not a TieredFSError.
    """

    verb: str
    key: str
    size: int
    attempts: int
    seconds: float
    outcome: ErrorKind | None


class RequestObserver(Protocol):
    """A callback for completed requests, called by the thread that made them."""

    def on_request(self, event: RequestEvent) -> None:
        """Handle ``event``; must return quickly.

        An exception does not affect the call: it becomes a TieredFSWarning.
        """


class RequestCounter:
    """Count requests and bytes; safe to share between threads."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = make_lock()
        self._verbs: Counter[str] = Counter()
        self._size = 0

    def __repr__(self) -> str:
        """Show the requests by verb, and the bytes."""
        return f"RequestCounter({self.by_verb()}, size={self.size})"

    def on_request(self, event: RequestEvent) -> None:
        """Add every attempt of ``event``."""
        with self._lock:
            self._verbs[event.verb] += event.attempts
            self._size += event.size

    @property
    def requests(self) -> int:
        """Requests so far."""
        with self._lock:
            return self._verbs.total()

    @property
    def size(self) -> int:
        """Bytes of content moved so far."""
        with self._lock:
            return self._size

    def by_verb(self) -> dict[str, int]:
        """Return the requests so far by verb."""
        with self._lock:
            return dict(self._verbs)
