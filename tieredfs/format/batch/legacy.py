"""Read messages of version 0 and 1, as Kafka wrote them before 0.11, as batches.

A message is read as a batch of one record. A compressed message wraps messages of its
own version, and is read as a batch of those. Source: Kafka's LegacyRecord and
AbstractLegacyRecordBatch; KIP-31 (relative offsets), KIP-32 (timestamps). All integers
are big-endian. The checksum is CRC-32 over everything after it; no checksum covers the
offset and the size before it. A wrapper has the offset of its last message. The offsets
inside are absolute in version 0, and relative to one another in version 1.
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
from tieredfs.format.compression.compress import MAX_DECOMPRESSED, decompress
from tieredfs.format.compression.lz4_frames import repair_lz4_header
from tieredfs.format.varints import encode_varint
from tieredfs.integers import MAX_INT32

__all__ = ["read_message_header", "upgraded_records"]

_PREFIX = struct.Struct(">qiIbb")  # offset, size, CRC, magic, attributes
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_SIZE_END: Final = 12
_CRC_END: Final = 16
_FLAGS: Final = (CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME)  # by version
_WRAP: Final = 1 << 64
_NULL: Final = encode_varint(-1)


class _Message(NamedTuple):
    """One message whose checksum matches; key and value are null when None."""

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
    """Read and check a message and, when it is compressed, the messages inside.

    A wrapper is decompressed to find its first offset, which only the messages inside
    give.

    Args:
        data: The bytes of the message, exactly.
        position: Position of its first byte in the log.
        name: Log name used in error messages.

    Returns:
        The header as that of a batch, with -1 for fields that these versions lack.

    Raises:
        CorruptBatchError: The message or a message inside is cut off, fails its
            checksum, or has a field outside its range; the wrapper contains no message,
            a message that is compressed again, or a message of another version; or it
            decompresses to more than 256 MiB.
        UnsupportedFormatError: These versions do not have the codec.
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
    """Convert the records of a message to those of a version 2 batch, uncompressed.

    The result is no larger than the messages.

    Args:
        data: The bytes of the message, exactly.
        header: The header that ``read_message_header`` returned for it.
        name: Batch name used in error messages.
        limit: Maximum size of the messages inside, decompressed, in bytes. Reading the
            header applies a limit of 256 MiB of its own.
        limit_name: Option to raise to read more; see ``decompress``.

    Raises:
        CorruptBatchError: The bytes are not those that the header was read from, or
            decompress to more than ``limit`` bytes.
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
        msg = f"{where}: {len(view)} bytes are too few for a message"
        raise CorruptBatchError(msg)
    offset, size, crc, magic, attributes = _PREFIX.unpack_from(view)
    if size != len(view) - _SIZE_END:
        raise CorruptBatchError(f"{where}: a message of {size} bytes is cut off")
    computed = zlib.crc32(view[_CRC_END:])
    if computed != crc:
        msg = (
            f"{where}: CRC-32 does not match: stored {crc:#010x}, "
            f"computed {computed:#010x}"
        )
        raise CorruptBatchError(msg)
    if magic not in {0, 1}:
        raise CorruptBatchError(f"{where}: magic {magic} in a message set")
    if offset < 0:
        raise CorruptBatchError(f"{where}: negative offset: {offset}")
    rest, timestamp = view[_PREFIX.size :], -1
    if magic:
        if len(rest) < _TIMESTAMP.size:
            raise CorruptBatchError(f"{where}: a message is cut off in its timestamp")
        (timestamp,) = _TIMESTAMP.unpack_from(rest)
        rest = rest[_TIMESTAMP.size :]
    key, rest = _payload(rest, where)
    value, rest = _payload(rest, where)
    if rest:
        msg = f"{where}: {len(rest)} bytes follow the last field of a message"
        raise CorruptBatchError(msg)
    flags = attributes & _FLAGS[magic]
    return _Message(offset, crc, magic, flags, timestamp, key, value)


def _payload(view: memoryview, where: str) -> tuple[memoryview | None, memoryview]:
    """Read a key or value; return it and the bytes after it."""
    length = _LENGTH.unpack_from(view)[0] if len(view) >= _LENGTH.size else None
    if length is None or not -1 <= length <= len(view) - _LENGTH.size:
        msg = f"{where}: a length of {length} does not fit the message"
        raise CorruptBatchError(msg)
    rest = view[_LENGTH.size :]
    return (None, rest) if length < 0 else (rest[:length], rest[length:])


def _inner(
    wrapper: _Message,
    where: str,
    limit: int = MAX_DECOMPRESSED,
    limit_name: str | None = None,
) -> Iterator[_Message]:
    """Yield the messages inside a compressed one, with their offsets as stored."""
    if wrapper.value is None:
        raise CorruptBatchError(f"{where}: a compressed message has no value")
    codec, packed = Codec(wrapper.attributes & CODEC_MASK), wrapper.value
    if codec is Codec.LZ4 and wrapper.magic == 0:
        packed = memoryview(repair_lz4_header(packed))
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
            msg = f"{where}: a compressed message inside a compressed message"
            raise CorruptBatchError(msg)
        if inner.offset <= previous:
            raise CorruptBatchError(f"{where}: offsets do not increase")
        yield inner
        position, previous = end, inner.offset


def _span(wrapper: _Message, where: str) -> tuple[int, int]:
    """Return the first offset inside a wrapper, and the number of messages."""
    first, last, count = -1, -1, 0
    for inner in _inner(wrapper, where):
        first = inner.offset if first < 0 else first
        last, count = inner.offset, count + 1
    if not count:
        raise CorruptBatchError(f"{where}: a compressed message contains no messages")
    if last - first > MAX_INT32:
        msg = f"{where}: offsets {first} to {last} span more than an int32"
        raise CorruptBatchError(msg)
    # Brokers and their cleaners give a wrapper the offset of its last message. In
    # version 1 the last offset inside is relative, and so at most as large.
    wrong = last > wrapper.offset if wrapper.magic else last != wrapper.offset
    if wrong:
        msg = f"{where}: offset {last} inside a message of offset {wrapper.offset}"
        raise CorruptBatchError(msg)
    return wrapper.offset - (last - first), count


def _sized(payload: memoryview | None) -> tuple[bytes | memoryview, ...]:
    if payload is None:
        return (_NULL,)
    return encode_varint(len(payload)), payload
