"""A storage whose calls are recorded."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.testing.wrappers.calls import CallWrapper, StorageCall

__all__ = ["CallLog", "Recorded", "RecordingStorage"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call that has ended.

    Attributes:
        call: What was asked.
        answer: What it returned; None when it raised.
        error: What it raised; None when it returned.
    """

    call: StorageCall
    answer: object = None
    error: BaseException | None = None


class CallLog:
    """Calls in the order in which they ended; safe to share between threads.

    In another process it begins empty.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self._lock = threading.Lock()
        self._calls: list[Recorded] = []

    def add(self, recorded: Recorded) -> None:
        """Record one more call."""
        with self._lock:
            self._calls.append(recorded)

    def calls(self) -> list[Recorded]:
        """Return the calls so far."""
        with self._lock:
            return list(self._calls)

    def __reduce__(self) -> tuple[type["CallLog"], tuple[()]]:
        """Begin empty."""
        return CallLog, ()


class RecordingStorage(CallWrapper):
    """Record each call, with its arguments and its result.

    Attributes:
        log: Where they are recorded; views under another policy share it.
    """

    def __init__(self, inner: RemoteStorageManager, log: CallLog | None = None) -> None:
        """Wrap ``inner``.

        Args:
            inner: The wrapped storage.
            log: Where to record; None for a new log.
        """
        super().__init__(inner)
        self.log = CallLog() if log is None else log

    def around(self, call: StorageCall, answer: Callable[[], _T]) -> _T:
        """Make a call, and record it."""
        try:
            answered = answer()
        except BaseException as error:
            self.log.add(Recorded(call, error=error))
            raise
        self.log.add(Recorded(call, answered))
        return answered
