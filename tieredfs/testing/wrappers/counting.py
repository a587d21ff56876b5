"""A storage whose calls are counted."""

import threading
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.testing.wrappers.calls import CallWrapper, StorageCall

__all__ = ["CallCounter", "CountingStorage"]

_T = TypeVar("_T")


class CallCounter:
    """How often each method was called; safe to share between threads and storages.

    In another process it begins at zero.
    """

    def __init__(self) -> None:
        """Start at zero."""
        self._lock = threading.Lock()
        self._calls: Counter[str] = Counter()

    def add(self, method: str) -> None:
        """Count one call."""
        with self._lock:
            self._calls[method] += 1

    @property
    def calls(self) -> int:
        """Calls so far."""
        with self._lock:
            return self._calls.total()

    def by_method(self) -> dict[str, int]:
        """Return the calls so far by method."""
        with self._lock:
            return dict(self._calls)

    def __reduce__(self) -> tuple[type["CallCounter"], tuple[()]]:
        """Begin at zero."""
        return CallCounter, ()


class CountingStorage(CallWrapper):
    """Count the calls that reach the wrapped storage, including failed ones.

    Attributes:
        counter: Where they are counted; views under another policy share it.
    """

    def __init__(
        self, inner: RemoteStorageManager, counter: CallCounter | None = None
    ) -> None:
        """Wrap ``inner``.

        Args:
            inner: The wrapped storage.
            counter: Where to count; None for a new one.
        """
        super().__init__(inner)
        self.counter = CallCounter() if counter is None else counter

    def around(self, call: StorageCall, answer: Callable[[], _T]) -> _T:
        """Count a call, and make it."""
        self.counter.add(call.method)
        return answer()
