"""The slices of a plan that are left to read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tieredfs.format.batch.table import LogBatches
from tieredfs.log.planning.segment_slice import SegmentSlice

__all__ = ["RemainingSlices"]


@dataclass(frozen=True, slots=True)
class RemainingSlices:
    """The slices that are left of a plan, and of the first one what is left of it.

    Attributes:
        slices: All slices of the plan.
        row: Which of them the first one is.
        rest: What is left of the first one; None for all of it.
    """

    slices: Sequence[SegmentSlice]
    row: int = 0
    rest: SegmentSlice | None = None

    def __bool__(self) -> bool:
        """Return whether there is a slice."""
        return self.row < len(self.slices)

    def __iter__(self) -> Iterator[SegmentSlice]:
        """Yield the slices, made one at a time."""
        if self:
            yield self.first
        for row in range(self.row + 1, len(self.slices)):
            yield self.slices[row]

    @property
    def first(self) -> SegmentSlice:
        """The first of them, which there is."""
        return self.rest or self.slices[self.row]

    @property
    def end_offset(self) -> int:
        """End (exclusive) of the offsets of the last slice."""
        return self.slices[-1].end_offset

    @property
    def is_last(self) -> bool:
        """Whether no other slice follows the first."""
        return self.row + 1 >= len(self.slices)

    def with_first(self) -> "RemainingSlices":
        """Return the same, with the first of them made once for each use of it."""
        return replace(self, rest=self.first)

    def after(self, batches: LogBatches) -> "RemainingSlices":
        """Return what is left after some batches of the first slice."""
        return replace(self, rest=self.first.remaining_after(batches))

    def after_first(self) -> "RemainingSlices":
        """Return what is left after the first slice."""
        return RemainingSlices(self.slices, self.row + 1)
