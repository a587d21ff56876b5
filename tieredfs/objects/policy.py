"""How long a call may take, and how often it is attempted."""

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Final, TypeVar

import tenacity

from tieredfs.errors import InvalidArgumentError, StorageUnavailableError
from tieredfs.integers import is_integer

__all__ = ["CommonDeadline", "Deadline", "RequestPolicy"]

_T = TypeVar("_T")

_MIN_SHARE = 1.0
"""Minimum seconds of an attempt's share: most answers take less."""

_WAIT: Final = (lambda number: 0 <= number < math.inf, "0 or more seconds")
_ALLOWED: Final[Mapping[str, tuple[Callable[[float], bool], str]]] = {
    "attempts": (lambda number: number >= 1, "an integer, 1 or more"),
    "backoff": _WAIT,
    "max_backoff": _WAIT,
    "deadline": (
        lambda number: 0 < number <= threading.TIMEOUT_MAX,
        f"more than 0 seconds, and {threading.TIMEOUT_MAX:.0f} at most",
    ),
}
"""What a field of a policy has to be; every comparison with a NaN is false."""


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The retries and the deadline of each call.

    An unanswered attempt does not use up the deadline. It ends after half of the time
    that remains, as Kafka's ``request.timeout.ms`` is half of its
    ``default.api.timeout.ms``, and the next attempt has a connection of its own.

    Attributes:
        attempts: Maximum attempts of one call; only ``retryable`` errors repeat it.
        backoff: Maximum wait before the second attempt, seconds; doubled for each
            further one. Each wait is drawn from 0 to that (full jitter).
        max_backoff: Maximum wait between attempts, seconds.
        deadline: Seconds that one call may take, including all attempts and waits.
    """

    attempts: int = 5
    backoff: float = 0.1
    max_backoff: float = 5.0
    deadline: float = 60.0

    def __post_init__(self) -> None:
        """Refuse values that allow no call, and NaN.

        Raises:
            InvalidArgumentError: A value is not a number, or a NaN; attempts that are
                not an integer, or fewer than one; a deadline that is not above 0, or
                longer than the system can wait; a wait that is negative or infinite.
                The message names the field.
        """
        for name, (is_allowed, allowed) in _ALLOWED.items():
            value = getattr(self, name)
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if name == "attempts":
                is_number = is_integer(value)
            if not (is_number and is_allowed(float(value))):
                msg = f"RequestPolicy.{name} is {value!r}: give {allowed}"
                raise InvalidArgumentError(msg)

    def share(self, left: float, attempt: int) -> float:
        """Return the seconds that one attempt may take.

        Args:
            left: Seconds until the deadline.
            attempt: Its number, from 1; the last may take all the time that is left.
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
        """Retry a call whose first attempt has failed.

        Args:
            attempt: Makes one attempt.
            failed: The error of the first attempt.
            asked: Returns the wait in seconds that the server asked for in its last
                failure; 0 if none.
            deadline: When the call has to end.

        Returns:
            The result of the attempt that succeeded.

        Raises:
            Exception: The error of the last attempt.
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
        """Seconds left; 0 once the deadline has passed."""
        return max(0.0, self._end - self._clock())

    def earlier(self, fraction: float) -> "Deadline":
        """Return an earlier deadline that keeps back a fraction of the time left."""
        return Deadline(self.remaining * (1 - fraction), self._clock)

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``, which the caller keeps within the deadline."""
        tenacity.nap.sleep(seconds)

    def check(self) -> float:
        """Return the seconds left.

        Raises:
            TimeoutError: The deadline has passed.
        """
        left = self.remaining
        if not left:
            raise TimeoutError
        return left

    @property
    def elapsed(self) -> float:
        """Seconds since the deadline was set."""
        return self._clock() - self._start


class CommonDeadline(Deadline):
    """The shared deadline of concurrent calls, which any of them may end early."""

    __slots__ = ("_over",)

    def __init__(
        self, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Set the moment ``seconds`` from now."""
        super().__init__(seconds, clock)
        self._over = threading.Event()

    def expire(self) -> None:
        """End now: no call begins another attempt, and sleeping calls wake up."""
        self._end = self._start
        self._over.set()

    def sleep(self, seconds: float) -> None:
        """Sleep for ``seconds``, or until ``expire`` is called."""
        self._over.wait(seconds)
