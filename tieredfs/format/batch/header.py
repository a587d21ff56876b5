"""What the header of a batch says, whatever version of the format it is written in."""

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
"""The version that is written, and that all records are decoded from."""

HEADER_SIZE: Final = 61
"""Bytes of the header of a batch of version 2."""

CRC_END: Final = 21
"""Where in a batch the bytes begin that its CRC-32C covers."""

_CRC_AT: Final = 17

MIN_RECORD: Final = 7
"""Bytes of a record, at least: one for each of its fixed fields."""

CODEC_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
_SEQUENCES = 1 << 31


class TimestampType(IntEnum):
    """What the timestamps of a batch mean; version 0 has none."""

    NO_TIMESTAMP = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


class BatchHeader(NamedTuple):
    """The header of one batch, and where the batch lies.

    Attributes:
        position: Of the batch's first byte in the log.
        size: Bytes of the whole batch.
        base_offset: Offset of the first record as it was written.
        last_offset: Offset of the last record as it was written; compaction may have
            removed that record.
        leader_epoch: Epoch of the leader that wrote it; -1 when unknown.
        crc: As stored: CRC-32C; CRC-32 before version 2.
        attributes: The flags as stored, as far as the version has them.
        base_timestamp: What the records' timestamp deltas are relative to, ms.
        max_timestamp: Largest timestamp of its records, ms; -1 for none.
        producer_id: -1 when the producer was neither idempotent nor transactional.
        producer_epoch: -1 likewise.
        base_sequence: -1 likewise.
        record_count: Records in the batch; 0 when compaction removed them all.
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
        """Whether the records are the broker's own, such as commit markers."""
        return bool(self.attributes & CONTROL)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When the cleaner may drop the batch's tombstones, ms; None when not set."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON else None

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; -1 when there is none."""
        if self.base_sequence < 0:
            return -1
        delta = self.last_offset - self.base_offset
        return (self.base_sequence + delta) % _SEQUENCES


def seal_batch(header: bytes, records: Buffer) -> bytes:
    """Return a batch: its header, whose checksum is computed, and its stored records.

    Args:
        header: With any checksum.
        records: As they are stored, compressed or not.
    """
    crc = crc32c(records, crc32c(header[CRC_END:]))
    parts = (header[:_CRC_AT], crc.to_bytes(4, "big"), header[CRC_END:], records)
    return b"".join(parts)
