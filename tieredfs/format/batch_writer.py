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

import google_crc32c
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
from tieredfs.format.codecs import compress
from tieredfs.format.varints import encode_varint

__all__ = ["BatchOptions", "encode_batch"]

_MAGIC: Final = 2
_PREFIX: Final = struct.Struct(">qiibI")
_CHECKED: Final = struct.Struct(">hiqqqhii")
_LENGTH_AT: Final = 12
_MAX_INT32: Final = (1 << 31) - 1
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
        records: The columns offset and timestamp (ms, or int64), and key, value and
            headers where there are any; offsets rise strictly.
        options: What the batch says beside them.
        base_offset: The batch's first offset; None for that of the first record.
        last_offset: The batch's last offset; None for that of the last record. A batch
            without records needs both, as the cleaner leaves them behind.

    Raises:
        InvalidArgumentError: Offsets do not rise or span more than an int32, a header
            has no key, or a batch without records lacks its offsets.
    """
    how = BatchOptions() if options is None else options
    offsets: list[int] = records["offset"].to_pylist()
    base = offsets[0] if base_offset is None and offsets else base_offset
    last = offsets[-1] if last_offset is None and offsets else last_offset
    if base is None or last is None:
        raise InvalidArgumentError("a batch without records needs its offsets")
    _check_offsets([base - 1, *offsets, last + 1])
    stamps: list[int] = records["timestamp"].cast(pa.int64()).to_pylist()
    largest = max(stamps, default=-1)
    first = stamps[0] if stamps else -1
    if how.delete_horizon_ms is not None:
        first = how.delete_horizon_ms
    body = b"".join(_records(records, base, first, offsets, stamps))
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
    crc = google_crc32c.value(checked)
    return _PREFIX.pack(base, length, how.leader_epoch, _MAGIC, crc) + checked


def _check_offsets(offsets: Sequence[int]) -> None:
    """Check offsets with the batch's own bounds, each one step out, around them."""
    if len(offsets) > 2:  # noqa: PLR2004 - more than the bounds
        rising = all(a < b for a, b in pairwise(offsets))
    else:
        rising = offsets[0] + 1 < offsets[1]
    if not rising or offsets[0] < -1 or offsets[-1] - offsets[0] - 2 > _MAX_INT32:
        raise InvalidArgumentError("the offsets of a batch must rise within an int32")


def _records(
    records: pa.RecordBatch,
    base: int,
    first: int,
    offsets: Sequence[int],
    stamps: Sequence[int],
) -> Iterator[bytes]:
    count = len(offsets)
    keys = _column(records, "key", count)
    values = _column(records, "value", count)
    headers = _column(records, "headers", count)
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
            if header["key"] is None:
                raise InvalidArgumentError(f"offset {offset}: a header has no key")
            _write_bytes(record, header["key"].encode())
            _write_bytes(record, header["value"])
        yield encode_varint(record.tell())
        yield record.getvalue()


def _column(records: pa.RecordBatch, name: str, count: int) -> list[Any]:
    if name not in records.schema.names:
        return [None] * count
    values: list[Any] = records[name].to_pylist()
    return values


def _write_bytes(out: io.BytesIO, data: bytes | None) -> None:
    if data is None:
        out.write(_NULL)
    else:
        out.write(encode_varint(len(data)))
        out.write(data)
