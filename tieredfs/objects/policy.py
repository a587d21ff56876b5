"""How long and how often a call may try."""

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import tenacity

from tieredfs.errors import InvalidArgumentError, StorageUnavailableError

__all__ = ["CommonDeadline", "Deadline", "RequestPolicy"]

_T = TypeVar("_T")

_MIN_SHARE = 1.0
"""Seconds below which an attempt's share is not cut: most answers take less."""


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The one owner of retries and time.

    An attempt that is not answered does not use up the deadline: it ends after half of
    what is left, as Kafka's ``request.timeout.ms`` is half of its
    ``default.api.timeout.ms``, and the next one has a connection of its own.

    Attributes:
        attempts: Most tries of one call; only errors that are ``retryable`` repeat it.
        backoff: Longest wait before the second try, seconds; doubled for each further
            one. Each wait is drawn from 0 to that (full jitter).
        max_backoff: Longest wait between tries, seconds.
        deadline: Seconds that one call may take, all its tries and waits included.
    """

    attempts: int = 5
    backoff: float = 0.1
    max_backoff: float = 5.0
    deadline: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what allows no call, and what is no number.

        Raises:
            InvalidArgumentError: Fewer than one attempt; a deadline that is not above
                0, or longer than the system can wait; a wait that is negative or has
                no end; a NaN.
        """
        # Said as what has to hold: a NaN holds to nothing.
        if not (
            self.attempts >= 1
            and 0 < self.deadline <= threading.TIMEOUT_MAX
            and 0 <= self.backoff < math.inf
            and 0 <= self.max_backoff < math.inf
        ):
            msg = f"not a policy that allows a call: {self}"
            raise InvalidArgumentError(msg)

    def share(self, left: float, attempt: int) -> float:
        """Return the seconds that one attempt may take.

        Args:
            left: Seconds until the deadline.
            attempt: Its number, from 1 on; the last one may take all that is left.
        """
        if attempt >= self.attempts or left < 2 * _MIN_SHARE:
            return left
        return left / 2

    def repeat(
        self,
        attempt: Callable[[], _T],
        failed: Exception,
        asked: Callable[[], float],
        deadline: "Deadline",
    ) -> _T:
        """Go on with a call whose first try has failed.

        Args:
            attempt: One try.
            failed: What the first raised.
            asked: The seconds that the server wants to be left alone for, after the
                last failure; 0 when it did not say.
            deadline: When the call has to end.

        Returns:
            What a try returned.

        Raises:
            Exception: What the last try raised.
        """
        first: Exception | None = failed

        def again() -> _T:
            nonlocal first
            if first is None:
                return attempt()
            error, first = first, None
            raise error

        drawn = tenacity.wait_random_exponential(self.backoff, self.max_backoff)
        return tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(StorageUnavailableError),
            stop=(
                tenacity.stop_after_attempt(self.attempts)
                | tenacity.stop_before_delay(deadline.remaining)
            ),
            wait=lambda state: max(drawn(state), asked()),
            sleep=deadline.sleep,
            reraise=True,
        )(again)


class Deadline:
    """A moment by which a call has to end."""

    __slots__ = ("_clock", "_end", "_start")

    def __init__(
        self, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Set the moment ``seconds`` from now."""
        self._clock = clock
        self._start = clock()
        self._end = self._start + seconds

    @property
    def remaining(self) -> float:
        """Seconds left; 0 when there are none."""
        return max(0.0, self._end - self._clock())

    def earlier(self, fraction: float) -> "Deadline":
        """Return a deadline that leaves a fraction of what this one has left."""
        return Deadline(self.remaining * (1 - fraction), self._clock)

    def sleep(self, seconds: float) -> None:
        """Wait so long, which is not past the end."""
        tenacity.nap.sleep(seconds)

    def check(self) -> float:
        """Return the seconds left.

        Raises:
            TimeoutError: There are none.
        """
        left = self.remaining
        if not left:
            raise TimeoutError
        return left

    @property
    def elapsed(self) -> float:
        """Seconds since it was set."""
        return self._clock() - self._start


class CommonDeadline(Deadline):
    """The deadline of calls made side by side, which one of them may end."""

    __slots__ = ("_over",)

    def __init__(
        self, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Set the moment ``seconds`` from now."""
        super().__init__(seconds, clock)
        self._over = threading.Event()

    def expire(self) -> None:
        """Be over: no call begins another attempt, and those that sleep wake up."""
        self._end = self._start
        self._over.set()

    def sleep(self, seconds: float) -> None:
        """Wait so long, or until it is over."""
        self._over.wait(seconds)
