"""Record batches, version 2: their 61-byte headers, read and checked.

Source: Kafka's DefaultRecordBatch; KIP-98, KIP-534 (delete horizon). All integers are
big-endian. The checksum is CRC-32C over everything after it; the base offset, length,
leader epoch and magic before it are covered by no checksum, so whoever reads a log
checks them against their neighbours.
"""

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import Final, NamedTuple

import google_crc32c

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import CorruptBatchError, UnsupportedFormatError
from tieredfs.format.buffers import Buffer, byte_view

__all__ = [
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "MIN_RECORD",
    "TRANSACTIONAL",
    "BatchHeader",
    "Codec",
    "TimestampType",
    "claimed_size",
    "read_header",
    "scan_batches",
]

_HEADER = struct.Struct(">qiibIhiqqqhii")
_SIZE = struct.Struct(">qi")
_LENGTH_AT = 12  # bytes before what the length field counts
_CRC_END = 21
_MAGIC_AT = 16
_MAGIC = 2
_CODEC_MASK = 0x07
LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
MIN_RECORD: Final = 7  # one byte for each of a record's fixed fields
_MAX_INT64 = (1 << 63) - 1
_SEQUENCES = 1 << 31


class Codec(IntEnum):
    """How the records of a batch are compressed."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class TimestampType(IntEnum):
    """What the timestamps of a batch mean."""

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
        crc: CRC-32C as stored.
        attributes: The flags as stored.
        base_timestamp: What the records' timestamp deltas are relative to, ms.
        max_timestamp: Largest timestamp of its records, ms; -1 for none.
        producer_id: -1 when the producer was neither idempotent nor transactional.
        producer_epoch: -1 likewise.
        base_sequence: -1 likewise.
        record_count: Records in the batch; 0 when compaction removed them all.
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

    @property
    def end(self) -> int:
        """The position of the first byte after the batch."""
        return self.position + self.size

    @property
    def codec(self) -> Codec:
        """How the records are compressed."""
        return Codec(self.attributes & _CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        """Whether the producer or the broker set the timestamps."""
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


HEADER_SIZE = _HEADER.size


def claimed_size(data: Buffer, position: int, *, name: str = "log") -> int | None:
    """Return the size that the batch at ``position`` says it has.

    Args:
        data: A buffer of log bytes.
        position: Where a batch begins in it.
        name: How to call the log in an error.

    Returns:
        Bytes of the whole batch; None when not even the length is there.

    Raises:
        CorruptBatchError: The length is smaller than any batch.
    """
    view = byte_view(data)
    if len(view) - position < _SIZE.size:
        return None
    _, length = _SIZE.unpack_from(view, position)
    if length + _LENGTH_AT <= _MAGIC_AT:
        raise _corrupt(name, position, f"a length of {length} is too small")
    return int(length) + _LENGTH_AT


def read_header(
    data: Buffer, position: int, *, offset: int = 0, name: str = "log"
) -> BatchHeader:
    """Read and check the batch that lies whole at ``position``.

    Args:
        data: A buffer of log bytes.
        position: Where the batch begins in the buffer.
        offset: Position of the buffer's first byte in the log.
        name: How to call the log in an error.

    Returns:
        The header, its position being that in the log.

    Raises:
        CorruptBatchError: The batch does not end inside the buffer, fails its
            checksum, or a field is outside its range.
        UnsupportedFormatError: Its magic or codec is not one that is read.
    """
    view = byte_view(data)
    at = position + offset
    size = claimed_size(view, position, name=name)
    if size is None or size > len(view) - position:
        left = len(view) - position
        raise _corrupt(name, at, f"{left} bytes are left of a batch of {size or '?'}")
    magic = view[position + _MAGIC_AT]
    if magic != _MAGIC:
        if magic > _MAGIC:
            raise _corrupt(name, at, f"magic {magic}")
        msg = f"{name}: message sets of magic {magic} are not read (position {at})"
        raise UnsupportedFormatError(msg)
    if size < HEADER_SIZE:
        raise _corrupt(name, at, f"{size} bytes are fewer than a batch header")
    (
        base_offset,
        _length,
        leader_epoch,
        _magic,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    ) = _HEADER.unpack_from(view, position)
    # google_crc32c takes bytes only; the copy costs less than any pure-Python CRC.
    actual = google_crc32c.value(bytes(view[position + _CRC_END : position + size]))
    if actual != crc:
        raise _corrupt(name, at, f"CRC-32C is {actual:#010x}, stored is {crc:#010x}")
    header = BatchHeader(
        at,
        size,
        base_offset,
        base_offset + last_offset_delta,
        leader_epoch,
        crc,
        attributes,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
    )
    _check_fields(header, name)
    return header


def scan_batches(
    data: Buffer, *, offset: int = 0, after: int = -1, name: str = "log"
) -> Iterator[BatchHeader]:
    """Yield the header of each batch that lies whole in a buffer, checked.

    Stops before a batch that the buffer cuts off: the last header's ``end`` says how
    far the buffer is read, and ``claimed_size`` how much the next batch needs.

    Args:
        data: A buffer of log bytes that begins with a batch.
        offset: Position of the buffer's first byte in the log.
        after: Offset that the first batch must lie above.
        name: How to call the log in an error.

    Raises:
        CorruptBatchError: A batch is malformed or does not follow the one before it.
        UnsupportedFormatError: A magic or codec is not one that is read.
    """
    view = byte_view(data)
    previous = after
    start = 0
    while True:
        size = claimed_size(view, start, name=name)
        if size is None or size > len(view) - start:
            return
        header = read_header(view, start, offset=offset, name=name)
        if header.base_offset <= previous:
            detail = f"base offset {header.base_offset} follows offset {previous}"
            raise _corrupt(name, header.position, detail)
        previous = header.last_offset
        start += size
        yield header


def _check_fields(header: BatchHeader, name: str) -> None:
    """Check what the checksum does not: that the fields make sense together."""
    at, last_offset = header.position, header.last_offset
    codec = header.attributes & _CODEC_MASK
    if codec > Codec.ZSTD:
        msg = f"{name}: unknown compression codec {codec} at position {at}"
        raise UnsupportedFormatError(msg)
    if not 0 <= header.base_offset <= last_offset <= _MAX_INT64:
        raise _corrupt(name, at, f"offsets {header.base_offset} to {last_offset}")
    if header.leader_epoch < NO_EPOCH:
        raise _corrupt(name, at, f"leader epoch {header.leader_epoch}")
    most = last_offset - header.base_offset + 1
    if codec == Codec.NONE:
        most = min(most, (header.size - HEADER_SIZE) // MIN_RECORD)
    if not 0 <= header.record_count <= most:
        raise _corrupt(name, at, f"{header.record_count} records cannot be in it")


def _corrupt(name: str, position: int, detail: str) -> CorruptBatchError:
    return CorruptBatchError(f"{name}: batch at position {position}: {detail}")
