"""How long to wait before an attempt is repeated."""

from dataclasses import dataclass

__all__ = ["Backoff"]


@dataclass(frozen=True, slots=True)
class Backoff:
    """Waits that double, each a little longer or shorter at random.

    Attributes:
        retries: How often an attempt is repeated at most.
        first: The wait before the first repetition, seconds.
        longest: The longest wait, seconds.
        jitter: By which part of itself a wait is longer or shorter at most.
    """

    retries: int = 5
    first: float = 0.1
    longest: float = 5.0
    jitter: float = 0.25

    def delay(self, attempt: int, drawn: float) -> float:
        """Return the seconds to wait after an attempt has failed.

        Args:
            attempt: Its number, from 1.
            drawn: A random number from 0 to 1.
        """
        doubled = self.first * 2.0 ** min(attempt - 1, 64)
        return min(doubled * (1 + self.jitter * (2 * drawn - 1)), self.longest)
