"""How a log reads: one field after the other, as the format's description has it.

It is slow, knows no numpy, and takes nothing from tieredfs but the decompression, which
is a target of its own.
"""

import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

import google_crc32c

__all__ = ["Batch", "Refused", "Row", "Unknown", "body", "records", "scan", "varint"]

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
_MESSAGE: Final = struct.Struct(">qiIbb")
_MAX: Final = (1 << 63) - 1
_WRAP: Final = 1 << 64
_LOG_APPEND_TIME: Final = 8
_LZ4: Final = 3
_ZSTD: Final = 4

Decompress = Callable[[int, int, bytes], bytes]
"""Takes codec, magic and stored bytes."""


class Refused(Exception):  # noqa: N818 - as `StopIteration`: it is an answer
    """The bytes are corrupt."""


class Unknown(Exception):  # noqa: N818 - likewise
    """The bytes are of a version that nobody reads yet."""


class Row(NamedTuple):
    """A record."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp: int
    timestamp_type: int
    headers: list[tuple[str, bytes | None]] | None


class Batch(NamedTuple):
    """The fields of a batch's header, as tieredfs has them."""

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
    magic: int


class _Message(NamedTuple):
    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: bytes | None
    value: bytes | None

    @property
    def codec(self) -> int:
        return self.attributes & 7


def scan(data: bytes, decompress: Decompress) -> Iterator[Batch]:
    """Read the headers of the whole batches of a log.

    Raises:
        Refused: One is wrong, or does not follow the one before it.
        Unknown: One has a codec that there is not.
    """
    position, previous = 0, -1
    while position + 12 <= len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        if length <= 4:
            raise Refused
        batch = data[position : position + 12 + length]
        if len(batch) < 12 + length:
            return
        if batch[16] > 2:
            raise Refused
        read = _batch if batch[16] == 2 else _wrapper
        found = read(batch, position, decompress)
        if found.base_offset <= previous:
            raise Refused
        yield found
        previous = found.last_offset
        position += len(batch)


def records(data: bytes, batch: Batch, decompress: Decompress) -> list[Row]:
    """Read the records of a batch.

    Raises:
        Refused: They are malformed.
    """
    stored = body(data, batch)
    if batch.magic < 2:
        return list(_messages(stored, batch, decompress))
    if not batch.record_count:
        return []
    codec = batch.attributes & 7
    rows = stored[_HEADER.size :]
    if codec:
        rows = decompress(codec, 2, rows)
    return list(_records(rows, batch))


def body(data: bytes, batch: Batch) -> bytes:
    """Return the bytes of a batch."""
    return data[batch.position : batch.position + batch.size]


def _batch(data: bytes, position: int, _: Decompress) -> Batch:
    if len(data) < _HEADER.size:
        raise Refused
    base, _length, epoch, _magic, crc, attributes, last, *rest = _HEADER.unpack_from(
        data
    )
    count = rest[-1]
    if google_crc32c.value(data[21:]) != crc:
        raise Refused
    if attributes & 7 > _ZSTD:
        raise Unknown
    if base < 0 or last < 0 or base + last > _MAX or epoch < -1:
        raise Refused
    if not 0 <= count <= last + 1:
        raise Refused
    if not attributes & 7 and 7 * count > len(data) - _HEADER.size:
        raise Refused
    found = (position, len(data), base, base + last, epoch, crc, attributes, *rest, 2)
    return Batch(*found)


