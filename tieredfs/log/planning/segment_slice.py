"""A part of a segment that is read: its offsets, and their positions in the log."""

from dataclasses import dataclass, replace
from typing import Self

from tieredfs.epochs import LeaderEpochs
from tieredfs.format.batch.table import LogBatches
from tieredfs.model import SegmentMetadata

__all__ = ["SegmentSlice"]


@dataclass(frozen=True, slots=True)
class SegmentSlice:
    """A range of offsets of one segment, and their positions in its log.

    Attributes:
        segment: The segment, whose end offset and size are known.
        start_offset: First offset to serve.
        end_offset: End (exclusive) of the offsets to serve.
        start_position: Position of a batch at or before ``start_offset``.
        end_position: End (exclusive) of the bytes to read: the batches below
            ``end_offset`` end at or before it.
        lineage: The epochs that a batch must have been written under.
        previous_offset: Last offset of the batch before ``start_position``, if reading
            continues there; -1 if the position comes from an index.
    """

    segment: SegmentMetadata
    start_offset: int
    end_offset: int
    start_position: int
    end_position: int
    lineage: LeaderEpochs
    previous_offset: int = -1

    @property
    def size(self) -> int:
        """Bytes of the log from its first position to its last."""
        return self.end_position - self.start_position

    def remaining_after(self, batches: LogBatches) -> Self:
        """Return the rest of the slice after some of its batches."""
        last = int(batches["last_offset"][-1])
        position = int(batches["position"][-1] + batches["size"][-1])
        return replace(
            self,
            start_offset=min(last + 1, self.end_offset),
            start_position=position,
            end_position=max(position, self.end_position),
            previous_offset=last,
        )
