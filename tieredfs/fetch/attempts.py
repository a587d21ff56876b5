"""Attempts to fetch a range of a log, each of which asks the store once."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Self

from tieredfs.errors import DeadlineExceededError
from tieredfs.fetch.backoff import Backoff
from tieredfs.fetch.delayed_calls import DelayedCalls
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["After", "Attempts", "asked_once", "fetch_once"]

After = Callable[[float, Callable[[], object]], object]
"""Makes a call after some seconds, in another thread."""

_MIN_SHARE_SECONDS: Final = 0.001


def asked_once(
    storage: RemoteStorageManager, left: float, attempt: int
) -> RemoteStorageManager:
    """Return a storage that asks its store once, for a share of the time that is left.

    Args:
        storage: The storage.
        left: Seconds until the deadline.
        attempt: The number of this attempt, from 1.
    """
    policy = storage.store.policy
    share = policy.share(max(left, _MIN_SHARE_SECONDS), attempt)
    return storage.with_policy(replace(policy, attempts=1, deadline=share))


def fetch_once(
    storage: RemoteStorageManager,
    segment: SegmentMetadata,
    span: tuple[int, int],
    left: float,
    attempt: int,
) -> memoryview:
    """Ask a storage once for a range of a log, for a share of the time that is left.

    Args:
        storage: Where the segment is.
        segment: The segment.
        span: First byte, and the byte after the last one that is needed.
        left: Seconds until the deadline.
        attempt: The number of this attempt, from 1.
    """
    return asked_once(storage, left, attempt).fetch_log_ahead(segment, *span)


def _nothing() -> None:
    """Take no note of a repeated attempt."""


@dataclass(frozen=True, slots=True)
class Attempts:
    """How a piece is downloaded, and how often that is tried.

    Attributes:
        storage: Where the segments are.
        backoff: How often an attempt is repeated, and after which wait.
        clock: Returns a time in seconds that only grows.
        after: Makes a call after some seconds.
        sleep: Waits some seconds.
        drawn: Returns a random number from 0 to 1.
        repeated: Is called for each attempt that repeats another one.
    """

    storage: RemoteStorageManager
    backoff: Backoff
    clock: Callable[[], float] = time.monotonic
    after: After = field(default_factory=lambda: DelayedCalls().after)
    sleep: Callable[[float], object] = time.sleep
    drawn: Callable[[], float] = random.random
    repeated: Callable[[], object] = _nothing

    @classmethod
    def of(
        cls, storage: RemoteStorageManager, repeated: Callable[[], object] = _nothing
    ) -> Self:
        """Return the attempts that the policy of a storage's store allows."""
        policy = storage.store.policy
        backoff = Backoff(policy.attempts - 1, policy.backoff, policy.max_backoff)
        return cls(storage, backoff, repeated=repeated)

    def make(
        self, segment: SegmentMetadata, start: int, end: int, begun: float, attempt: int
    ) -> memoryview:
        """Make one attempt, in a share of the time that is left.

        Args:
            segment: The segment.
            start: First byte.
            end: Byte after the last one that is needed.
            begun: When the first attempt began.
            attempt: The number of this one, from 1.
        """
        if attempt > 1:
            self.repeated()
        left = self._left(begun)
        return fetch_once(self.storage, segment, (start, end), left, attempt)

    def delay(self, error: BaseException, begun: float, attempt: int) -> float | None:
        """Return the wait before the next attempt; None if none is made.

        Args:
            error: Why the last attempt has failed.
            begun: When the first attempt began.
            attempt: The number of the last one, from 1.
        """
        delay = self.backoff.wait_after(error, attempt, self.drawn())
        return delay if delay is not None and delay < self._left(begun) else None

    def overdue(self, segment: SegmentMetadata, start: int) -> DeadlineExceededError:
        """Return the error of a range that did not come, whatever its last share."""
        seconds = self.storage.store.policy.deadline
        name = self.storage.name_of(segment)
        msg = f"{name}: byte {start} of the log did not come in {seconds:g} s"
        return DeadlineExceededError(msg)

    @property
    def is_only_one(self) -> bool:
        """Whether nothing is asked for again."""
        return self.backoff.retries == 0

    def is_late(self, begun: float) -> bool:
        """Return whether the deadline of what began at a time has passed."""
        return self._left(begun) <= 0

    def _left(self, begun: float) -> float:
        return self.storage.store.policy.deadline - (self.clock() - begun)
