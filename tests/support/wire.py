"""Write batches and older messages for tests: a simple model of what parsers read.

Written from the format's description alone, one field after the other, and shares no
code with tieredfs, so that a mistake there cannot cancel out here. It writes whatever
it is told to, wrong things included.
"""

import gzip
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import google_crc32c
import pyarrow as pa

__all__ = [
    "CODECS",
    "CONTROL",
    "LOG_APPEND_TIME",
    "WireRecord",
    "encode_batch",
    "encode_message",
    "encode_record",
    "encode_varint",
    "encode_wrapper",
    "frame",
    "seal",
    "seal_message",
    "xerial",
]

LOG_APPEND_TIME = 0x08
CONTROL = 0x20

_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC = struct.Struct(">I")
_CRC_AT = 17
_CRC_END = 21
_XERIAL_BLOCK = 32 << 10
_MASK = (1 << 64) - 1
_SIGN = 1 << 63


@dataclass(frozen=True, slots=True)
class WireRecord:
    """A record as it is written; ``headers`` have bytes as keys."""

    offset: int
    timestamp: int
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


def encode_varint(value: int) -> bytes:
    """Write a zigzag varint of up to 64 bits."""
    rest = ((value << 1) ^ (value >> 63)) & _MASK
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def frame(body: bytes) -> bytes:
    """Put the length of a record in front of it."""
    return encode_varint(len(body)) + body


def encode_record(record: WireRecord, base_offset: int, base_timestamp: int) -> bytes:
    """Write a record relative to its batch, the timestamp wrapping like Java's long."""
    delta = (record.timestamp - base_timestamp + _SIGN & _MASK) - _SIGN
    body = b"\0" + encode_varint(delta) + encode_varint(record.offset - base_offset)
    body += _payload(record.key) + _payload(record.value)
    body += encode_varint(len(record.headers))
    for key, value in record.headers:
        body += _payload(key) + _payload(value)
    return frame(body)


def encode_batch(
    records: Sequence[WireRecord] = (),
    *,
    codec: str = "none",
    payload: bytes | None = None,
    attributes: int = 0,
    **fields: int,
) -> bytes:
    """Write a batch.

    Args:
        records: What is in it.
        codec: A key of ``CODECS``.
        payload: The stored bytes of the records, in place of those of ``records``.
        attributes: Flags beside the codec.
        fields: Header fields that are not to follow from the records.
    """
    first = records[0] if records else WireRecord(0, 0)
    last = records[-1] if records else first
    base_offset = fields.pop("base_offset", first.offset)
    base_timestamp = fields.pop("base_timestamp", first.timestamp)
    if payload is None:
        parts = (encode_record(r, base_offset, base_timestamp) for r in records)
        payload = CODECS[codec].compress(b"".join(parts))
    batch = bytearray(
        _HEADER.pack(
            base_offset,
            fields.pop("length", _HEADER.size + len(payload) - 12),
            fields.pop("leader_epoch", 0),
            fields.pop("magic", 2),
            0,
            CODECS[codec].number | attributes,
            fields.pop("last_offset", last.offset) - base_offset,
            base_timestamp,
            fields.pop(
                "max_timestamp", max((r.timestamp for r in records), default=-1)
            ),
            fields.pop("producer_id", -1),
            fields.pop("producer_epoch", -1),
            fields.pop("base_sequence", -1),
            fields.pop("count", len(records)),
        )
    )
    assert not fields, f"no fields of a batch: {fields}"
    return seal(batch + payload)


def seal(batch: bytearray) -> bytes:
    """Make the checksum of a batch right again."""
    crc = google_crc32c.value(bytes(batch[_CRC_END:]))
    batch[_CRC_AT:_CRC_END] = _CRC.pack(crc)
    return bytes(batch)


def encode_message(record: WireRecord, magic: int, attributes: int = 0) -> bytes:
    """Write a message of version 0 or 1."""
    body = struct.pack(">bb", magic, attributes)
    body += struct.pack(">q", record.timestamp) if magic else b""
    for payload in (record.key, record.value):
        body += struct.pack(">i", -1 if payload is None else len(payload))
        body += payload or b""
    message = struct.pack(">qiI", record.offset, 4 + len(body), 0) + body
    return seal_message(bytearray(message))


def encode_wrapper(
    records: Sequence[WireRecord],
    magic: int,
    codec: str = "gzip",
    *,
    inside: bytes | None = None,
    attributes: int = 0,
    offset: int | None = None,
    timestamp: int | None = None,
) -> bytes:
    """Write a compressed message that wraps others of its version.

    Args:
        records: What is in it.
        magic: The version.
        codec: A key of ``CODECS``.
        inside: The messages before compression, in place of those of ``records``.
        attributes: Flags beside the codec.
        offset: Its own, in place of that of the last record.
        timestamp: Its own, in place of the largest of the records.
    """
    if inside is None:
        first = records[0].offset if magic else 0
        inside = b"".join(
            encode_message(replace(r, offset=r.offset - first), magic) for r in records
        )
    if offset is None:
        offset = records[-1].offset if records else 0
    if timestamp is None:
        timestamp = max((r.timestamp for r in records), default=-1)
    packed = CODECS[codec].compress(inside)
    wrapper = WireRecord(offset, timestamp, None, packed)
    return encode_message(wrapper, magic, CODECS[codec].number | attributes)


def seal_message(message: bytearray) -> bytes:
    """Make the checksum of a message right again."""
    message[12:16] = _CRC.pack(zlib.crc32(message[16:]))
    return bytes(message)


def xerial(data: bytes, block: int = _XERIAL_BLOCK) -> bytes:
    """Compress as Java does: blocks of snappy behind a header of their own."""
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block):
        piece = _raw_snappy(data[start : start + block])
        out += struct.pack(">i", len(piece)) + piece
    return out


@dataclass(frozen=True, slots=True)
class _Codec:
    number: int
    compress: Any


def _payload(value: bytes | None) -> bytes:
    return encode_varint(-1) if value is None else encode_varint(len(value)) + value


def _plain(data: bytes) -> bytes:
    return data


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def _raw_snappy(data: bytes) -> bytes:
    compressed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return compressed


def _lz4(data: bytes) -> bytes:
    return _streamed(data, "lz4")


def _zstd(data: bytes) -> bytes:
    return _streamed(data, "zstd")


def _streamed(data: bytes, codec: str) -> bytes:
    """Compress without writing the size of the content, as Kafka's clients do."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        for start in range(0, len(data), 1 << 20):
            stream.write(data[start : start + (1 << 20)])
    compressed: bytes = sink.getvalue().to_pybytes()
    return compressed


CODECS = {
    "none": _Codec(0, _plain),
    "gzip": _Codec(1, _gzip),
    "snappy": _Codec(2, xerial),
    "snappy-raw": _Codec(2, _raw_snappy),
    "lz4": _Codec(3, _lz4),
    "zstd": _Codec(4, _zstd),
}
"""The codecs, snappy in both framings."""
