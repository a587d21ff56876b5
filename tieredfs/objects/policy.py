"""How long and how often a call may try."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tieredfs.errors import InvalidArgumentError

__all__ = ["Deadline", "RequestPolicy"]


@dataclass(frozen=True, slots=True)
class RequestPolicy:
    """The one owner of retries and time.

    Attributes:
        attempts: Most tries of one call; only errors that are ``retryable`` repeat it.
        backoff: Wait before the second try, seconds; doubled for each further one,
            with full jitter.
        max_backoff: Longest wait between tries, seconds.
        deadline: Seconds that one call may take, all its tries and waits included.
    """

    attempts: int = 5
    backoff: float = 0.1
    max_backoff: float = 5.0
    deadline: float = 60.0

    def __post_init__(self) -> None:
        """Refuse a policy under which no call can be made."""
        if self.attempts < 1 or self.deadline <= 0 or self.backoff < 0:
            msg = f"not a policy that allows a call: {self}"
            raise InvalidArgumentError(msg)


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

    @property
    def elapsed(self) -> float:
        """Seconds since it was set."""
        return self._clock() - self._start
