"""The time index (``.timeindex``): where in a segment a time begins.

Source: Kafka's TimeIndex. Entries of 12 bytes: the largest timestamp so far, a
big-endian int64, and an int32 offset relative to the segment's base offset: the last
offset of the batch that has this timestamp. The record at that offset may have another
one, so a lookup says where to begin, not what is there.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from tieredfs.errors import CorruptIndexError
from tieredfs.format.buffers import Buffer, Int64Array, byte_view
from tieredfs.format.index.offset import check_rising, columns, make_absolute
from tieredfs.format.index.ranks import Rank, rank_among

__all__ = ["TimeIndex", "TimestampOffset"]

_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_NO_TIMESTAMP = -1


class TimestampOffset(NamedTuple):
    """The largest timestamp up to an offset, ms."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndex:
    """A parsed time index.

    Attributes:
        base_offset: The segment's first offset.
        timestamps: Milliseconds, int64, rising strictly.
        offsets: Absolute offsets, int64, never falling.
    """

    base_offset: int
    timestamps: Int64Array
    offsets: Int64Array
    _views: tuple[memoryview, memoryview] = field(init=False, repr=False)
    _rank: Rank = field(init=False, repr=False)

    ENTRY_SIZE = _ENTRY.itemsize

    def __post_init__(self) -> None:
        """Hold the numbers in a form that one of them is quickly taken from."""
        views = (self.timestamps.data, self.offsets.data)
        object.__setattr__(self, "_views", views)
        object.__setattr__(self, "_rank", rank_among(views[0]))

    def __reduce__(self) -> tuple[object, ...]:
        """Leave out what is held twice."""
        return type(self), (self.base_offset, self.timestamps, self.offsets)

    @classmethod
    def parse(
        cls,
        data: Buffer,
        base_offset: int,
        *,
        end_offset: int | None = None,
        name: str = "time index",
    ) -> Self:
        """Parse and validate a time index.

        An empty one is valid: a segment whose records have negative timestamps has no
        entry, and every lookup in it answers with the segment's start.

        Args:
            data: The whole index.
            base_offset: The segment's first offset.
            end_offset: The segment's last offset, where it is known.
            name: How to call the index in an error.

        Raises:
            CorruptIndexError: A length that is no multiple of 12 (truncation), an entry
                that does not rise above the one before it (zero padding among them),
                or one that points outside the segment.
            InvalidArgumentError: The base offset is none that a segment can have.
        """
        view = byte_view(data)
        if len(view) % _ENTRY.itemsize:
            msg = f"{name}: {len(view)} bytes are not a multiple of {_ENTRY.itemsize}"
            raise CorruptIndexError(msg)
        entries = np.frombuffer(view, _ENTRY)
        timestamps, relative = columns(entries)
        check_rising(timestamps, "timestamp", name)
        # Two entries may share an offset: only the timestamp has to rise.
        check_rising(relative, "relative offset", name, strictly=False)
        offsets = make_absolute(relative, base_offset, name)
        index = cls(base_offset, timestamps, offsets)
        if len(index) and end_offset is not None:
            last = index.entry(-1)
            if last.offset > end_offset:
                msg = f"{name}: offset {last.offset} is past the last, {end_offset}"
                raise CorruptIndexError(msg)
        return index

    def __len__(self) -> int:
        """Count the entries."""
        return len(self.timestamps)

    def entry(self, number: int) -> TimestampOffset:
        """Return one entry; negative numbers count from the end."""
        return TimestampOffset(self.timestamps.item(number), self.offsets.item(number))

    def upper_bound(self, timestamp: int) -> TimestampOffset | None:
        """Return the first entry at or past ``timestamp`` (ms); None if there is none.

        Its batch has a record that is as late.
        """
        found = int(self.timestamps.searchsorted(timestamp))
        return self.entry(found) if found < len(self) else None

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or before ``timestamp`` (ms).

        Every record before the batch of its offset is older than ``timestamp``. Before
        the first entry that is (-1, the segment's first offset).
        """
        found = self._rank(timestamp) - 1
        if found < 0:
            return TimestampOffset(_NO_TIMESTAMP, self.base_offset)
        # As entry() does; two calls less are a fifth of the whole.
        keys, others = self._views
        return tuple.__new__(TimestampOffset, (keys[found], others[found]))
