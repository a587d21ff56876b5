"""Limit the rate at which objects are sent, for all writers of a process."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import SupportsFloat

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects.content import Content

__all__ = ["LimitedContent", "RateLimit", "limited_attempts"]


class RateLimit:
    """Limit what is sent to a rate; safe to share between threads and stores.

    Bytes are sent when the time of all earlier bytes has passed. So over any period no
    more is sent than the rate allows, plus at most one request or piece. Idle time is
    not made up for by a burst.
    """

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Create a limit under which nothing has been sent yet.

        Args:
            rate: Bytes per second.
            clock: Returns the current time in seconds.
            sleep: Waits for a number of seconds, by the same clock.

        Raises:
            InvalidArgumentError: The rate is not a number above 0.
        """
        given: object = rate
        if not (isinstance(given, SupportsFloat) and rate > 0):  # nor is a NaN
            msg = f"the rate is {rate!r}: give more than 0 bytes per second"
            raise InvalidArgumentError(msg)
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    def __repr__(self) -> str:
        """Show the rate."""
        return f"RateLimit({self._rate})"

    def take(self, size: int) -> None:
        """Wait until ``size`` bytes may be sent."""
        wait = self.charge(size)
        if wait > 0:
            self._sleep(wait)

    def charge(self, size: int) -> float:
        """Count ``size`` bytes as sent, and return the seconds until their turn."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._free_at)
            self._free_at = turn + size / self._rate
            return turn - now


@dataclass(frozen=True, slots=True)
class LimitedContent:
    """Content of which each piece waits for its turn before it is read.

    Attributes:
        content: The bytes.
        limit: The limit of their rate.
    """

    content: Content
    limit: RateLimit

    @property
    def size(self) -> int:
        """Total number of bytes."""
        return self.content.size

    def read(self, start: int, end: int) -> bytes:
        """Wait for the turn of the bytes ``[start, end)``, and return them."""
        self.limit.take(end - start)
        return self.content.read(start, end)


def limited_attempts(limit: RateLimit | None, size: int) -> Callable[[], object]:
    """Wait until ``size`` bytes may be sent in one request, if there is a limit.

    Returns:
        A function to call at each attempt of the request. Attempts after the first
        count as sent bytes too, and so delay later requests.
    """
    if limit is None:
        return lambda: None
    limit.take(size)
    numbers = count()
    return lambda: next(numbers) and limit.charge(size)
