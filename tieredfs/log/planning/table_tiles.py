"""The tiles of segments that do not overlap, made when they are asked for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self, overload

import numpy as np

from tieredfs.format.buffers import Int64Array
from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.overlap import Tile
from tieredfs.storage import SegmentTable

__all__ = ["TableTiles", "late_rows"]


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
        stop = int(np.searchsorted(table.start_offsets, end)) if start < end else first
        return cls(table[first : max(first, stop)], start, end)

    @property
    def starts(self) -> Int64Array:
        """First offset of each tile."""
        return np.maximum(self.table.start_offsets, self.start)

    @property
    def ends(self) -> Int64Array:
        """End (exclusive) of the offsets of each tile."""
        return np.minimum(self.table.end_offsets + 1, self.end)

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
        end = end_of(segment)
        return Tile(segment, max(segment.start_offset, self.start), min(end, self.end))


def late_rows(tiles: Sequence[Tile], timestamp: int) -> list[int]:
    """Return which tiles may have a record at or after a time.

    Args:
        tiles: The tiles.
        timestamp: Milliseconds since 1970 UTC; it may exceed int64.
    """
    if isinstance(tiles, TableTiles):
        if timestamp > MAX_INT64:
            return []
        late = tiles.table.max_timestamps_ms >= max(timestamp, -MAX_INT64 - 1)
        rows: list[int] = np.flatnonzero(late).tolist()
        return rows
    latest = (tile.segment.max_timestamp_ms for tile in tiles)
    return [row for row, at in enumerate(latest) if at is None or at >= timestamp]
