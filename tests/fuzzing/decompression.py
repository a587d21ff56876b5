"""What compressed bytes hold, told without tieredfs where that is possible."""

import struct
import zlib

from fuzzing.log_model import Refused
from tieredfs.errors import CorruptBatchError
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import decompress
from tieredfs.format.compression.lz4_frames import repair_lz4_header

__all__ = ["decompressed", "gunzipped", "unlz4d", "unsnapped"]

_XERIAL = b"\x82SNAPPY\0"


def decompressed(codec: int, magic: int, data: bytes) -> bytes:
    """Decompress as tieredfs does, which its own target judges.

    Raises:
        Refused: It cannot be.
    """
    packed = repair_lz4_header(data) if codec == Codec.LZ4 and not magic else data
    try:
        return bytes(decompress(Codec(codec), packed))
    except CorruptBatchError as error:
        raise Refused from error


def gunzipped(data: bytes, limit: int) -> bytes:
    """Decompress the members of a gzip file.

    Raises:
        Refused: They are cut off or wrong, or have more than ``limit`` bytes.
    """
    out = b""
    while data:
        member = zlib.decompressobj(31)
        try:
            out += member.decompress(data, limit + 1 - len(out))
        except zlib.error as error:
            raise Refused from error
        if not member.eof or len(out) > limit:
            raise Refused
        data = member.unused_data
    return out


def unsnapped(data: bytes, limit: int) -> bytes:
    """Decompress snappy, raw or in xerial blocks.

    Raises:
        Refused: It is cut off or wrong, or has more than ``limit`` bytes.
    """
    if not data.startswith(_XERIAL):
        return _block(data, limit)
    if len(data) < 16:
        raise Refused
    out, at = b"", 16
    while at < len(data):
        if len(data) - at < 4:
            raise Refused
        (size,) = struct.unpack_from(">i", data, at)
        at += 4
        if not 0 <= size <= len(data) - at:
            raise Refused
        out += _block(data[at : at + size], limit - len(out))
        at += size
    return out


def _block(data: bytes, limit: int) -> bytes:
    """Decompress one block: literals and copies behind the size of all."""
    size, at = 0, 0
    while not at or data[at - 1] >= 0x80:
        if at >= min(5, len(data)):
            raise Refused
        size |= (data[at] & 0x7F) << 7 * at
        at += 1
    if size > limit or size >= 1 << 32:
        raise Refused
    out = bytearray()
    while at < len(data):
        tag = data[at]
        at = (_copy if tag & 3 else _literal)(data, at + 1, tag, out)
        if len(out) > size:
            raise Refused
    if len(out) != size:
        raise Refused
    return bytes(out)


def _literal(data: bytes, at: int, tag: int, out: bytearray) -> int:
    width = max((tag >> 2) - 59, 0)
    length = int.from_bytes(data[at : at + width], "little") if width else tag >> 2
    at += width
    if length >= len(data) - at:
        raise Refused
    out += data[at : at + length + 1]
    return at + length + 1


def _copy(data: bytes, at: int, tag: int, out: bytearray) -> int:
    kind, length = tag & 3, (tag >> 2) + 1
    width = (1, 2, 4)[kind - 1]
    if at + width > len(data):
        raise Refused
    back = int.from_bytes(data[at : at + width], "little")
    if kind == 1:
        back |= tag >> 5 << 8
        length = (tag >> 2 & 7) + 4
    if not 0 < back <= len(out):
        raise Refused
    for _ in range(length):
        out.append(out[-back])
    return at + width


def unlz4d(data: bytes, limit: int) -> bytes:
    """Decompress the frames of lz4, no checksum looked at.

    Raises:
        Refused: They are cut off or wrong, or have more than ``limit`` bytes.
    """
    out = bytearray()
    at = 0
    while at < len(data):
        magic, flags = struct.unpack_from("<IB", data.ljust(at + 5, b"\0"), at)
        if magic & 0xFFFFFFF0 == 0x184D2A50:  # a frame to skip
            at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
            continue
        if magic != 0x184D2204:
            raise Refused
        at += 7 + 8 * (flags >> 3 & 1) + 4 * (flags & 1)
        first = len(out)
        while True:
            if at + 4 > len(data):
                raise Refused
            (size,) = struct.unpack_from("<I", data, at)
            at += 4
            if not size:
                break
            block = data[at : at + (size & 0x7FFFFFFF)]
            at += len(block) + 4 * (flags >> 4 & 1)
            if size >> 31:
                out += block
            else:
                _lz4_block(block, out, len(out) if flags & 0x20 else first)
            if len(out) > limit:
                raise Refused
        at += 4 * (flags >> 2 & 1)
    return bytes(out)


def _lz4_block(data: bytes, out: bytearray, first: int) -> None:
    """Decompress one block behind what its copies may reach back to."""
    at = 0
    while at < len(data):
        token = data[at]
        size, at = _lz4_length(data, at + 1, token >> 4)
        if size > len(data) - at:
            raise Refused
        out += data[at : at + size]
        at += size
        if at == len(data):
            return
        if at + 2 > len(data):
            raise Refused
        back = int.from_bytes(data[at : at + 2], "little")
        size, at = _lz4_length(data, at + 2, token & 15)
        if back > len(out) - first:
            raise Refused
        for _ in range(size + 4):
            # The format forbids to reach back by 0; the reference decoder gives zeros.
            out.append(out[-back] if back else 0)
    raise Refused


def _lz4_length(data: bytes, at: int, length: int) -> tuple[int, int]:
    if length < 15:
        return length, at
    while True:
        if at >= len(data):
            raise Refused
        length += data[at]
        at += 1
        if data[at - 1] < 255:
            return length, at
