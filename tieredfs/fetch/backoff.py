"""Whether an attempt is repeated, and after which wait."""

from dataclasses import dataclass

from tieredfs.errors import DeadlineExceededError, TieredFSError
from tieredfs.objects.errors_map import retry_after

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double, each a little longer or shorter at random.

    Attributes:
        retries: How often an attempt is repeated at most; None for no limit.
        first: The wait before the first repetition, seconds.
        longest: The longest wait, seconds.
        jitter: By which part of itself a wait is longer or shorter at most.
    """

    retries: int | None
    first: float = 0.1
    longest: float = 5.0
    jitter: float = 0.25

    def wait_after(
        self, error: BaseException, attempt: int, drawn: float
    ) -> float | None:
        """Return the seconds to wait for the next attempt; None if none is made.

        Args:
            error: Why the last attempt has failed.
            attempt: Its number, from 1.
            drawn: A random number from 0 to 1.

        Returns:
            The wait, or a longer one that the server asked for; None if another attempt
            cannot help, or there have been enough.
        """
        may_help = isinstance(error, DeadlineExceededError) or (
            isinstance(error, TieredFSError) and error.retryable
        )
        if not may_help or (self.retries is not None and attempt > self.retries):
            return None
        return max(self.delay(attempt, drawn), retry_after(error))

    def delay(self, attempt: int, drawn: float) -> float:
        """Return the seconds to wait after an attempt has failed.

        Args:
            attempt: Its number, from 1.
            drawn: A random number from 0 to 1.
        """
        doubled = self.first * 2.0 ** min(attempt - 1, 64)
        return min(doubled * (1 + self.jitter * (2 * drawn - 1)), self.longest)
