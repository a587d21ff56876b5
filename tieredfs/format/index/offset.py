"""The offset index (``.index``): where in the log the batch of an offset begins.

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

__all__ = ["OffsetIndex", "OffsetPosition"]

_MAX_OFFSET = (1 << 63) - 1
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
        offsets: Absolute offsets, int64, rising strictly.
        positions: Positions in the log, int64, rising strictly.
    """

    base_offset: int
    offsets: Int64Array
    positions: Int64Array
    _views: tuple[memoryview, memoryview] = field(init=False, repr=False)
    _rank: Rank = field(init=False, repr=False)

    ENTRY_SIZE = _ENTRY.itemsize

    def __post_init__(self) -> None:
        """Hold the numbers in a form that one of them is quickly taken from."""
        views = (self.offsets.data, self.positions.data)
        object.__setattr__(self, "_views", views)
        object.__setattr__(self, "_rank", rank_among(views[0]))

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out what is held twice."""
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

        An empty one is valid: a segment of one batch has no entry, and every lookup in
        it answers with the segment's start.

        Args:
            data: The whole index.
            base_offset: The segment's first offset.
            end_offset: The segment's last offset, where it is known.
            log_size: Bytes of the segment's log, where they are known.
            name: How to call the index in an error.

        Raises:
            CorruptIndexError: A length that is no multiple of 8 (truncation), an entry
                that does not rise above the one before it (zero padding among them),
                or one that points outside the segment.
            InvalidArgumentError: The base offset is none that a segment can have.
        """
        view = byte_view(data)
        if len(view) % _ENTRY.itemsize:
            msg = f"{name}: {len(view)} bytes are not a multiple of {_ENTRY.itemsize}"
            raise CorruptIndexError(msg)
        entries = np.frombuffer(view, _ENTRY)
        relative, positions = columns(entries)
        check_rising(relative, "relative offset", name)
        check_rising(positions, "position", name, least=1)
        index = cls(base_offset, make_absolute(relative, base_offset, name), positions)
        if len(index):
            last = index.entry(-1)
            if end_offset is not None and last.offset > end_offset:
                msg = f"{name}: offset {last.offset} is past the last, {end_offset}"
                raise CorruptIndexError(msg)
            if log_size is not None and last.position >= log_size:
                msg = f"{name}: position {last.position} is past a log of {log_size}"
                raise CorruptIndexError(msg)
        return index

    def __len__(self) -> int:
        """Count the entries."""
        return len(self.offsets)

    def entry(self, number: int) -> OffsetPosition:
        """Return one entry; negative numbers count from the end."""
        return OffsetPosition(self.offsets.item(number), self.positions.item(number))

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below ``offset``.

        Reading from its position finds the batch that holds ``offset``, if there is
        one. Below the first entry that is the start of the segment.
        """
        found = self._rank(offset) - 1
        if found < 0:
            return OffsetPosition(self.base_offset, 0)
        # As entry() does; two calls less are a fifth of the whole.
        keys, others = self._views
        return tuple.__new__(OffsetPosition, (keys[found], others[found]))

    def upper_bound(self, position: int) -> OffsetPosition | None:
        """Return the first entry at or past ``position``; None when there is none."""
        found = int(self.positions.searchsorted(position))
        return self.entry(found) if found < len(self) else None

    def end_position(self, end_offset: int) -> int | None:
        """Return a position by which every batch below ``end_offset`` has ended.

        Returns:
            None when only the end of the log is sure to be past them.
        """
        # The batch of the first entry at or past the last offset wanted may begin at or
        # below it, that of the next entry cannot.
        found = int(self.offsets.searchsorted(end_offset - 1)) + 1
        return self.positions.item(found) if found < len(self) else None


def columns(entries: npt.NDArray[np.void]) -> Int64Array:
    """Return the fields of entries, a row each, as native 64-bit integers.

    In one block: the allocator gives two of some MiB back to the system each time, and
    their pages would cost more than all the rest of a parser.
    """
    names = entries.dtype.names or ()
    rows = np.empty((len(names), len(entries)), np.int64)
    for row, name in zip(rows, names, strict=True):
        row[:] = entries[name]
    return rows


def check_rising(
    values: Int64Array, noun: str, name: str, *, least: int = 0, strictly: bool = True
) -> None:
    """Check that values rise from ``least`` on, or, if not ``strictly``, never fall.

    Raises:
        CorruptIndexError: One does not, or the first is below ``least``.
    """
    if len(values) and values[0] < least:
        msg = f"{name}: {noun} {values[0]} in entry 0"
        raise CorruptIndexError(msg)
    falls = (np.less_equal if strictly else np.less)(values[1:], values[:-1])
    if falls.any():
        at = int(falls.argmax()) + 1
        msg = f"{name}: {noun} {values[at]} in entry {at} follows {values[at - 1]}"
        raise CorruptIndexError(msg)


def make_absolute(relative: Int64Array, base_offset: int, name: str) -> Int64Array:
    """Turn the rising relative offsets of a segment, in place, into absolute ones.

    Raises:
        InvalidArgumentError: The base offset is none that a segment can have.
        CorruptIndexError: An offset does not fit 64 bits.
    """
    if not 0 <= base_offset <= _MAX_OFFSET:
        msg = f"{name}: no segment begins at offset {base_offset}"
        raise InvalidArgumentError(msg)
    if len(relative) and int(relative[-1]) > _MAX_OFFSET - base_offset:
        msg = f"{name}: offset {base_offset + int(relative[-1])} has more than 64 bits"
        raise CorruptIndexError(msg)
    relative += base_offset
    return relative
