"""Messages of version 0 and 1, as Kafka wrote them before 0.11, read as batches.

A message is a batch of one record; a compressed one wraps messages of its own version,
and is a batch of those. Source: Kafka's LegacyRecord and AbstractLegacyRecordBatch;
KIP-31 (relative offsets), KIP-32 (timestamps). All integers are big-endian. The
checksum is CRC-32 over everything after it; offset and size before it are covered by
none. A wrapper has the offset of its last message. The offsets inside are absolute in
version 0, and relative to one another in version 1.
"""

import io
import struct
import zlib
from collections.abc import Iterator
from typing import Final, NamedTuple

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import CorruptBatchError, UnsupportedFormatError
from tieredfs.format.batch.header import CODEC_MASK, LOG_APPEND_TIME, BatchHeader
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.codecs import MAX_DECOMPRESSED, decompress
from tieredfs.format.compression.lz4_frames import mend_lz4_header
from tieredfs.format.varints import encode_varint

__all__ = ["read_message_header", "upgraded_records"]

_PREFIX = struct.Struct(">qiIbb")  # offset, size, CRC, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_SIZE_END: Final = 12
_CRC_END: Final = 16
_FLAGS: Final = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME)  # by version
_MAX_INT32: Final = (1 << 31) - 1
_WRAP: Final = 1 << 64
_NULL: Final = encode_varint(-1)


class _Message(NamedTuple):
    """One message, its checksum true; key and value are null when None."""

    offset: int
    crc: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


def read_message_header(
    data: Buffer, position: int, *, name: str = "log"
) -> BatchHeader:
    """Read and check a message and, when it is compressed, those that it wraps.

    A wrapper is decompressed for it: only what is inside says where its offsets begin.

    Args:
        data: The bytes of the message, neither more nor less.
        position: Of its first byte in the log.
        name: How to call the log in an error.

    Returns:
        The header of a batch, with -1 for what these versions do not have.

    Raises:
        CorruptBatchError: It or a message inside is cut off, fails its checksum, or has
            a field outside its range; it wraps none, or one that is compressed again or
            of another version; or more than 256 MiB are in it.
        UnsupportedFormatError: Its codec is not one that these versions have.
    """
    where = f"{name}: batch at position {position}"
    view = byte_view(data)
    message = _parse(view, where)
    codec = message.attributes & CODEC_MASK
    if codec > Codec.LZ4:
        msg = f"{name}: unknown compression codec {codec} at position {position}"
        raise UnsupportedFormatError(msg)
    base, count = message.offset, 1
    if codec != Codec.NONE:
        base, count = _span(message, where)
    return BatchHeader(
        position,
        len(view),
        base,
        message.offset,
        NO_EPOCH,
        message.crc,
        message.attributes,
        message.timestamp,
        message.timestamp,
        -1,
        -1,
        -1,
        count,
        message.magic,
    )


