"""The file in which the indexes of one segment are kept: bytes in, values out.

::

    magic "TFSINDEX" · u32 version · u32 sections · u64 size of the file
    32 bytes: whose indexes these are
    for each section: u32 kind · u32 CRC-32C · u64 position · u64 length
    u32 CRC-32C of all before it
    the sections, each where its position says, with zeros up to a multiple of 8

All numbers are little-endian. A kind is an index, or what the layout wants to see
again. A file is private to its cache: what cannot be read is fetched anew, so no
version but the newest is understood.
"""

from collections.abc import Sequence
from itertools import accumulate
from struct import Struct
from typing import Final

from tieredfs.format.buffers import Buffer
from tieredfs.format.checksum import crc32c
from tieredfs.model import IndexType, SegmentIndexes

__all__ = ["InvalidEntryError", "decode_entry", "encode_entry", "entry_identity"]

_MAGIC = b"TFSINDEX"
_VERSION = 1
_HEADER = Struct("<8sIIQ32s")
_SECTION = Struct("<IIQQ")
_CRC = Struct("<I")
_ALIGNMENT = 8

# Never renumbered: a file may be older than the program.
_KINDS: Final = {
    1: IndexType.OFFSET,
    2: IndexType.TIMESTAMP,
    3: IndexType.PRODUCER_SNAPSHOT,
    4: IndexType.LEADER_EPOCH,
    5: IndexType.TRANSACTION,
}
_LAYOUT: Final = 100
_MAX_SECTIONS: Final = len(_KINDS) + 1


class InvalidEntryError(Exception):
    """A file is not what was written; it says what is wrong with it."""


def encode_entry(identity: bytes, found: SegmentIndexes) -> list[Buffer]:
    """Return the pieces of a file, in order.

    Args:
        identity: 32 bytes that name the store and the segment.
        found: The indexes; an empty layout takes no section.
    """
    parts: list[tuple[int, Buffer]] = [
        (kind, found[index_type])
        for kind, index_type in _KINDS.items()
        if index_type in found
    ]
    if found.layout:
        parts.append((_LAYOUT, found.layout))
    sizes = [memoryview(data).nbytes for _, data in parts]
    first = _round_up(_HEADER.size + len(parts) * _SECTION.size + _CRC.size)
    ends = list(accumulate(map(_round_up, sizes), initial=first))
    head = _HEADER.pack(_MAGIC, _VERSION, len(parts), ends[-1], identity)
    for (kind, data), size, position in zip(parts, sizes, ends, strict=False):
        head += _SECTION.pack(kind, crc32c(data), position, size)
    head += _CRC.pack(crc32c(head))
    pieces: list[Buffer] = [head, bytes(first - len(head))]
    for (_, data), size in zip(parts, sizes, strict=True):
        pieces += [data, bytes(_round_up(size) - size)]
    return pieces


def entry_identity(data: memoryview) -> bytes:
    """Return what a file says that it is; nothing of it is checked.

    Raises:
        InvalidEntryError: It is too short to say anything.
    """
    if len(data) < _HEADER.size:
        msg = f"{len(data)} bytes are too few"
        raise InvalidEntryError(msg)
    found: bytes = _HEADER.unpack_from(data)[-1]
    return found


def decode_entry(data: memoryview, identity: bytes) -> SegmentIndexes:
    """Check every byte of a file, and return views of what is in it.

    Args:
        data: The whole file, read-only.
        identity: What the file has to say that it is.

    Raises:
        InvalidEntryError: It is not what ``encode_entry`` gave, whole and unchanged.
    """
    sections = _sections(data, identity)
    found: dict[IndexType, memoryview] = {}
    layout = b""
    end = _HEADER.size + len(sections) * _SECTION.size + _CRC.size
    end = _padded(data, end)
    before = 0
    for kind, crc, position, length in sections:
        if kind <= before:
            msg = f"section {kind} comes after section {before}"
            raise InvalidEntryError(msg)
        before = kind
        if position != end or position + length > len(data):
            msg = f"section {kind} lies at [{position}, {position + length})"
            raise InvalidEntryError(msg)
        section = data[position : position + length]
        if crc32c(section) != crc:
            msg = f"section {kind} fails its checksum"
            raise InvalidEntryError(msg)
        if kind == _LAYOUT:
            layout = bytes(section)
        elif kind in _KINDS:
            found[_KINDS[kind]] = section
        else:
            msg = f"section {kind} is unknown"
            raise InvalidEntryError(msg)
        end = _padded(data, position + length)
    if end != len(data):
        msg = f"the sections end at {end} of {len(data)} bytes"
        raise InvalidEntryError(msg)
    return SegmentIndexes(found, layout)


def _sections(data: memoryview, identity: bytes) -> Sequence[tuple[int, ...]]:
    """Check the head of a file, and return its table."""
    if len(data) < _HEADER.size:
        msg = f"{len(data)} bytes are too few"
        raise InvalidEntryError(msg)
    magic, version, count, size, found = _HEADER.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION) or count > _MAX_SECTIONS:
        msg = f"not of version {_VERSION}"
        raise InvalidEntryError(msg)
    end = _HEADER.size + count * _SECTION.size
    if size != len(data):
        msg = f"{len(data)} bytes, not the {size} it says"
        raise InvalidEntryError(msg)
    if size < end + _CRC.size:
        msg = f"{size} bytes cannot hold the {count} sections it says"
        raise InvalidEntryError(msg)
    if _CRC.unpack_from(data, end)[0] != crc32c(data[:end]):
        msg = "its head fails its checksum"
        raise InvalidEntryError(msg)
    if found != identity:
        msg = "it is of another store or segment"
        raise InvalidEntryError(msg)
    return list(_SECTION.iter_unpack(data[_HEADER.size : end]))


def _padded(data: memoryview, end: int) -> int:
    """Return where the next section begins behind one that ends here."""
    begin = _round_up(end)
    if any(data[end:begin]):
        msg = f"there is something in the gap at {end}"
        raise InvalidEntryError(msg)
    return begin


def _round_up(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
