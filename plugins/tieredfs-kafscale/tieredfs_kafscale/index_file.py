"""An ``.index`` object: where some of the batches of a segment begin.

A header of 16 bytes and entries of 12, each with the offset and the position in the
``.kfs`` object at which a batch begins. The first batch has one, and each batch before
which at least ``interval`` records have passed since the last entry.

Source: KafScale's ``pkg/storage/index.go``.
"""

import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from tieredfs import CorruptIndexError, UnsupportedFormatError
from tieredfs_kafscale.segment_file import HEADER_SIZE

__all__ = ["IndexEntry", "SparseIndexBuilder", "parse_index", "to_offset_index"]

_HEADER = struct.Struct(">4sHiiH")
_MAGIC: Final = b"IDX\0"
_VERSION: Final = 1
_ENTRY = np.dtype([("offset", ">i8"), ("position", ">i4")])
_KAFKA_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])


class IndexEntry(NamedTuple):
    """Where a batch begins.

    Attributes:
        offset: Its first offset.
        position: Its first byte in the ``.kfs`` object.
    """

    offset: int
    position: int


class SparseIndexBuilder:
    """Choose the batches that get an entry, as KafScale's broker does."""

    def __init__(self, interval: int) -> None:
        """Begin without a batch.

        Args:
            interval: Number of records after which a batch gets an entry.
        """
        self._interval = max(interval, 1)
        self._entries: list[IndexEntry] = []
        self._passed = 0

    def add(self, offset: int, position: int, record_count: int) -> None:
        """Add the next batch.

        Args:
            offset: Its first offset.
            position: Its first byte in the ``.kfs`` object.
            record_count: Number of its records.
        """
        if not self._entries or self._passed >= self._interval:
            self._entries.append(IndexEntry(offset, position))
            self._passed = 0
        self._passed += record_count

    def encode(self) -> bytes:
        """Return the object's bytes."""
        count = len(self._entries)
        header = _HEADER.pack(_MAGIC, _VERSION, count, self._interval, 0)
        return header + np.array(self._entries, _ENTRY).tobytes()


def parse_index(data: bytes | memoryview, name: str) -> list[IndexEntry]:
    """Parse an index; bytes behind its entries are ignored, as a broker does.

    Args:
        data: The object's bytes.
        name: Its name, used in error messages.

    Raises:
        CorruptIndexError: It is malformed.
        UnsupportedFormatError: It is of another version.
    """
    if len(data) < _HEADER.size:
        raise CorruptIndexError(f"{name}: {len(data)} bytes are not an index")
    magic, version, count, _, _ = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise CorruptIndexError(f"{name}: it begins with {magic!r}, not {_MAGIC!r}")
    if version != _VERSION:
        raise UnsupportedFormatError(f"{name}: version {version} of an index")
    entries = memoryview(data)[_HEADER.size :]
    if not 0 <= count * _ENTRY.itemsize <= len(entries):
        raise CorruptIndexError(
            f"{name}: {len(entries)} bytes are too few for {count} entries"
        )
    found = np.frombuffer(entries, _ENTRY, count)
    return [IndexEntry(int(offset), int(position)) for offset, position in found]


def to_offset_index(
    entries: Sequence[IndexEntry], base_offset: int, end_offset: int, size: int
) -> bytes | None:
    """Convert an index into Kafka's; return None if it cannot be that of its segment.

    An entry of Kafka's has the last offset up to which a request appended, and the
    position at which its batches begin: here those up to the next entry. There is none
    for the beginning of the log.

    Args:
        entries: The entries.
        base_offset: First offset of the segment.
        end_offset: Its last offset.
        size: Bytes of its log.
    """
    if not entries:
        return None
    offsets = np.array([entry.offset for entry in entries], np.int64)
    positions = np.array([entry.position for entry in entries], np.int64) - HEADER_SIZE
    begins = offsets[0] == base_offset and positions[0] == 0
    rises = (np.diff(offsets) > 0).all() and (np.diff(positions) > 0).all()
    if not (begins and rises and offsets[-1] <= end_offset and positions[-1] < size):
        return None
    lasts = np.append(offsets[1:] - 1, end_offset) - base_offset
    found = np.empty(len(entries) - 1, _KAFKA_ENTRY)
    found["offset"], found["position"] = lasts[1:], positions[1:]
    return found.tobytes()
