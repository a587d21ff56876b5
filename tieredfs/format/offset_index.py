"""The offset index (``.index``): where in the log the batch of an offset begins.

Source: Kafka's OffsetIndex. Entries of 8 bytes: the batch's last offset relative to the
segment's base offset, and the batch's position, each a big-endian int32. The first
batch of a segment is never indexed.
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from tieredfs.errors import CorruptIndexError, InvalidArgumentError
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.varints import Int64Array

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

    ENTRY_SIZE = _ENTRY.itemsize

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
        relative = entries["offset"].astype(np.int64)
        positions = entries["position"].astype(np.int64)
        check_rising(relative, "relative offset", name)
        check_rising(positions, "position", name, least=1)
        index = cls(base_offset, absolute(relative, base_offset, name), positions)
        if len(relative):
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
        return OffsetPosition(int(self.offsets[number]), int(self.positions[number]))

    def lookup(self, offset: int) -> OffsetPosition:
        """Return the last entry at or below ``offset``.

        Reading from its position finds the batch that holds ``offset``, if there is
        one. Below the first entry that is the start of the segment.
        """
        found = int(np.searchsorted(self.offsets, offset, side="right"))
        return self.entry(found - 1) if found else OffsetPosition(self.base_offset, 0)

    def upper_bound(self, position: int) -> OffsetPosition | None:
        """Return the first entry at or past ``position``; None when there is none."""
        found = int(np.searchsorted(self.positions, position, side="left"))
        return self.entry(found) if found < len(self) else None

    def end_position(self, end_offset: int) -> int | None:
        """Return a position by which every batch below ``end_offset`` has ended.

        Returns:
            None when only the end of the log is sure to be past them.
        """
        # The batch of the first entry at or past the end may begin below the end.
        found = int(np.searchsorted(self.offsets, end_offset, side="left")) + 1
        return int(self.positions[found]) if found < len(self) else None


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
    falls = np.flatnonzero(
        (np.less_equal if strictly else np.less)(values[1:], values[:-1])
    )
    if len(falls):
        at = int(falls[0]) + 1
        msg = f"{name}: {noun} {values[at]} in entry {at} follows {values[at - 1]}"
        raise CorruptIndexError(msg)


def absolute(relative: Int64Array, base_offset: int, name: str) -> Int64Array:
    """Turn the rising relative offsets of a segment into absolute ones.

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
    return relative + base_offset
