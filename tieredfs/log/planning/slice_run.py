"""The slices of neighbouring segments, made when they are asked for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import eq
from typing import overload

import numpy as np

from tieredfs.epochs import LeaderEpochs
from tieredfs.format.buffers import Int64Array
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.table_tiles import TableTiles
from tieredfs.storage import SegmentTable

__all__ = ["Locate", "SliceRun", "count_segments", "sizes_of", "slice_tiles"]

Locate = Callable[[Tile], tuple[int, int]]
"""Returns the positions of a tile's offsets in the log of its segment."""


@dataclass(frozen=True, slots=True, eq=False)
class SliceRun(Sequence[SegmentSlice]):
    """Slices of consecutive segments; all but the first and the last are whole.

    A slice of the run is a run, too, and is pickled without the rest. A run equals
    another run only; compare ``tuple(run)`` with other slices.

    Attributes:
        table: The segments, at least one; they do not overlap, and their sizes are
            known.
        start_offset: First offset of the first slice.
        start_position: Position of the first slice in its log.
        end_offset: End (exclusive) of the offsets of the last slice.
        end_position: End (exclusive) of the last slice in its log.
        lineage: The epochs that a batch must have been written under.
    """

    table: SegmentTable
    start_offset: int
    start_position: int
    end_offset: int
    end_position: int
    lineage: LeaderEpochs

    @property
    def sizes(self) -> Int64Array:
        """Bytes of each slice."""
        sizes = self.table.sizes.copy()
        sizes[-1] = self.end_position
        sizes[0] -= self.start_position
        return sizes

    def __len__(self) -> int:
        """Return the number of slices."""
        return len(self.table)

    @overload
    def __getitem__(self, index: int) -> SegmentSlice: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SegmentSlice]: ...
    def __getitem__(self, index: int | slice) -> SegmentSlice | Sequence[SegmentSlice]:
        """Return one slice, or some of them."""
        rows = range(len(self))[index]
        if isinstance(rows, range):
            return self._run(rows) if rows.step == 1 else [self[row] for row in rows]
        segment = self.table[rows]
        start_offset, start_position = segment.start_offset, 0
        end_offset, end_position = end_of(segment), segment.size or 0
        if rows == 0:
            start_offset, start_position = self.start_offset, self.start_position
        if rows == len(self) - 1:
            end_offset, end_position = self.end_offset, self.end_position
        return SegmentSlice(
            segment,
            start_offset,
            end_offset,
            start_position,
            end_position,
            self.lineage,
        )

    def _run(self, rows: range) -> Sequence[SegmentSlice]:
        if not rows:
            return ()
        table = self.table[rows.start : rows.stop]
        start_offset, start_position = int(table.start_offsets[0]), 0
        end_offset, end_position = int(table.end_offsets[-1]) + 1, int(table.sizes[-1])
        if rows.start == 0:
            start_offset, start_position = self.start_offset, self.start_position
        if rows.stop == len(self):
            end_offset, end_position = self.end_offset, self.end_position
        return type(self)(
            table, start_offset, start_position, end_offset, end_position, self.lineage
        )

    def __eq__(self, other: object) -> bool:
        """Return whether another run has the same slices."""
        if not isinstance(other, SliceRun):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    def __hash__(self) -> int:
        """Return the hash of the bounds, from which no slice is made."""
        bounds = (self.start_offset, self.start_position)
        return hash((len(self), *bounds, self.end_offset, self.end_position))


def slice_tiles(
    tiles: Sequence[Tile], locate: Locate, lineage: LeaderEpochs
) -> Sequence[SegmentSlice]:
    """Return the slices of some tiles.

    Args:
        tiles: Segments, and the offsets that they serve.
        locate: Looks up the positions of those that serve a part of their offsets.
        lineage: The epochs that a batch must have been written under.

    Raises:
        CorruptIndexError: An index that is needed is malformed.
    """
    if (
        not isinstance(tiles, TableTiles)
        or not tiles.table.has_sizes
        or len(tiles) <= 1
    ):
        return tuple(SegmentSlice(*tile, *locate(tile), lineage) for tile in tiles)
    first, last = tiles[0], tiles[-1]
    start_position, _ = locate(first)
    _, end_position = locate(last)
    return SliceRun(
        tiles.table, first.start, start_position, last.end, end_position, lineage
    )


def sizes_of(slices: Sequence[SegmentSlice]) -> Int64Array:
    """Return the bytes of each slice."""
    if isinstance(slices, SliceRun):
        return slices.sizes
    return np.fromiter((part.size for part in slices), np.int64, len(slices))


def count_segments(slices: Sequence[SegmentSlice]) -> int:
    """Return how many segments some slices of one partition are of."""
    if isinstance(slices, SliceRun):
        return len(slices)
    return len({part.segment.id for part in slices})
