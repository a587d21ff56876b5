"""The header of a record batch, in one form for all versions of the message format."""

from enum import IntEnum
from typing import Final, NamedTuple

from tieredfs.format.buffers import Buffer
from tieredfs.format.checksum import crc32c
from tieredfs.format.compression.codec import Codec

__all__ = [
    "CODEC_MASK",
    "CONTROL",
    "CRC_END",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MIN_RECORD",
    "TRANSACTIONAL",
    "BatchHeader",
    "TimestampType",
    "seal_batch",
]

MAGIC: Final = 2
"""The message format version that is written and that records are decoded from."""

HEADER_SIZE: Final = 61
"""Size of the header of a version 2 batch in bytes."""

CRC_END: Final = 21
"""Position in a batch of the first byte that its CRC-32C covers."""

_CRC_AT: Final = 17

MIN_RECORD: Final = 7
"""Minimum size of a record in bytes: one for each of its fixed fields."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
_SEQUENCES = 1 << 31


class TimestampType(IntEnum):
    """The kind of timestamps in a batch; version 0 has no timestamps."""

    NO_TIMESTAMP = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of a batch, with the batch's position in the log.

    Attributes:
        position: Position of the batch's first byte in the log.
        size: Size of the whole batch in bytes.
        base_offset: Offset of the first record when the batch was written.
        last_offset: Offset of the last record when the batch was written; compaction
            may have removed that record.
        leader_epoch: Epoch of the leader that wrote the batch; -1 when unknown.
        crc: The stored checksum: CRC-32C, or CRC-32 before version 2.
        attributes: The stored flags that the batch's version defines.
        base_timestamp: Timestamp that the records' deltas are relative to, ms.
        max_timestamp: Largest timestamp of the records, ms; -1 for none.
        producer_id: Id of the producer; -1 when it was neither idempotent nor
            transactional.
        producer_epoch: Epoch of the producer; -1 when there is no producer id.
        base_sequence: Sequence number of the first record; -1 when there is no producer
            id.
        record_count: Number of records; 0 when compaction removed them all.
        magic: Version of the message format, 0 to 2.
    """

    position: int
    size: int
    base_offset: int
    last_offset: int
    leader_epoch: int
    crc: int
    attributes: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int
    magic: int = MAGIC

    @property
    def end(self) -> int:
        """The position of the first byte after the batch."""
        return self.position + self.size

    @property
    def codec(self) -> Codec:
        """How the records are compressed."""
        return Codec(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps."""
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP
        return TimestampType(bool(self.attributes & LOG_APPEND_TIME))

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the records are control records, such as commit markers."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """Time from which the cleaner may drop the batch's tombstones, ms, or None."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 when the batch has none."""
        if self.base_sequence < 0:
            return -1
        delta = self.last_offset - self.base_offset
        return (self.base_sequence + delta) % _SEQUENCES


def seal_batch(header: bytes, records: Buffer) -> bytes:
    """Join a header and records into a batch, and set its checksum.

    Args:
        header: The header, with any value as its checksum.
        records: The records as stored, compressed or not.
    """
    crc = crc32c(records, crc32c(header[CRC_END:]))
    parts = (header[:_CRC_AT], crc.to_bytes(4, "big"), header[CRC_END:], records)
    return b"".join(parts)
