"""Read and check the headers of the batches in a log.

Batches of version 2 are read here; ``legacy`` reads messages of version 0 and 1 as
batches. Source: Kafka's DefaultRecordBatch; KIP-98, KIP-534 (delete horizon). All
integers are big-endian. The checksum is CRC-32C over everything after it. No checksum
covers the base offset, length, leader epoch and magic before it, so a reader of a log
checks them against the neighbouring batches.
"""

import struct
import zlib
from collections.abc import Iterator

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import CorruptBatchError, UnsupportedFormatError
from tieredfs.format.batch.header import (
    CODEC_MASK,
    CRC_END,
    HEADER_SIZE,
    MAGIC,
    MIN_RECORD,
    BatchHeader,
)
from tieredfs.format.batch.legacy import read_message_header
from tieredfs.format.batch.scan import scan_headers
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.checksum import check_crc32c, crc32c
from tieredfs.format.compression.codec import MAX_CODEC, Codec
from tieredfs.integers import MAX_INT64

__all__ = [
    "claimed_size",
    "may_be_torn",
    "read_header",
    "scan_log",
]

_HEADER = struct.Struct(">qiibIhiqqqhii")
_SIZE = struct.Struct(">qi")
_LENGTH_AT = 12  # bytes that the length field does not count
_MAGIC_AT = 16
_CRC_BYTES = 4


def claimed_size(
    data: Buffer, position: int, *, offset: int = 0, name: str = "log"
) -> int | None:
    """Return the size of the batch at ``position`` according to its length field.

    Args:
        data: A buffer of log bytes.
        position: Position of the batch in the buffer.
        offset: Position of the buffer's first byte in the log.
        name: Log name used in error messages.

    Returns:
        Size of the whole batch in bytes; None when the buffer ends before its length
        field does.

    Raises:
        CorruptBatchError: The length is too small for a batch.
    """
    view = byte_view(data)
    if len(view) - position < _SIZE.size:
        return None
    _, length = _SIZE.unpack_from(view, position)
    if length + _LENGTH_AT <= _MAGIC_AT:
        detail = f"a length of {length} is too small for a batch"
        raise _corrupt(name, position + offset, detail)
    return int(length) + _LENGTH_AT


def may_be_torn(data: Buffer) -> bool:
    """Return whether bytes look like the first part of a batch, with zeros behind it.

    A broker that writes to a file of zeros leaves that until the batch is whole, and
    for ever if it stops. A whole batch that was damaged looks the same if it ends in a
    zero.

    Args:
        data: As many bytes as the batch's length field claims.
    """
    view = byte_view(data)
    magic = view[_MAGIC_AT]
    if view[-1] or magic > MAGIC or (magic == MAGIC and len(view) < HEADER_SIZE):
        return False
    covered = CRC_END if magic == MAGIC else _MAGIC_AT  # the checksum is before it
    checksum = crc32c if magic == MAGIC else zlib.crc32
    stored = int.from_bytes(view[covered - _CRC_BYTES : covered], "big")
    return checksum(view[covered:]) != stored


def read_header(
    data: Buffer, position: int, *, offset: int = 0, name: str = "log"
) -> BatchHeader:
    """Read and check the batch at ``position``, which the buffer must hold whole.

    Args:
        data: A buffer of log bytes.
        position: Position of the batch in the buffer.
        offset: Position of the buffer's first byte in the log.
        name: Log name used in error messages.

    Returns:
        The header, with its position in the log.

    Raises:
        CorruptBatchError: The batch does not end inside the buffer, fails its
            checksum, or has a field outside its range.
        UnsupportedFormatError: The codec is not supported.
    """
    view = byte_view(data)
    at = position + offset
    size = claimed_size(view, position, offset=offset, name=name)
    if size is None or size > len(view) - position:
        left = len(view) - position
        detail = f"cut off after {left} bytes of {size or '?'}"
        raise _corrupt(name, at, detail)
    magic = view[position + _MAGIC_AT]
    if magic < MAGIC:
        return read_message_header(view[position : position + size], at, name=name)
    if magic > MAGIC:
        raise _corrupt(name, at, f"unknown magic {magic}")
    if size < HEADER_SIZE:
        raise _corrupt(name, at, f"{size} bytes are too few for a batch header")
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
    check_crc32c(
        view[position + CRC_END : position + size],
        crc,
        where=f"{name}: batch at position {at}",
    )
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


def scan_log(
    data: Buffer, *, offset: int = 0, after: int = -1, name: str = "log"
) -> Iterator[LogBatches]:
    """Yield the whole batches in a buffer, many at a time.

    Stops before a batch that the buffer cuts off: the end of the last row is the
    position up to which the buffer was read, and ``claimed_size`` gives the size of the
    next batch. The headers are checked here; the checksums are checked when the batches
    are decoded or iterated over, so that the bytes are read only once.

    Args:
        data: A buffer of log bytes that begins with a batch.
        offset: Position of the buffer's first byte in the log.
        after: The first batch must have offsets greater than this.
        name: Log name used in error messages.

    Raises:
        CorruptBatchError: A batch is malformed or does not follow the one before it.
            The batches before it have been yielded.
        UnsupportedFormatError: A codec is not supported.
    """
    view = byte_view(data)
    previous, start = after, 0
    while True:
        # The scanner finds valid batches of version 2; the code below handles the rest.
        table = scan_headers(view, start, offset, previous)
        if len(table):
            found = LogBatches(table, view, name)
        else:
            size = claimed_size(view, start, offset=offset, name=name)
            if size is None or size > len(view) - start:
                return
            header = read_header(view, start, offset=offset, name=name)
            if header.base_offset <= previous:
                detail = f"base offset {header.base_offset} follows offset {previous}"
                raise _corrupt(name, header.position, detail)
            found = LogBatches.of(LogBatch(header, view, start, name))
        previous, start = int(found["last_offset"][-1]), int(found["end"][-1])
        yield found


def _check_fields(header: BatchHeader, name: str) -> None:
    """Check that the fields are consistent, which the checksum does not show."""
    at, last_offset = header.position, header.last_offset
    codec = header.attributes & CODEC_MASK
    if codec > MAX_CODEC:
        msg = f"{name}: unknown compression codec {codec} at position {at}"
        raise UnsupportedFormatError(msg)
    if not 0 <= header.base_offset <= last_offset <= MAX_INT64:
        detail = f"invalid offsets {header.base_offset} to {last_offset}"
        raise _corrupt(name, at, detail)
    if header.leader_epoch < NO_EPOCH:
        raise _corrupt(name, at, f"invalid leader epoch {header.leader_epoch}")
    max_count = last_offset - header.base_offset + 1
    if codec == Codec.NONE:
        max_count = min(max_count, (header.size - HEADER_SIZE) // MIN_RECORD)
    if not 0 <= header.record_count <= max_count:
        detail = f"record count {header.record_count} is not in 0 to {max_count}"
        raise _corrupt(name, at, detail)


def _corrupt(name: str, position: int, detail: str) -> CorruptBatchError:
    return CorruptBatchError(f"{name}: batch at position {position}: {detail}")
