"""The offset index (``.index``): maps an offset to a position in the log.

Source: Kafka's OffsetIndex. Entries of 8 bytes: the batch's last offset relative to the
segment's base offset, and the batch's position, each a big-endian int32. The first
batch of a segment is never indexed.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tieredfs.errors import CorruptIndexError, InvalidArgumentError
from tieredfs.format.buffers import Buffer, Int64Array, byte_view
from tieredfs.format.index.ranks import Rank, rank_among
from tieredfs.integers import MAX_INT64

__all__ = ["OffsetIndex", "OffsetPosition"]

_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])


class OffsetPosition(NamedTuple):
    """An offset, and the position of the batch whose last offset it is."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetIndex:
    """A parsed offset index.

    Attributes:
        base_offset: The segment's first offset.
        offsets: Absolute offsets, int64, strictly increasing.
        positions: Positions in the log, int64, strictly increasing.
    """

    base_offset: int
    offsets: Int64Array
    positions: Int64Array
    _views: tuple[memoryview, memoryview] = field(init=False, repr=False)
    _rank: Rank = field(init=False, repr=False)

    ENTRY_SIZE = _ENTRY.itemsize

    def __post_init__(self) -> None:
        """Keep views of the numbers for fast access to single items."""
        views = (self.offsets.data, self.positions.data)
        object.__setattr__(self, "_views", views)
        object.__setattr__(self, "_rank", rank_among(views[0]))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the numbers; views and rank are made again."""
        return type(self), (self.base_offset, self.offsets, self.positions)

    @classmethod
    def parse(
        cls,
        data: Buffer,
        base_offset: int,
        *,
        end_offset: int | None = None,
        log_size: int | None = None,
        name: str = "offset index",
    ) -> Self:
        """Parse and validate an offset index.

        An empty index is valid: a segment of one batch has no entries, and every lookup
        returns the segment's start.

        Args:
            data: The whole index.
            base_offset: The segment's first offset.
            end_offset: The segment's last offset, if known.
            log_size: Size of the segment's log in bytes, if known.
            name: Index name used in error messages.

        Raises:
            CorruptIndexError: The length is not a multiple of 8 (truncation), an entry
                is not greater than the one before it (as in zero padding), or an entry
                points outside the segment.
            InvalidArgumentError: No segment can have this base offset.
        """
        view = byte_view(data)
        if len(view) % _ENTRY.itemsize:
            msg = f"{name}: {len(view)} bytes are not a multiple of {_ENTRY.itemsize}"
            raise CorruptIndexError(msg)
        entries = np.frombuffer(view, _ENTRY)
        relative, positions = columns(entries)
        check_increasing(relative, "relative offset", name)
        check_increasing(positions, "position", name, minimum=1)
        index = cls(base_offset, make_absolute(relative, base_offset, name), positions)
        if len(index):
            last = index.entry(-1)
            if end_offset is not None and last.offset > end_offset:
                msg = (
                    f"{name}: offset {last.offset} is past the segment's last offset, "
                    f"{end_offset}"
                )
                raise CorruptIndexError(msg)
            if log_size is not None and last.position >= log_size:
                msg = (
                    f"{name}: position {last.position} is past the end of the log of "
                    f"{log_size} bytes"
                )
                raise CorruptIndexError(msg)
        return index

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.offsets)

    def entry(self, number: int) -> OffsetPosition:
        """Return one entry; negative numbers count from the end."""
        return OffsetPosition(self.offsets.item(number), self.positions.item(number))

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below ``offset``.

        Reading from its position finds the batch that contains ``offset``, if there is
        one. Below the first entry the result is the start of the segment.
        """
        found = self._rank(offset) - 1
        if found < 0:
            return OffsetPosition(self.base_offset, 0)
        # Like entry(), but without two calls that take a fifth of the time.
        keys, others = self._views
        return tuple.__new__(OffsetPosition, (keys[found], others[found]))

    def lookup_positions(self, offsets: Int64Array) -> Int64Array:
        """Return the position that ``lookup`` returns, for each of many offsets."""
        ranks = self.offsets.searchsorted(offsets, "right")
        found = np.zeros(len(offsets), np.int64)
        known = ranks > 0
        found[known] = self.positions[ranks[known] - 1]
        return found

    def upper_bound(self, position: int) -> OffsetPosition | None:
        """Return the first entry at or past ``position``; None when there is none."""
        found = int(self.positions.searchsorted(position))
        return self.entry(found) if found < len(self) else None

    def end_position(self, end_offset: int) -> int | None:
        """Return a position at or past the end of every batch below ``end_offset``.

        Returns:
            The position; None when only the end of the log is certain to be past them.
        """
        # The batch of the first entry at or past the last wanted offset may begin at or
        # below that offset; the batch of the next entry cannot.
        found = int(self.offsets.searchsorted(end_offset - 1)) + 1
        return self.positions.item(found) if found < len(self) else None


def columns(entries: npt.NDArray[np.void]) -> Int64Array:
    """Return the fields of entries as native 64-bit integers, one row per field.

    The rows share one block of memory: the allocator returns two blocks of several MiB
    to the system each time, and faulting in their pages would cost more than the rest
    of the parser.
    """
    names = entries.dtype.names or ()
    rows = np.empty((len(names), len(entries)), np.int64)
    for row, name in zip(rows, names, strict=True):
        row[:] = entries[name]
    return rows


def check_increasing(
    values: Int64Array, noun: str, name: str, *, minimum: int = 0, strictly: bool = True
) -> None:
    """Check that values increase, or, if not ``strictly``, that they never decrease.

    Raises:
        CorruptIndexError: The values do not, or the first is below ``minimum``.
    """
    if len(values) and values[0] < minimum:
        msg = f"{name}: {noun} {values[0]} in entry 0"
        raise CorruptIndexError(msg)
    falls = (np.less_equal if strictly else np.less)(values[1:], values[:-1])
    if falls.any():
        at = int(falls.argmax()) + 1
        msg = f"{name}: {noun} {values[at]} in entry {at} follows {values[at - 1]}"
        raise CorruptIndexError(msg)


def make_absolute(relative: Int64Array, base_offset: int, name: str) -> Int64Array:
    """Convert the increasing relative offsets of a segment to absolute ones, in place.

    Raises:
        InvalidArgumentError: No segment can have this base offset.
        CorruptIndexError: An offset does not fit in an int64.
    """
    if not 0 <= base_offset <= MAX_INT64:
        msg = f"{name}: invalid base offset {base_offset}"
        raise InvalidArgumentError(msg)
    if len(relative) and int(relative[-1]) > MAX_INT64 - base_offset:
        offset = base_offset + int(relative[-1])
        msg = f"{name}: offset {offset} does not fit in an int64"
        raise CorruptIndexError(msg)
    relative += base_offset
    return relative
