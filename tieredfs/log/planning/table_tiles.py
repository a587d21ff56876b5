"""The tiles of segments that do not overlap, made when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, overload

import numpy as np

from tieredfs.format.buffers import Int64Array
from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.overlap import Tile
from tieredfs.storage import SegmentTable

__all__ = ["TableTiles"]


@dataclass(frozen=True, slots=True, eq=False)
class TableTiles(Sequence[Tile]):
    """The segments of a table that have some of the offsets ``[start, end)``.

    Each serves all of its offsets in that range.

    Attributes:
        table: The segments, which do not overlap.
        start: First offset.
        end: End (exclusive) of the offsets.
    """

    table: SegmentTable
    start: int
    end: int

    @classmethod
    def within(cls, table: SegmentTable, start: int, end: int) -> Self:
        """Return the tiles of those segments of a table that have an offset."""
        first = int(np.searchsorted(table.end_offsets, min(start, MAX_INT64)))
        stop = int(np.searchsorted(table.start_offsets, end))
        return cls(table[first : max(first, stop)], start, end)

    @property
    def starts(self) -> Int64Array:
        """First offset of each tile."""
        return np.maximum(self.table.start_offsets, self.start)

    @property
    def ends(self) -> Int64Array:
        """End (exclusive) of the offsets of each tile."""
        return np.minimum(self.table.end_offsets + 1, self.end)

    @property
    def has_sizes(self) -> bool:
        """Whether the sizes of the logs are known."""
        return self.table.has(["size"])

    def __len__(self) -> int:
        """Return the number of tiles."""
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> Tile: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Tile | Self:
        """Return one tile, or some of them."""
        if isinstance(index, slice):
            return type(self)(self.table[index], self.start, self.end)
        segment = self.table[index]
        end = (segment.end_offset or 0) + 1
        return Tile(segment, max(segment.start_offset, self.start), min(end, self.end))
