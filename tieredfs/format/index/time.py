"""The time index (``.timeindex``): maps a timestamp to an offset in a segment.

Source: Kafka's TimeIndex. Entries of 12 bytes: the largest timestamp so far, a
big-endian int64, and an int32 offset relative to the segment's base offset: the last
offset of the batch that has this timestamp. The record at that offset may have another
timestamp, so a lookup gives the offset to start reading at, not the offset of a record.
"""

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np

from tieredfs.errors import CorruptIndexError
from tieredfs.format.buffers import Buffer, Int64Array, byte_view
from tieredfs.format.index.offset import check_increasing, columns, make_absolute
from tieredfs.format.index.ranks import Rank, rank_among

__all__ = ["NO_TIMESTAMP", "TimeIndex", "TimestampOffset"]

_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
NO_TIMESTAMP = -1


class TimestampOffset(NamedTuple):
    """The largest timestamp up to an offset, ms."""

    timestamp: int
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class TimeIndex:
    """A parsed time index.

    Attributes:
        base_offset: The segment's first offset.
        timestamps: Milliseconds, int64, strictly increasing.
        offsets: Absolute offsets, int64, never decreasing.
    """

    base_offset: int
    timestamps: Int64Array
    offsets: Int64Array
    _views: tuple[memoryview, memoryview] = field(init=False, repr=False)
    _rank: Rank = field(init=False, repr=False)

    ENTRY_SIZE = _ENTRY.itemsize

    def __post_init__(self) -> None:
        """Keep views of the numbers for fast access to single items."""
        views = (self.timestamps.data, self.offsets.data)
        object.__setattr__(self, "_views", views)
        object.__setattr__(self, "_rank", rank_among(views[0]))

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle only the numbers; views and rank are made again."""
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

        An empty index is valid: a segment whose records have negative timestamps has no
        entries, and every lookup returns the segment's start.

        Args:
            data: The whole index.
            base_offset: The segment's first offset.
            end_offset: The segment's last offset, if known.
            name: Index name used in error messages.

        Raises:
            CorruptIndexError: The length is not a multiple of 12 (truncation), the
                timestamp of an entry is not greater than the one before it (as in zero
                padding), an offset decreases, or an entry points outside the segment.
            InvalidArgumentError: No segment can have this base offset.
        """
        view = byte_view(data)
        if len(view) % _ENTRY.itemsize:
            msg = f"{name}: {len(view)} bytes are not a multiple of {_ENTRY.itemsize}"
            raise CorruptIndexError(msg)
        entries = np.frombuffer(view, _ENTRY)
        timestamps, relative = columns(entries)
        check_increasing(timestamps, "timestamp", name)
        # Two entries may share an offset: only the timestamps have to increase.
        check_increasing(relative, "relative offset", name, strictly=False)
        offsets = make_absolute(relative, base_offset, name)
        index = cls(base_offset, timestamps, offsets)
        if len(index) and end_offset is not None:
            last = index.entry(-1)
            if last.offset > end_offset:
                msg = (
                    f"{name}: offset {last.offset} is past the segment's last offset, "
                    f"{end_offset}"
                )
                raise CorruptIndexError(msg)
        return index

    def __len__(self) -> int:
        """Return the number of entries."""
        return len(self.timestamps)

    def entry(self, number: int) -> TimestampOffset:
        """Return one entry; negative numbers count from the end."""
        return TimestampOffset(self.timestamps.item(number), self.offsets.item(number))

    def upper_bound(self, timestamp: int) -> TimestampOffset | None:
        """Return the first entry at or after ``timestamp`` (ms); None if there is none.

        The batch of its offset has a record with a timestamp at or after ``timestamp``.
        """
        found = int(self.timestamps.searchsorted(timestamp))
        return self.entry(found) if found < len(self) else None

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the last entry at or before ``timestamp`` (ms).

        Every record before the batch of its offset is older than ``timestamp``. Before
        the first entry the result is (-1, the segment's first offset).
        """
        found = self._rank(timestamp) - 1
        if found < 0:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        # Like entry(), but without two calls that take a fifth of the time.
        keys, others = self._views
        return tuple.__new__(TimestampOffset, (keys[found], others[found]))
