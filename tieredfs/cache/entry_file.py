"""The file in which the indexes of one segment are kept: bytes in, values out.

::

    magic "TFSINDEX" · u32 version · u32 sections · u64 size of the file
    32 bytes: identity of the store and segment
    for each section: u32 kind · u32 CRC-32C · u64 position · u64 length
    u32 CRC-32C of everything before it
    the sections, each at its position, padded with zeros to a multiple of 8

All numbers are little-endian. A kind is an index, the layout's own data, or the
segment's ``description``, once it was asked for: files of earlier releases have none. A
file is private to its cache: indexes that cannot be read are fetched again, so only the
newest version is supported, and an earlier release fetches what has a description.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import add
from struct import Struct
from typing import Final, NamedTuple

from tieredfs.cache.description import SegmentDescription
from tieredfs.format.buffers import Buffer
from tieredfs.format.checksum import crc32c
from tieredfs.model import IndexType, SegmentIndexes

__all__ = [
    "EntryContent",
    "InvalidEntryError",
    "decode_entry",
    "encode_entry",
    "entry_identity",
]

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
_DESCRIPTION: Final = 101
_MAX_SECTIONS: Final = len(_KINDS) + 2


class InvalidEntryError(Exception):
    """A file is not a valid entry; the message states why."""


class EntryContent(NamedTuple):
    """What a file keeps of a segment.

    Attributes:
        indexes: Its indexes, and the layout's data.
        description: What its listing does not contain; None if it was not asked for.
    """

    indexes: SegmentIndexes
    description: SegmentDescription | None = None


def encode_entry(
    identity: bytes,
    found: SegmentIndexes,
    description: SegmentDescription | None = None,
) -> list[Buffer]:
    """Return the pieces of a file, in order.

    Args:
        identity: 32 bytes that identify the store and the segment.
        found: The indexes; empty layout data has no section.
        description: The segment's description, if it was asked for.
    """
    indexes = found.indexes
    parts: list[tuple[int, Buffer]] = [
        (kind, indexes[index_type])
        for kind, index_type in _KINDS.items()
        if index_type in indexes
    ]
    if found.layout:
        parts.append((_LAYOUT, found.layout))
    if description is not None:
        parts.append((_DESCRIPTION, description.encode()))
    sizes = [memoryview(data).nbytes for _, data in parts]
    paddings = [-size % _ALIGNMENT for size in sizes]
    head_size = _HEADER.size + len(parts) * _SECTION.size + _CRC.size
    first = head_size + -head_size % _ALIGNMENT
    ends = list(accumulate(map(add, sizes, paddings), initial=first))
    head = _HEADER.pack(_MAGIC, _VERSION, len(parts), ends[-1], identity)
    for (kind, data), size, position in zip(parts, sizes, ends, strict=False):
        head += _SECTION.pack(kind, crc32c(data), position, size)
    head += _CRC.pack(crc32c(head))
    pieces: list[Buffer] = [head, bytes(first - len(head))]
    for (_, data), padding in zip(parts, paddings, strict=True):
        pieces += [data, bytes(padding)]
    return pieces


def entry_identity(data: memoryview) -> bytes:
    """Return the identity in a file's header, unchecked.

    Raises:
        InvalidEntryError: The file is too short for a header.
    """
    if len(data) < _HEADER.size:
        msg = f"{len(data)} bytes are too few for a header"
        raise InvalidEntryError(msg)
    found: bytes = _HEADER.unpack_from(data)[-1]
    return found


def decode_entry(data: memoryview, identity: bytes) -> EntryContent:
    """Check every byte of a file, and return its description and views of its indexes.

    Args:
        data: The whole file, read-only.
        identity: The identity that the file must have.

    Raises:
        InvalidEntryError: The file is not an unchanged result of ``encode_entry``.
    """
    sections = _sections(data, identity)
    found: dict[IndexType, memoryview] = {}
    layout = b""
    description = None
    end = _HEADER.size + len(sections) * _SECTION.size + _CRC.size
    end = _padded(data, end)
    before = 0
    for kind, crc, position, length in sections:
        if kind <= before:
            msg = f"section {kind} comes after section {before}"
            raise InvalidEntryError(msg)
        before = kind
        if position != end or position + length > len(data):
            msg = f"section {kind} is misplaced: [{position}, {position + length})"
            raise InvalidEntryError(msg)
        section = data[position : position + length]
        if crc32c(section) != crc:
            msg = f"section {kind} fails its checksum"
            raise InvalidEntryError(msg)
        if kind == _LAYOUT:
            layout = bytes(section)
        elif kind == _DESCRIPTION:
            description = _description(section)
        elif kind in _KINDS:
            found[_KINDS[kind]] = section
        else:
            msg = f"section {kind} is unknown"
            raise InvalidEntryError(msg)
        end = _padded(data, position + length)
    if end != len(data):
        msg = f"the sections end at {end} of {len(data)} bytes"
        raise InvalidEntryError(msg)
    return EntryContent(SegmentIndexes(found, layout), description)


def _description(section: memoryview) -> SegmentDescription:
    try:
        return SegmentDescription.parse(section)
    except ValueError as error:
        msg = f"section {_DESCRIPTION} is malformed: {error}"
        raise InvalidEntryError(msg) from error


def _sections(data: memoryview, identity: bytes) -> Sequence[tuple[int, ...]]:
    """Check the header of a file, and return its table of sections."""
    if len(data) < _HEADER.size:
        msg = f"{len(data)} bytes are too few for a header"
        raise InvalidEntryError(msg)
    magic, version, count, size, found = _HEADER.unpack_from(data)
    if (magic, version) != (_MAGIC, _VERSION) or count > _MAX_SECTIONS:
        msg = f"not of version {_VERSION}"
        raise InvalidEntryError(msg)
    end = _HEADER.size + count * _SECTION.size
    if size != len(data):
        msg = f"the file has {len(data)} bytes, its header gives {size}"
        raise InvalidEntryError(msg)
    if size < end + _CRC.size:
        msg = f"{size} bytes cannot hold the {count} sections its header gives"
        raise InvalidEntryError(msg)
    if _CRC.unpack_from(data, end)[0] != crc32c(data[:end]):
        msg = "the header fails its checksum"
        raise InvalidEntryError(msg)
    if found != identity:
        msg = "it belongs to another store or segment"
        raise InvalidEntryError(msg)
    return list(_SECTION.iter_unpack(data[_HEADER.size : end]))


def _padded(data: memoryview, end: int) -> int:
    """Check the padding after a section, and return the start of the next one."""
    begin = end + -end % _ALIGNMENT
    if any(data[end:begin]):
        msg = f"the padding at {end} is not zero"
        raise InvalidEntryError(msg)
    return begin
