"""A search for steps that break a promise: what it has found, and when it is over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.plugin_machine.step import Step

__all__ = ["Failure", "Failures", "Limits", "Search"]


@dataclass(frozen=True, slots=True)
class Failure:
    """A sequence of steps that breaks a promise.

    Attributes:
        error: How the last step breaks it.
        steps: The steps.
    """

    error: BrokenPromiseError
    steps: tuple[Step, ...]

    @property
    def raised(self) -> type[BaseException] | None:
        """The class of the error that the plugin raised; None if it raised none."""
        cause = self.error.__cause__
        return None if cause is None else type(cause)

    @property
    def size(self) -> tuple[int, int]:
        """What is to be small: the number of steps, and how long their code is."""
        return len(self.steps), sum(len(step.code) for step in self.steps)


@dataclass(slots=True)
class Failures:
    """The failures of a search.

    Attributes:
        shortest: The shortest sequence that breaks each broken promise.
        sequences: How many sequences were begun.
        current: The steps of the sequence that is being made, another tuple with each.
    """

    shortest: dict[Promise, Failure] = field(default_factory=dict)
    sequences: int = 0
    current: tuple[Step, ...] = ()

    def add(self, failure: Failure) -> None:
        """Note a failure."""
        promise = failure.error.promise
        known = self.shortest.get(promise)
        if known is None or failure.size < known.size:
            self.shortest[promise] = failure


@dataclass(frozen=True, slots=True)
class Limits:
    """How long to search.

    How much is tried is a number, so that a search finds the same on a busy machine.
    Time only ends a search that takes far too long, and then nothing is decided.

    Attributes:
        sequences: How many sequences are tried.
        steps: Maximum calls of each.
        search_seconds: After so many seconds the search is given up.
        shrink_seconds: Seconds that hypothesis may take to make a failure shorter, and
            as many for the sequence of each broken promise after that.
    """

    sequences: int
    steps: int
    search_seconds: float
    shrink_seconds: float


class Search:
    """A search for steps that break a promise.

    Attributes:
        failures: What was found.
        wanted: How many sequences are tried; 0 where it is not limited.
        is_decided: Whether all sequences were tried, so that finding nothing counts.
        is_flaky: Whether a sequence went another way when it was made again.
    """

    def __init__(
        self, limits: Limits | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        """Begin now.

        Args:
            limits: How long it takes; None for any time.
            clock: Seconds from any point in time on.
        """
        self.failures = Failures()
        self.wanted = 0
        self.is_decided = False
        self.is_flaky = False
        self._is_stopped = False
        self._limits = limits
        self._clock = clock
        self._began = clock()
        self._failed: float | None = None

    def stop(self) -> None:
        """End the search before its next step."""
        self._is_stopped = True

    def is_over(self) -> bool:
        """Return whether no further step is to be made."""
        if self._is_stopped:
            return True
        if self._limits is None:
            return False
        now = self._clock()
        if not self.failures.shortest:
            return now - self._began > self._limits.search_seconds
        if self._failed is None:
            self._failed = now
        return now - self._failed > self._limits.shrink_seconds
