"""The batches of a log, their headers read and checked.

Version 2 is read here; a message of version 0 or 1, which ``message_set`` reads, is a
batch as well. Source: Kafka's DefaultRecordBatch; KIP-98, KIP-534 (delete horizon). All
integers are big-endian. The checksum is CRC-32C over everything after it; the base
offset, length, leader epoch and magic before it are covered by no checksum, so whoever
reads a log checks them against their neighbours.
"""

import struct
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
from tieredfs.format.batch.scan import header_scanner
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.checksum import check_crc32c
from tieredfs.format.compression.codec import Codec

__all__ = [
    "claimed_size",
    "read_header",
    "scan_batches",
    "scan_log",
]

_HEADER = struct.Struct(">qiibIhiqqqhii")
_SIZE = struct.Struct(">qi")
_LENGTH_AT = 12  # bytes before what the length field counts
_MAGIC_AT = 16
_MAX_INT64 = (1 << 63) - 1


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
        UnsupportedFormatError: Its codec is not one that is read.
    """
    view = byte_view(data)
    at = position + offset
    size = claimed_size(view, position, name=name)
    if size is None or size > len(view) - position:
        left = len(view) - position
        raise _corrupt(name, at, f"{left} bytes are left of a batch of {size or '?'}")
    magic = view[position + _MAGIC_AT]
    if magic < MAGIC:
        return read_message_header(view[position : position + size], at, name=name)
    if magic > MAGIC:
        raise _corrupt(name, at, f"magic {magic}")
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
    """Yield the batches that lie whole in a buffer, many at a time.

    Stops before a batch that the buffer cuts off: the end of the last row says how far
    the buffer is read, and ``claimed_size`` how much the next batch needs. Their
    headers are checked, and their checksums when they are decoded or iterated over: one
    pass over the bytes is enough.

    Args:
        data: A buffer of log bytes that begins with a batch.
        offset: Position of the buffer's first byte in the log.
        after: Offset that the first batch must lie above.
        name: How to call the log in an error.

    Raises:
        CorruptBatchError: A batch is malformed or does not follow the one before it.
            The batches before it have come out.
        UnsupportedFormatError: A codec is not one that is read.
    """
    view = byte_view(data)
    scan_headers = header_scanner()
    previous, start = after, 0
    while True:
        # Only what is right and of version 2 is found there; what is not is named here.
        table = scan_headers(view, start, offset, previous)
        if len(table):
            found = LogBatches(table, view, name)
        else:
            size = claimed_size(view, start, name=name)
            if size is None or size > len(view) - start:
                return
            header = read_header(view, start, offset=offset, name=name)
            if header.base_offset <= previous:
                detail = f"base offset {header.base_offset} follows offset {previous}"
                raise _corrupt(name, header.position, detail)
            found = LogBatches.of(LogBatch(header, view, start, name))
        previous, start = int(found["last_offset"][-1]), int(found["end"][-1])
        yield found


def scan_batches(
    data: Buffer, *, offset: int = 0, after: int = -1, name: str = "log"
) -> Iterator[BatchHeader]:
    """Yield the header of each batch that lies whole in a buffer: see ``scan_log``."""
    for batches in scan_log(data, offset=offset, after=after, name=name):
        for batch in batches:
            yield batch.header


def _check_fields(header: BatchHeader, name: str) -> None:
    """Check what the checksum does not: that the fields make sense together."""
    at, last_offset = header.position, header.last_offset
    codec = header.attributes & CODEC_MASK
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
