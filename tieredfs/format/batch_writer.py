"""Arrow → record batches, version 2.

Source: Kafka's DefaultRecordBatch and DefaultRecord; KIP-98. What is written is what
Java's and librdkafka's clients can read: snappy in xerial blocks, lz4 in frames of
independent blocks.
"""

import io
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    Codec,
    TimestampType,
)
from tieredfs.format.checksum import crc32c
from tieredfs.format.codecs import MAX_DECOMPRESSED, compress
from tieredfs.format.schema import HEADERS
from tieredfs.format.varints import encode_varint

__all__ = ["BatchOptions", "encode_batch"]

_MAGIC: Final = 2
_PREFIX: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_LENGTH_AT: Final = 12
_MAX_INT32: Final = (1 << 31) - 1
_MAX_OFFSET: Final = (1 << 63) - 1
_WRAP: Final = 1 << 64
_NULL: Final = encode_varint(-1)


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What a batch says beside its records.

    Attributes:
        codec: How the records are compressed.
        leader_epoch: Of the leader that writes it; -1 for none.
        timestamp_type: LOG_APPEND_TIME gives every record the largest timestamp.
        producer_id: -1 for a producer that is not idempotent.
        producer_epoch: -1 likewise.
        base_sequence: Of the first record; -1 likewise.
        is_transactional: Whether it is part of a transaction.
        is_control: Whether its records are control records.
        delete_horizon_ms: When the cleaner may drop its tombstones.
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
        """The flags as they are stored."""
        append_time = self.timestamp_type is TimestampType.LOG_APPEND_TIME
        return (
            int(self.codec)
            | LOG_APPEND_TIME * append_time
            | TRANSACTIONAL * self.is_transactional
            | CONTROL * self.is_control
            | DELETE_HORIZON * (self.delete_horizon_ms is not None)
        )


def encode_batch(
    records: pa.RecordBatch,
    options: BatchOptions | None = None,
    *,
    base_offset: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """Write records as one batch.

    Args:
        records: The columns offset and timestamp (of any unit, or int64 as ms), and
            key, value and headers where there are any; offsets rise strictly.
        options: What the batch says beside them.
        base_offset: The batch's first offset; None for that of the first record.
        last_offset: The batch's last offset; None for that of the last record. A batch
            without records needs both, as the cleaner leaves them behind.

    Raises:
        InvalidArgumentError: A column is missing, has another type or a null that no
            batch can hold; offsets do not rise or span more than an int32; an option
            is outside its range, or says that there are no timestamps; a batch without
            records lacks its offsets; or the records have more bytes than a batch may
            have.
    """
    how = BatchOptions() if options is None else options
    if how.timestamp_type is TimestampType.NO_TIMESTAMP:
        raise InvalidArgumentError(f"{how}: version 2 has timestamps")
    offsets: list[int] = _column(records, "offset", pa.int64())
    base = offsets[0] if base_offset is None and offsets else base_offset
    last = offsets[-1] if last_offset is None and offsets else last_offset
    if base is None or last is None:
        raise InvalidArgumentError("a batch without records needs its offsets")
    _check_offsets(base, offsets, last)
    stamps = _timestamps(records)
    largest = max(stamps, default=-1)
    first = stamps[0] if stamps else -1
    if how.delete_horizon_ms is not None:
        first = how.delete_horizon_ms
    body = b"".join(_records(records, base, first, offsets, stamps))
    if len(body) > MAX_DECOMPRESSED:
        msg = f"{len(body)} bytes of records are more than a batch may have"
        raise InvalidArgumentError(msg)
    try:
        checked = _CHECKED.pack(
            how.attributes,
            last - base,
            first,
            largest,
            how.producer_id,
            how.producer_epoch,
            how.base_sequence,
            len(offsets),
        ) + compress(how.codec, body)
        length = _PREFIX.size - _LENGTH_AT + len(checked)
        crc = crc32c(checked)
        return _PREFIX.pack(base, length, how.leader_epoch, _MAGIC, crc) + checked
    except struct.error as error:
        msg = f"{how}: {error}"
        raise InvalidArgumentError(msg) from error


def _check_offsets(base: int, offsets: Sequence[int], last: int) -> None:
    rising = all(a < b for a, b in pairwise([base - 1, *offsets]))
    fits = 0 <= base <= max(offsets[-1:], default=base) <= last <= _MAX_OFFSET
    if not rising or not fits or last - base > _MAX_INT32:
        raise InvalidArgumentError("the offsets of a batch must rise within an int32")


def _records(
    records: pa.RecordBatch,
    base: int,
    first: int,
    offsets: Sequence[int],
    stamps: Sequence[int],
) -> Iterator[bytes]:
    keys = _optional(records, "key", pa.binary())
    values = _optional(records, "value", pa.binary())
    headers = _optional(records, "headers", HEADERS)
    for offset, stamp, key, value, named in zip(
        offsets, stamps, keys, values, headers, strict=True
    ):
        # Java's long wraps, and so does the reader's sum.
        delta = (stamp - first + _WRAP // 2) % _WRAP - _WRAP // 2
        record = io.BytesIO()
        record.write(b"\0")
        record.write(encode_varint(delta))
        record.write(encode_varint(offset - base))
        _write_bytes(record, key)
        _write_bytes(record, value)
        record.write(encode_varint(len(named or ())))
        for header in named or ():
            if header is None or header["key"] is None:
                raise InvalidArgumentError(f"offset {offset}: a header has no key")
            _write_bytes(record, header["key"].encode())
            _write_bytes(record, header["value"])
        yield encode_varint(record.tell())
        yield record.getvalue()


def _timestamps(records: pa.RecordBatch) -> list[int]:
    kind: pa.DataType = pa.int64()
    if "timestamp" in records.schema.names:
        held = records.schema.field("timestamp").type
        kind = pa.timestamp("ms", held.tz) if pa.types.is_timestamp(held) else kind
    return _column(records, "timestamp", kind, then=pa.int64())


def _column(
    records: pa.RecordBatch,
    name: str,
    kind: pa.DataType,
    *,
    then: pa.DataType | None = None,
) -> list[Any]:
    """Return a column that must be there, without a null."""
    if name not in records.schema.names or records[name].null_count:
        msg = f"column {name}: every record needs one"
        raise InvalidArgumentError(msg)
    values: list[Any] = _cast(records, name, kind).cast(then or kind).to_pylist()
    return values


def _optional(records: pa.RecordBatch, name: str, kind: pa.DataType) -> list[Any]:
    if name not in records.schema.names:
        return [None] * records.num_rows
    values: list[Any] = _cast(records, name, kind).to_pylist()
    return values


def _cast(records: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    try:
        return records[name].cast(kind)
    except pa.ArrowException as error:
        msg = f"column {name}: {error}"
        raise InvalidArgumentError(msg) from error


def _write_bytes(out: io.BytesIO, data: bytes | None) -> None:
    if data is None:
        out.write(_NULL)
    else:
        out.write(encode_varint(len(data)))
        out.write(data)
