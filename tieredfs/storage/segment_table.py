"""The segments of a partition in columns, as a listing shows them.

From a listing to a plan, the columns pass through: ``Page`` (what a store answers),
``ListedPage`` (keys and sizes), ``KeyTable`` (the fields of the keys), ``SegmentTable``
(what any layout lists), ``TableTiles`` (which offsets each segment serves),
``SliceRun`` (which bytes are read).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self, overload

import numpy as np
import numpy.typing as npt

from tieredfs.format.buffers import Int64Array
from tieredfs.model import SegmentMetadata

__all__ = ["UNKNOWN_SIZE", "SegmentTable"]

UNKNOWN_SIZE: Final = -1
"""The size of a log whose size is not listed."""


@dataclass(frozen=True, slots=True, eq=False)
class SegmentTable(Sequence[SegmentMetadata]):
    """Segments of one partition, sorted by start offset.

    As a sequence it makes the metadata of a segment when it is asked for, so that a
    long log can be planned in little time and memory. A slice is a table, too, and is
    pickled without the rest.

    Start offsets, end offsets and largest timestamps are those of the metadata, and
    always known; leader epochs and record counts never are. Every segment has at least
    one offset. Tables compare by identity; compare ``list(table)``.

    Attributes:
        rows: Makes the metadata of one segment, or a slice of itself.
        start_offsets: First offsets.
        end_offsets: Last offsets, inclusive.
        max_timestamps_ms: Largest record timestamps.
        sizes: Sizes of the logs in bytes; ``UNKNOWN_SIZE`` where they are not listed.
        highest_epochs: What ``highest_epoch`` returns of each; -1 where that is None.
    """

    rows: Sequence[SegmentMetadata]
    start_offsets: Int64Array
    end_offsets: Int64Array
    max_timestamps_ms: Int64Array
    sizes: Int64Array
    highest_epochs: npt.NDArray[np.int32]

    def __len__(self) -> int:
        """Return the number of segments."""
        return len(self.start_offsets)

    @overload
    def __getitem__(self, index: int) -> SegmentMetadata: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> SegmentMetadata | Self:
        """Return the metadata of one segment, or a part of the table."""
        if not isinstance(index, slice):
            return self.rows[index]
        return type(self)(
            self.rows[index],
            self.start_offsets[index],
            self.end_offsets[index],
            self.max_timestamps_ms[index],
            self.sizes[index],
            self.highest_epochs[index],
        )

    def __repr__(self) -> str:
        """Show the number of segments."""
        return f"SegmentTable({len(self)} segments)"

    @property
    def has_sizes(self) -> bool:
        """Whether the size of every log is listed."""
        return bool((self.sizes != UNKNOWN_SIZE).all())
