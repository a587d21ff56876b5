"""Rebuild a segment's offset and time index from its log, as Kafka builds them.

Source: Kafka's LogSegment.append and onBecomeInactiveSegment (4.x).
"""

import struct
from typing import Final

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.header import BatchHeader
from tieredfs.integers import MAX_INT32

__all__ = ["INTERVAL_BYTES", "IndexBuilder"]

INTERVAL_BYTES: Final = 4096
"""Kafka's default for ``index.interval.bytes``."""

_OFFSET_ENTRY: Final = struct.Struct(">ii")
_TIME_ENTRY: Final = struct.Struct(">qi")


class IndexBuilder:
    """Build the offset and time index of a segment from its batches, added in order.

    A batch is indexed when more than the interval has been written since the last
    indexed batch, so the first batch never is. A time index entry pairs the largest
    timestamp so far with the last offset of the batch that has it. The end of the
    segment adds a last entry to the time index.
    """

    def __init__(
        self, base_offset: int, *, interval_bytes: int = INTERVAL_BYTES
    ) -> None:
        """Start with an empty segment.

        Args:
            base_offset: The segment's first offset.
            interval_bytes: Minimum number of log bytes between two entries.
        """
        self._base = base_offset
        self._interval = interval_bytes
        self._since = 0
        self._largest = (-1, base_offset)
        self._timed = -1
        self._offsets = bytearray()
        self._times = bytearray()

    def add(self, header: BatchHeader) -> None:
        """Add the next batch.

        Raises:
            CorruptBatchError: The batch is below the segment's first offset, or its
                offset or position is too large for an index entry.
        """
        relative = header.last_offset - self._base
        if header.base_offset < self._base or relative > MAX_INT32:
            msg = (
                f"batch at position {header.position}: offsets {header.base_offset} to "
                f"{header.last_offset} do not fit a segment that begins at {self._base}"
            )
            raise CorruptBatchError(msg)
        if header.position > MAX_INT32:
            msg = (
                f"batch at position {header.position}: the position is past "
                f"{MAX_INT32}, the largest that an index can hold"
            )
            raise CorruptBatchError(msg)
        if header.max_timestamp > self._largest[0]:
            self._largest = (header.max_timestamp, header.last_offset)
        if self._since > self._interval:
            self._offsets += _OFFSET_ENTRY.pack(relative, header.position)
            self._add_time()
            self._since = 0
        self._since += header.size

    def offset_index(self) -> bytes:
        """Return the offset index of the batches added so far."""
        return bytes(self._offsets)

    def time_index(self) -> bytes:
        """Return the time index of a segment that ends with the last batch added."""
        self._add_time()
        return bytes(self._times)

    def _add_time(self) -> None:
        timestamp, offset = self._largest
        if timestamp > self._timed:
            self._times += _TIME_ENTRY.pack(timestamp, offset - self._base)
            self._timed = timestamp
