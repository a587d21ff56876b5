"""When which partition is due: a pure state, to which the time is passed in.

Never are two tasks of one partition running. A partition that is due while its task
runs is due once more when that has ended.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tieredfs.errors import InvalidArgumentError
from tieredfs.model import TopicIdPartition

__all__ = ["Backoff", "Schedule"]

_JITTER: Final = 0.2
"""The share of an interval by which it is shortened or prolonged, by chance: so that
partitions which were assigned together are not due together for ever."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long a partition waits after failures.

    Attributes:
        first: Seconds after the first failure; doubled for each further one.
        longest: The most seconds.
    """

    first: float
    longest: float

    def seconds(self, failures: int) -> float:
        """Return the seconds to wait after so many failures in a row, at least 1."""
        return min(math.ldexp(self.first, min(failures - 1, 32)), self.longest)


@dataclass(slots=True)
class _Slot:
    """The time of one partition.

    Attributes:
        due: When it is due next; None while its task runs.
        is_woken: Whether it is due when its task has ended.
    """

    due: float | None
    is_woken: bool = False


@dataclass(slots=True)
class Schedule:
    """The due times of partitions.

    Attributes:
        draw: Returns a random number from 0 to 1.
    """

    draw: Callable[[], float]
    _slots: dict[TopicIdPartition, _Slot] = field(default_factory=dict, init=False)
    _heap: list[tuple[float, int, TopicIdPartition]] = field(
        default_factory=list, init=False
    )
    _running: set[TopicIdPartition] = field(default_factory=set, init=False)
    _pushed: int = field(default=0, init=False)

    def __contains__(self, partition: object) -> bool:
        """Return whether a partition has a time."""
        return partition in self._slots

    def add(self, partition: TopicIdPartition, now: float) -> None:
        """Let a partition be due now.

        If a task still runs that was started before the partition was removed, it is
        due after that.

        Raises:
            InvalidArgumentError: It was added before.
        """
        if partition in self._slots:
            raise InvalidArgumentError(f"{partition} is scheduled already")
        is_running = partition in self._running
        self._slots[partition] = _Slot(None, is_woken=is_running)
        if not is_running:
            self._set(partition, now)

    def remove(self, partition: TopicIdPartition) -> None:
        """Forget a partition, if it has a time."""
        self._slots.pop(partition, None)

    def wake(self, partition: TopicIdPartition, now: float) -> None:
        """Let a partition be due now; if its task runs, once more after that."""
        slot = self._slots.get(partition)
        if slot is None:
            return
        if slot.due is None:
            slot.is_woken = True
        elif slot.due > now:
            self._set(partition, now)

    def start_next(self, now: float) -> TopicIdPartition | None:
        """Return the partition that is due for longest, and let its task run.

        Returns:
            None if none is due.
        """
        while self._heap and self._heap[0][0] <= now:
            due, _, partition = heapq.heappop(self._heap)
            slot = self._slots.get(partition)
            if slot is not None and slot.due == due:
                slot.due = None
                self._running.add(partition)
                return partition
        return None

    def finish(self, partition: TopicIdPartition, now: float, seconds: float) -> None:
        """Note that a partition's task has ended, and when the next one is due.

        Args:
            partition: The partition; one that was removed meanwhile stays so.
            now: The time.
            seconds: The seconds to wait, to which jitter is applied.
        """
        self._running.discard(partition)
        slot = self._slots.get(partition)
        if slot is None:
            return
        wait = 0.0 if slot.is_woken else seconds * self._factor()
        slot.is_woken = False
        self._set(partition, now + wait)

    def is_running(self, partition: TopicIdPartition) -> bool:
        """Return whether a task of a partition runs, one that was removed included."""
        return partition in self._running

    @property
    def is_any_running(self) -> bool:
        """Whether any task runs."""
        return bool(self._running)

    def next_due(self) -> float | None:
        """Return when the next partition is due; None if none will be."""
        while self._heap:
            due, _, partition = self._heap[0]
            slot = self._slots.get(partition)
            if slot is not None and slot.due == due:
                return due
            heapq.heappop(self._heap)  # it was removed, or is due at another time
        return None

    def _factor(self) -> float:
        return 1 - _JITTER + 2 * _JITTER * self.draw()

    def _set(self, partition: TopicIdPartition, due: float) -> None:
        self._slots[partition].due = due
        self._pushed += 1  # of those due at the same time, the first is the first
        heapq.heappush(self._heap, (due, self._pushed, partition))
