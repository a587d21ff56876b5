"""A storage that fails as it is told to."""

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
        is_landed: Whether it is done all the same: only the answer is lost.
    """

    error: TieredFSError
    is_landed: bool = False


@dataclass(frozen=True, slots=True)
class Chance:
    """Let calls fail at random.

    Attributes:
        rate: How many of them, from 0 to 1.
        random: Where chance comes from; one with a seed can be repeated.
        methods: Which ones.
        landing: How many of the faults lose only the answer, from 0 to 1.
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
        """Stand in front of ``inner``.

        Args:
            inner: The storage behind it.
            plan: Returns how a call fails, None when it does not; `Chance` is one. It
                is called by whichever thread makes the call.
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
