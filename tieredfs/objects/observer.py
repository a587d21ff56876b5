"""Observe every request that an object store makes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, Protocol, Self

from tieredfs.errors import ErrorKind, InvalidArgumentError
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = [
    "BothObservers",
    "RequestCounter",
    "RequestCounts",
    "RequestEvent",
    "RequestObserver",
]

LATENCY_SECONDS: Final = 0.03
BYTES_PER_SECOND: Final = 100e6


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


@dataclass(frozen=True, slots=True)
class BothObservers:
    """Notify two observers of each request.

    Attributes:
        first: The one that is notified first.
        second: The other one; it is notified even if the first one fails.
    """

    first: RequestObserver
    second: RequestObserver

    def on_request(self, event: RequestEvent) -> None:
        """Pass ``event`` on to both."""
        try:
            self.first.on_request(event)
        finally:
            self.second.on_request(event)


@dataclass(frozen=True, slots=True)
class RequestCounts:
    """Requests by verb, and the bytes of content that they move.

    Attributes:
        verbs: Each verb with its number of requests, sorted, without zeros.
        size: Bytes of content.
    """

    verbs: tuple[tuple[str, int], ...] = ()
    size: int = 0

    @classmethod
    def of(cls, by_verb: Mapping[str, int], size: int) -> Self:
        """Return the counts of requests by verb, zeros left out."""
        return cls(tuple(sorted((v, n) for v, n in by_verb.items() if n)), size)

    @property
    def by_verb(self) -> dict[str, int]:
        """The requests by verb."""
        return dict(self.verbs)

    @property
    def requests(self) -> int:
        """The requests of all verbs."""
        return sum(count for _, count in self.verbs)

    def __add__(self, other: "RequestCounts") -> "RequestCounts":
        """Return the counts of both."""
        added = Counter(self.by_verb) + Counter(other.by_verb)
        return RequestCounts.of(added, self.size + other.size)

    def __or__(self, other: "RequestCounts") -> "RequestCounts":
        """Return the larger number of each verb, and the larger size."""
        larger = Counter(self.by_verb) | Counter(other.by_verb)
        return RequestCounts.of(larger, max(self.size, other.size))

    def __mul__(self, times: int) -> "RequestCounts":
        """Return the counts of as many times these requests."""
        by_verb = {verb: count * times for verb, count in self.verbs}
        return RequestCounts.of(by_verb, self.size * times)

    def __le__(self, other: "RequestCounts") -> bool:
        """Return whether no verb has more requests, and they move no more bytes."""
        return self | other == other

    def seconds(
        self,
        latency: float = LATENCY_SECONDS,
        bytes_per_second: float = BYTES_PER_SECOND,
    ) -> float:
        """Return the expected time of these requests, one after the other.

        Args:
            latency: Seconds until the first byte of an answer.
            bytes_per_second: Bytes that arrive in a second.

        Raises:
            InvalidArgumentError: ``latency`` is negative, or ``bytes_per_second`` not
                greater than 0.
        """
        if not 0 <= latency < inf:
            msg = f"latency must be a number of seconds, not {latency!r}"
            raise InvalidArgumentError(msg)
        if not bytes_per_second > 0:
            msg = f"bytes_per_second must be greater than 0, not {bytes_per_second!r}"
            raise InvalidArgumentError(msg)
        return self.requests * latency + self.size / bytes_per_second


class RequestCounter:
    """Count requests and bytes; safe to share between threads."""

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = make_lock()
        self._verbs: Counter[str] = Counter()
        self._size = 0
        self._retries = 0

    def __repr__(self) -> str:
        """Show the requests by verb, and the bytes."""
        return f"RequestCounter({self.by_verb()}, size={self.size})"

    def on_request(self, event: RequestEvent) -> None:
        """Add every attempt of ``event``."""
        with self._lock:
            self._verbs[event.verb] += event.attempts
            self._size += event.size
            self._retries += event.attempts - 1

    def count_retry(self) -> None:
        """Count a request as one that repeats another one of the caller's."""
        with self._lock:
            self._retries += 1

    @property
    def retries(self) -> int:
        """Requests so far that repeated another one."""
        with self._lock:
            return self._retries

    @property
    def counts(self) -> RequestCounts:
        """The requests so far by verb, and their bytes, at one moment."""
        with self._lock:
            return RequestCounts.of(self._verbs, self._size)

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
