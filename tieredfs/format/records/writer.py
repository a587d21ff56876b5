"""Encode Arrow record batches as Kafka record batches of version 2.

Source: Kafka's DefaultRecordBatch and DefaultRecord; KIP-98. Java's and librdkafka's
clients can read the batches: snappy is in xerial blocks, lz4 in frames of independent
blocks.
"""

import struct
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.batch.header import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    TimestampType,
    seal_batch,
)
from tieredfs.format.buffers import Int64Array
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import MAX_DECOMPRESSED, compress
from tieredfs.format.records.encode import measure_records
from tieredfs.format.records.fields import (
    RecordFields,
    offset_column,
    payload_columns,
    timestamp_column,
)
from tieredfs.integers import MAX_INT32, MAX_INT64

__all__ = ["BatchOptions", "encode_batch"]

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_LENGTH_AT: Final = 12
_OFFSETS: Final = (
    "invalid offsets of a batch: they must strictly increase and span at most an int32"
)
_WRAP: Final = 1 << 64


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """The header fields of a batch that do not follow from its records.

    Attributes:
        codec: Codec that compresses the records.
        leader_epoch: Epoch of the leader that writes the batch; -1 for none.
        timestamp_type: LOG_APPEND_TIME gives every record the largest timestamp.
        producer_id: Id of the producer; -1 for a producer that is not idempotent.
        producer_epoch: Epoch of the producer; -1 when it is not idempotent.
        base_sequence: Sequence number of the first record; -1 when the producer is not
            idempotent.
        is_transactional: Whether the batch is part of a transaction.
        is_control: Whether the records are control records.
        delete_horizon_ms: Time from which the cleaner may drop the batch's tombstones.
    """

    codec: Codec = Codec.NONE
    leader_epoch: int = -1
    timestamp_type: TimestampType = TimestampType.CREATE_TIME
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    is_transactional: bool = False
    is_control: bool = False
    delete_horizon_ms: int | None = None

    @property
    def attributes(self) -> int:
        """The flags as stored in the header."""
        append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        return (
            int(self.codec)
            | LOG_APPEND_TIME * append_time
            | TRANSACTIONAL * self.is_transactional
            | CONTROL * self.is_control
            | DELETE_HORIZON * (self.delete_horizon_ms is not None)
        )


_PLAIN: Final = BatchOptions()


def encode_batch(
    records: pa.RecordBatch,
    options: BatchOptions | None = None,
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """Encode records as one batch.

    Args:
        records: The columns offset and timestamp (of any unit, or int64 as ms), and
            optionally key, value and headers. The offsets must strictly increase.
        options: The other fields of the batch header.
        base_offset: The batch's first offset; None for that of the first record.
        last_offset: The batch's last offset; None for that of the last record. A batch
            without records, as the log cleaner leaves behind, needs both.

    Raises:
        InvalidArgumentError: A column is missing, has another type, or has a null that
            no batch can represent; the offsets do not increase or span more than an
            int32; an option is out of range, or is NO_TIMESTAMP; a batch without
            records lacks its offsets; or the records are larger than a batch may be.
    """
    how = _PLAIN if options is None else options
    if how.timestamp_type is TimestampType.NO_TIMESTAMP:
        msg = f"{how}: NO_TIMESTAMP is not allowed in a batch of version 2"
        raise InvalidArgumentError(msg)
    offsets = offset_column(records)
    base = int(offsets[0]) if base_offset is None and len(offsets) else base_offset
    last = int(offsets[-1]) if last_offset is None and len(offsets) else last_offset
    if base is None or last is None:
        msg = "a batch without records needs base_offset and last_offset"
        raise InvalidArgumentError(msg)
    _check_offsets(base, offsets, last)
    stamps = timestamp_column(records)
    first = int(stamps[0]) if len(stamps) else -1
    if how.delete_horizon_ms is not None:
        first = how.delete_horizon_ms
    body = measure_records(
        RecordFields(
            stamps,
            offsets,
            _wrapped(first),
            base,
            *payload_columns(records, offsets),
        )
    )
    if not body.offsets_increase:
        raise InvalidArgumentError(_OFFSETS)
    if body.size > MAX_DECOMPRESSED:
        msg = (
            f"{body.size} bytes of records exceed the {MAX_DECOMPRESSED} bytes of a "
            "batch: write fewer records per batch"
        )
        raise InvalidArgumentError(msg)
    stored = (
        None if how.codec is Codec.NONE else compress(how.codec, body.encode_records())
    )
    size = body.size if stored is None else len(stored)
    try:
        header = _HEADER.pack(
            base,
            _HEADER.size - _LENGTH_AT + size,
            how.leader_epoch,
            MAGIC,
            0,  # placeholder for the checksum
            how.attributes,
            last - base,
            first,
            body.max_timestamp if len(stamps) else -1,
            how.producer_id,
            how.producer_epoch,
            how.base_sequence,
            len(offsets),
        )
    except struct.error as error:
        msg = f"{how}: {error}"
        raise InvalidArgumentError(msg) from error
    return body.encode_batch(header) if stored is None else seal_batch(header, stored)


def _check_offsets(base: int, offsets: Int64Array, last: int) -> None:
    lowest, highest = (int(offsets[at]) if len(offsets) else base for at in (0, -1))
    fits = 0 <= base <= lowest and highest <= last <= MAX_INT64
    if not fits or last - base > MAX_INT32:
        raise InvalidArgumentError(_OFFSETS)


def _wrapped(value: int) -> int:
    """Wrap like Java's long, as the reader's sum does."""
    return (value + _WRAP // 2) % _WRAP - _WRAP // 2
