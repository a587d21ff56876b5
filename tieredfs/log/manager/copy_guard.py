"""Allow or refuse each change of a leader's copies, and note it in the journal.

A further condition for a copy belongs here.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.journal.state import PartitionState
from tieredfs.model import SegmentMetadata
from tieredfs.states import SegmentState

__all__ = ["CopyGuard"]


@dataclass(slots=True)
class CopyGuard:
    """The guard of a leader's copies: one entry of the journal for each change.

    A manager that is no longer in charge is refused before it changes anything.

    Attributes:
        led: The partition.
        epoch: The manager's leader epoch; None for that of the manager before it.
        now_ms: Returns the time, in milliseconds since 1970.
        check: Raises if the task is to end.
    """

    led: LedPartition
    epoch: int | None
    now_ms: Callable[[], int]
    check: Callable[[], object]
    _copied: list[SegmentMetadata] = field(default_factory=list, init=False)

    def before_copy(self, segment: SegmentMetadata) -> None:
        """Note that a segment is being copied, and which ones were.

        Raises:
            RunEndedError: The task is to end.
            FencedError: Another manager is in charge.
            InvalidTransitionError: The partition is being deleted.
        """
        self._note(f"copy {_offsets(segment)}", [segment])

    def before_delete(self, segment: SegmentMetadata) -> None:
        """Note that one of two copies of a log is deleted: the other one is better.

        Raises:
            RunEndedError: The task is to end.
            FencedError: Another manager is in charge.
            InvalidTransitionError: The partition is being deleted.
        """
        self._note(f"replace {_offsets(segment)} by another copy of its log", [])

    def add_copied(self, segment: SegmentMetadata) -> None:
        """Let the next entry say that a segment was copied."""
        self._copied.append(segment)

    def finish(self) -> None:
        """Note what was copied.

        Raises:
            RunEndedError: The task is to end.
            FencedError: Another manager is in charge.
            InvalidTransitionError: The partition is being deleted.
        """
        if self._copied:
            self._note(f"copied {_offsets(self._copied[-1])}", [])

    def _note(self, change: str, begun: list[SegmentMetadata]) -> None:
        self.check()
        copied, now_ms = self._copied, self.now_ms()

        def update(state: PartitionState) -> PartitionState:
            state.check_copied()
            finished = SegmentState.COPY_SEGMENT_FINISHED
            state = state.with_segments(copied, finished, now_ms)
            started = SegmentState.COPY_SEGMENT_STARTED
            return state.with_segments(begun, started, now_ms)

        self.led.lead(self.epoch, change, update)
        self._copied = []


def _offsets(segment: SegmentMetadata) -> str:
    return f"the segment {segment.start_offset} to {segment.end_offset}"
