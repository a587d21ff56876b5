"""A storage with injected faults."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from tieredfs.errors import StorageUnavailableError, TieredFSError
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.testing.wrappers.calls import REMOTE_CALLS, CallWrapper, StorageCall

__all__ = ["Chance", "Fault", "FaultyStorage"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Fault:
    """How a call fails.

    Attributes:
        error: What it raises.
        is_landed: Whether it is executed nevertheless, and only the response is lost.
    """

    error: TieredFSError
    is_landed: bool = False


@dataclass(frozen=True, slots=True)
class Chance:
    """Let calls fail at random.

    Attributes:
        rate: Share of the calls that fail, from 0 to 1.
        random: Random number generator; with a seed the faults are repeatable.
        methods: Methods that fail.
        landing: Share of the faults that lose only the response, from 0 to 1.
    """

    rate: float
    random: Random
    methods: Collection[str] = REMOTE_CALLS
    landing: float = 0.0

    def __call__(self, call: StorageCall) -> Fault | None:
        """Return how a call fails; None when it does not."""
        if call.method not in self.methods or self.random.random() >= self.rate:
            return None
        error = StorageUnavailableError(f"{call.method}: a fault was injected")
        return Fault(error, is_landed=self.random.random() < self.landing)


class FaultyStorage(CallWrapper):
    """Let some calls fail, before they are made or after.

    Attributes:
        plan: Decides of each call.
    """

    def __init__(
        self,
        inner: RemoteStorageManager,
        plan: Callable[[StorageCall], Fault | None],
    ) -> None:
        """Wrap ``inner``.

        Args:
            inner: The wrapped storage.
            plan: Returns how a call fails, None when it does not; `Chance` is one. It
                is called by the thread that makes the call.
        """
        super().__init__(inner)
        self.plan = plan

    def around(self, call: StorageCall, answer: Callable[[], _T]) -> _T:
        """Make a call, unless it is to fail."""
        fault = self.plan(call)
        if fault is None:
            return answer()
        if fault.is_landed:
            answer()
        raise fault.error