def _records(data: bytes, batch: Batch) -> Iterator[Row]:
    by_broker = bool(batch.attributes & _LOG_APPEND_TIME)
    at, previous = 0, batch.base_offset - 1
    for _ in range(batch.record_count):
        size, at = varint(data, at, 5)
        if not 0 <= size <= len(data) - at:
            raise Refused
        record = data[at : at + size]
        at += size
        delta, place = varint(record, 1, 10)
        relative, place = varint(record, place, 5)
        key, place = _sized(record, place)
        value, place = _sized(record, place)
        many, place = varint(record, place, 5)
        if not 0 <= many <= (size - place) // 2:
            raise Refused
        headers: list[tuple[str, bytes | None]] = []
        for _header in range(many):
            name, place = _sized(record, place)
            told, place = _sized(record, place)
            if name is None:
                raise Refused
            headers.append((name.decode("utf-8", "replace"), told))
        offset = batch.base_offset + relative
        if place != size or not previous < offset <= batch.last_offset or relative < 0:
            raise Refused
        previous = offset
        stamp = (batch.base_timestamp + delta + _WRAP // 2) % _WRAP - _WRAP // 2
        stamp = batch.max_timestamp if by_broker else stamp
        yield Row(key, value, offset, stamp, int(by_broker), headers or None)
    if at != len(data):
        raise Refused


def varint(data: bytes, at: int, longest: int) -> tuple[int, int]:
    """Read a zigzag varint; return it and the position behind it.

    Raises:
        Refused: It is cut off or has more than ``longest`` bytes.
    """
    value = 0
    for index in range(longest):
        if at + index >= len(data):
            break
        byte = data[at + index]
        value |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            value &= _WRAP - 1
            return (value >> 1) ^ -(value & 1), at + index + 1
    raise Refused


def _sized(data: bytes, at: int) -> tuple[bytes | None, int]:
    size, at = varint(data, at, 5)
    if not -1 <= size <= len(data) - at:
        raise Refused
    return (None, at) if size < 0 else (data[at : at + size], at + size)


def _wrapper(data: bytes, position: int, decompress: Decompress) -> Batch:
    message = _message(data)
    if message.codec > _LZ4:
        raise Unknown
    base, count = message.offset, 1
    if message.codec:
        offsets = [inner.offset for inner in _wrapped(message, decompress)]
        count, span = len(offsets), offsets[-1] - offsets[0]
        if span > (1 << 31) - 1:
            raise Refused
        if offsets[-1] > message.offset or (
            not message.magic and offsets[-1] != message.offset
        ):
            raise Refused
        base -= span
    stamp: Any = message.timestamp
    none = (-1, -1, -1, count, message.magic)
    last, crc, flags = message.offset, message.crc, message.attributes
    return Batch(position, len(data), base, last, -1, crc, flags, stamp, stamp, *none)


def _message(data: bytes) -> _Message:
    if len(data) < _MESSAGE.size:
        raise Refused
    offset, size, crc, magic, attributes = _MESSAGE.unpack_from(data)
    if size != len(data) - 12 or zlib.crc32(data[16:]) != crc:
        raise Refused
    if magic not in {0, 1} or offset < 0:
        raise Refused
    attributes &= 15 if magic else 7
    at, stamp = 18, -1
    if magic:
        if len(data) < 26:
            raise Refused
        (stamp,) = struct.unpack_from(">q", data, 18)
        at = 26
    payloads: list[bytes | None] = []
    for _ in range(2):
        if len(data) < at + 4:
            raise Refused
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if not -1 <= size <= len(data) - at:
            raise Refused
        payloads.append(None if size < 0 else data[at : at + size])
        at += max(size, 0)
    if at != len(data):
        raise Refused
    return _Message(offset, crc, magic, attributes, stamp, payloads[0], payloads[1])


def _wrapped(wrapper: _Message, decompress: Decompress) -> list[_Message]:
    if wrapper.value is None:
        raise Refused
    data = decompress(wrapper.codec, wrapper.magic, wrapper.value)
    found: list[_Message] = []
    at = 0
    while at < len(data):
        if len(data) - at < 12:
            raise Refused
        (size,) = struct.unpack_from(">i", data, at + 8)
        if size < 0:
            raise Refused
        inner = _message(data[at : at + 12 + size])
        if inner.magic != wrapper.magic or inner.codec:
            raise Refused
        if found and inner.offset <= found[-1].offset:
            raise Refused
        found.append(inner)
        at += 12 + size
    if not found:
        raise Refused
    return found


def _messages(data: bytes, batch: Batch, decompress: Decompress) -> Iterator[Row]:
    message = _message(data)
    inside = _wrapped(message, decompress) if message.codec else [message]
    by_broker = bool(message.attributes & _LOG_APPEND_TIME)
    kind = int(by_broker) if message.magic else -1
    for inner in inside:
        offset = batch.base_offset + inner.offset - inside[0].offset
        stamp = message.timestamp if by_broker else inner.timestamp
        yield Row(inner.key, inner.value, offset, stamp, kind, None)
