"""A storage with added latency."""

import time
from collections.abc import Callable
from typing import TypeVar

from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.testing.wrappers.calls import CallWrapper, StorageCall

__all__ = ["DelayedStorage"]

_T = TypeVar("_T")


class DelayedStorage(CallWrapper):
    """Wait before each call.

    Attributes:
        seconds: How long each call waits.
        sleep: Function that waits.
    """

    def __init__(
        self,
        inner: RemoteStorageManager,
        seconds: float,
        *,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        """Wrap ``inner``.

        Args:
            inner: The wrapped storage.
            seconds: How long each call waits before it is made.
            sleep: Waits so many seconds; a test's own takes no time.
        """
        super().__init__(inner)
        self.seconds = seconds
        self.sleep = sleep

    def around(self, call: StorageCall, answer: Callable[[], _T]) -> _T:
        """Wait, and make a call."""
        del call
        self.sleep(self.seconds)
        return answer()
