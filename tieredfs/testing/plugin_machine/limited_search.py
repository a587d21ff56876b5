"""A search for steps that break a promise: what it has found, and when it is over."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from time import monotonic

from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise
from tieredfs.testing.plugin_machine.step import Step

__all__ = ["Failure", "Failures", "Search"]


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


class Search:
    """A search for steps that break a promise, which ends after a time.

    Attributes:
        failures: What was found.
    """

    def __init__(
        self,
        search_seconds: float = inf,
        shrink_seconds: float = inf,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Begin now.

        Args:
            search_seconds: After so long without a failure it is over.
            shrink_seconds: So long after the first failure it is over.
            clock: Seconds from any point in time on.
        """
        self.failures = Failures()
        self._is_stopped = False
        self._search_seconds = search_seconds
        self._shrink_seconds = shrink_seconds
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
        now = self._clock()
        if not self.failures.shortest:
            return now - self._began > self._search_seconds
        if self._failed is None:
            self._failed = now
        return now - self._failed > self._shrink_seconds