def upgraded_records(
    data: Buffer,
    header: BatchHeader,
    *,
    name: str,
    limit: int = MAX_DECOMPRESSED,
    limit_name: str | None = None,
) -> memoryview:
    """Return the records of a message as a batch of version 2 has them, uncompressed.

    They take no more bytes than the messages did.

    Args:
        data: The bytes of the message, neither more nor less.
        header: What ``read_message_header`` says of it.
        name: How to call the batch in an error.
        limit: Most bytes that the messages in it may take; 256 MiB is also the most
            that a header is read of.
        limit_name: As ``decompress`` takes it.

    Raises:
        CorruptBatchError: The bytes are no longer those that the header was read from,
            or decompress to more.
    """
    message = _parse(byte_view(data), name)
    out = io.BytesIO()
    first: int | None = None
    is_plain = header.codec is Codec.NONE
    inside = [message] if is_plain else _inner(message, name, limit, limit_name)
    for inner in inside:
        first = inner.offset if first is None else first
        # A reader gives every record the timestamp of the batch if the broker set it.
        delta = (inner.timestamp - header.base_timestamp + _WRAP // 2) % _WRAP
        head = b"\0" + encode_varint(delta - _WRAP // 2)
        head += encode_varint(inner.offset - first)
        key, value = _sized(inner.key), _sized(inner.value)
        size = len(head) + sum(map(len, key)) + sum(map(len, value)) + 1
        # The last byte is the number of headers.
        out.writelines((encode_varint(size), head, *key, *value, b"\0"))
    return memoryview(out.getvalue())


def _parse(view: memoryview, where: str) -> _Message:
    """Read a message that fills ``view``."""
    if len(view) < _PREFIX.size:
        raise CorruptBatchError(f"{where}: {len(view)} bytes are no message")
    offset, size, crc, magic, attributes = _PREFIX.unpack_from(view)
    if size != len(view) - _SIZE_END:
        raise CorruptBatchError(f"{where}: a message of {size} bytes is cut off")
    actual = zlib.crc32(view[_CRC_END:])
    if actual != crc:
        msg = f"{where}: CRC-32 is {actual:#010x}, stored is {crc:#010x}"
        raise CorruptBatchError(msg)
    if magic not in {0, 1}:
        raise CorruptBatchError(f"{where}: magic {magic} in a message set")
    if offset < 0:
        raise CorruptBatchError(f"{where}: offset {offset}")
    rest, timestamp = view[_PREFIX.size :], -1
    if magic:
        if len(rest) < _TIMESTAMP.size:
            raise CorruptBatchError(f"{where}: a message ends in its timestamp")
        (timestamp,) = _TIMESTAMP.unpack_from(rest)
        rest = rest[_TIMESTAMP.size :]
    key, rest = _payload(rest, where)
    value, rest = _payload(rest, where)
    if rest:
        raise CorruptBatchError(f"{where}: a message is not filled by its fields")
    flags = attributes & _FLAGS[magic]
    return _Message(offset, crc, magic, flags, timestamp, key, value)


def _payload(view: memoryview, where: str) -> tuple[memoryview | None, memoryview]:
    """Read a key or value, and return what is behind it."""
    length = _LENGTH.unpack_from(view)[0] if len(view) >= _LENGTH.size else None
    if length is None or not -1 <= length <= len(view) - _LENGTH.size:
        raise CorruptBatchError(f"{where}: a length of {length} does not fit")
    rest = view[_LENGTH.size :]
    return (None, rest) if length < 0 else (rest[:length], rest[length:])


def _inner(
    wrapper: _Message,
    where: str,
    limit: int = MAX_DECOMPRESSED,
    limit_name: str | None = None,
) -> Iterator[_Message]:
    """Read the messages that a compressed one wraps, their offsets as stored."""
    if wrapper.value is None:
        raise CorruptBatchError(f"{where}: a compressed message has no value")
    codec, packed = Codec(wrapper.attributes & CODEC_MASK), wrapper.value
    if codec is Codec.LZ4 and wrapper.magic == 0:
        packed = memoryview(mend_lz4_header(packed))
    data = decompress(codec, packed, limit=limit, name=where, limit_name=limit_name)
    position, previous = 0, -1
    while position < len(data):
        end = position + _SIZE_END
        if end <= len(data):
            end += max(0, _LENGTH.unpack_from(data, position + 8)[0])
        inner = _parse(data[position:end], where)
        if inner.magic != wrapper.magic:
            msg = f"{where}: magic {inner.magic} inside magic {wrapper.magic}"
            raise CorruptBatchError(msg)
        if inner.attributes & CODEC_MASK:
            raise CorruptBatchError(f"{where}: a compressed message in another")
        if inner.offset <= previous:
            raise CorruptBatchError(f"{where}: offsets do not rise")
        yield inner
        position, previous = end, inner.offset


def _span(wrapper: _Message, where: str) -> tuple[int, int]:
    """Return the first offset inside a wrapper, and how many messages there are."""
    first, last, count = -1, -1, 0
    for inner in _inner(wrapper, where):
        first = inner.offset if first < 0 else first
        last, count = inner.offset, count + 1
    if not count:
        raise CorruptBatchError(f"{where}: a compressed message wraps none")
    if last - first > _MAX_INT32:
        raise CorruptBatchError(f"{where}: offsets {first} to {last}")
    # Brokers give a wrapper the offset of its last message, and so do their cleaners.
    # In version 1 the last offset inside is then at most as large.
    wrong = last > wrapper.offset if wrapper.magic else last != wrapper.offset
    if wrong:
        msg = f"{where}: offset {last} inside a message of offset {wrapper.offset}"
        raise CorruptBatchError(msg)
    return wrapper.offset - (last - first), count


def _sized(payload: memoryview | None) -> tuple[bytes | memoryview, ...]:
    if payload is None:
        return (_NULL,)
    return encode_varint(len(payload)), payload
