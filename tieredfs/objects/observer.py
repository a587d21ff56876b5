"""A look at every request an object store makes."""

from collections import Counter
from dataclasses import dataclass
from typing import Protocol

from tieredfs.errors import ErrorKind
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["RequestCounter", "RequestEvent", "RequestObserver"]


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """One call of a verb, when it has ended.

    A page of a listing, a range of several and a key of several that are deleted are
    calls of their own; each try of a call is one request. (Only what a client uploads
    in parts takes more: with s3fs, an object of 100 MiB and more.)

    Attributes:
        verb: The store's verb, such as ``get_range``.
        key: The key or prefix it was about, relative to the store.
        size: Bytes of content that were moved; 0 for a listing.
        attempts: How often it was tried: 1 unless it was repeated.
        seconds: From the call to its end, waits between attempts included.
        outcome: None for success, else the kind of the error; ``error`` for one that
            is none of ours.
    """

    verb: str
    key: str
    size: int
    attempts: int
    seconds: float
    outcome: ErrorKind | None


class RequestObserver(Protocol):
    """Whoever wants to see the requests; called by the thread that made them."""

    def on_request(self, event: RequestEvent) -> None:
        """Take note of ``event``; must be quick.

        An exception changes nothing for the call: it becomes a TieredFSWarning.
        """


class RequestCounter:
    """Count requests and bytes; safe to share between threads."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = make_lock()
        self._verbs: Counter[str] = Counter()
        self._size = 0

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
