"""How fast objects are sent: a rate that all writers of a process share."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count

from tieredfs.errors import InvalidArgumentError
from tieredfs.objects.content import Content

__all__ = ["PACED_PART", "Pace", "PacedContent", "tries"]

PACED_PART = 8 << 20
"""Most bytes of a request whose pace is kept, where a store takes objects in parts."""


class Pace:
    """Keep what is sent to a rate; safe to share between threads and stores.

    Before some bytes are sent, those before them have had their time. So in any time
    no more goes out than the rate allows, but for what one request or piece has; and
    idle time is not made up for by a burst.
    """

    def __init__(
        self,
        rate: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Begin with nothing sent.

        Args:
            rate: Bytes a second.
            clock: Seconds, as those of ``sleep``.
            sleep: Waits for some seconds.

        Raises:
            InvalidArgumentError: The rate is not above 0.
        """
        if not rate > 0:  # nor is a NaN
            raise InvalidArgumentError(
                f"a rate of {rate} bytes a second is not above 0"
            )
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()

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
class PacedContent:
    """A content whose every piece waits for its turn before it is read.

    Attributes:
        content: The bytes.
        pace: Their rate.
    """

    content: Content
    pace: Pace

    @property
    def size(self) -> int:
        """Bytes in all."""
        return self.content.size

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes ``[start, end)`` when it is their turn."""
        self.pace.take(end - start)
        return self.content.read(start, end)


def tries(pace: Pace | None, size: int) -> Callable[[], object]:
    """Wait until ``size`` bytes may be sent in one request, if a pace is kept.

    Returns:
        What to call at each try of the request: those after the first delay what comes
        behind.
    """
    if pace is None:
        return lambda: None
    pace.take(size)
    numbers = count()
    return lambda: next(numbers) and pace.charge(size)
