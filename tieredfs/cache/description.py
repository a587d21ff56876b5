"""What a segment's listing does not contain, as an entry of the cache keeps it.

::

    i64 end offset · i64 largest timestamp · i64 size of the log · i64 record count
    u32 flags · u32 number of leader epochs
    for each epoch: i64 epoch · i64 first offset

All numbers are little-endian. A record count of -1 means that the layout stores none.
Bit 0 of the flags: the end offset was compared with the log.
"""

from dataclasses import dataclass, replace
from struct import Struct, error
from typing import Final, Self

from tieredfs.errors import InvalidArgumentError
from tieredfs.model import EpochEntry, SegmentMetadata

__all__ = ["SegmentDescription"]

_HEAD = Struct("<qqqqII")
_EPOCH = Struct("<qq")
_END_CHECKED: Final = 1
_UNKNOWN: Final = -1


@dataclass(frozen=True, slots=True)
class SegmentDescription:
    """The fields of a segment that ``describe`` has found.

    Attributes:
        end_offset: Last offset, inclusive.
        max_timestamp_ms: Largest record timestamp, ms since 1970 UTC; -1 for none.
        size: Size of the log in bytes.
        leader_epochs: Epochs that begin at or before ``end_offset``, oldest first.
        record_count: Number of records in the log; None if the layout stores none.
        is_end_checked: Whether the end offset was compared with the log.
    """

    end_offset: int
    max_timestamp_ms: int
    size: int
    leader_epochs: tuple[EpochEntry, ...]
    record_count: int | None = None
    is_end_checked: bool = False

    @classmethod
    def of(cls, segment: SegmentMetadata) -> Self | None:
        """Return the description in a segment; None if a field of it is not known."""
        end, latest = segment.end_offset, segment.max_timestamp_ms
        size, epochs = segment.size, segment.leader_epochs
        if end is None or latest is None or size is None or epochs is None:
            return None
        return cls(end, latest, size, epochs, segment.record_count)

    @classmethod
    def parse(cls, data: memoryview) -> Self:
        """Return the description in the bytes of an entry.

        Raises:
            ValueError: The bytes are not a result of ``encode``.
        """
        try:
            end, latest, size, records, flags, count = _HEAD.unpack_from(data)
            epochs = tuple(
                EpochEntry(*entry) for entry in _EPOCH.iter_unpack(data[_HEAD.size :])
            )
        except error as problem:
            raise ValueError(str(problem)) from problem
        if len(epochs) != count or flags & ~_END_CHECKED or records < _UNKNOWN:
            msg = (
                f"flags {flags:#x}, {count} epochs of {len(epochs)}, {records} records"
            )
            raise ValueError(msg)
        known = None if records == _UNKNOWN else records
        return cls(end, latest, size, epochs, known, bool(flags & _END_CHECKED))

    def encode(self) -> bytes:
        """Return the bytes that an entry keeps."""
        head = _HEAD.pack(
            self.end_offset,
            self.max_timestamp_ms,
            self.size,
            _UNKNOWN if self.record_count is None else self.record_count,
            _END_CHECKED if self.is_end_checked else 0,
            len(self.leader_epochs),
        )
        return head + b"".join(
            _EPOCH.pack(entry.epoch, entry.start_offset) for entry in self.leader_epochs
        )

    def describe(self, listed: SegmentMetadata) -> SegmentMetadata | None:
        """Return a segment with every field known.

        Args:
            listed: The segment, as it is listed now.

        Returns:
            The segment; None if its listing contradicts the description, as after
            another program has changed the log.
        """
        known = {
            "end_offset": self.end_offset,
            "max_timestamp_ms": self.max_timestamp_ms,
            "size": self.size,
            "leader_epochs": self.leader_epochs,
        }
        for name, value in known.items():
            if getattr(listed, name) not in {None, value}:
                return None
        try:
            return replace(
                listed,
                end_offset=self.end_offset,
                max_timestamp_ms=self.max_timestamp_ms,
                size=self.size,
                leader_epochs=self.leader_epochs,
                record_count=self.record_count,
            )
        except InvalidArgumentError:  # written by another program
            return None
