"""The log of a stored segment, read in pieces and compared with its footer."""

from collections.abc import Iterator
from typing import Final

from tieredfs import CorruptObjectError, ObjectStore
from tieredfs.storage import LogSource, crc32c
from tieredfs_kafscale.segment_file import HEADER_SIZE, SegmentHeader

__all__ = ["check_checksum", "checked_log", "stored_log"]

_PIECE_BYTES: Final = 8 << 20
"""Bytes of each request for a log that is read whole."""


def stored_log(store: ObjectStore, key: str, size: int) -> LogSource:
    """Return a log that is stored, to be read in any order.

    Args:
        store: Where it is.
        key: The key of its object.
        size: Bytes of the log.
    """

    def fetch(start: int, end: int) -> memoryview:
        return store.get_range(key, start + HEADER_SIZE, end + HEADER_SIZE)

    return LogSource(size, f"{store.url}/{key}", fetch, is_steady=False)


def checked_log(
    store: ObjectStore, key: str, size: int, base_offset: int, checksum: int
) -> Iterator[memoryview]:
    """Yield a whole log in order; its checksum is compared at the end.

    Args:
        store: Where it is.
        key: The key of its object.
        size: Bytes of the log.
        base_offset: First offset of its segment.
        checksum: CRC-32C of the log.

    Raises:
        NotFoundError: The object is gone.
        CorruptObjectError: It is not what was stored.
        UnsupportedFormatError: It is of another version.
    """
    name = f"{store.url}/{key}"
    found = 0
    end = HEADER_SIZE + size
    for start in range(0, end, _PIECE_BYTES):
        piece = store.get_range(key, start, min(start + _PIECE_BYTES, end))
        if start == 0:
            header = SegmentHeader.parse(piece, name)
            if header.base_offset != base_offset:
                raise CorruptObjectError(
                    f"{name}: its header has base offset {header.base_offset}"
                )
            piece = piece[HEADER_SIZE:]
        found = crc32c(piece, found)
        yield piece
    check_checksum(found, checksum, name)


def check_checksum(found: int, stored: int, name: str) -> None:
    """Compare the checksum of a log with that of its footer.

    Raises:
        CorruptObjectError: They differ.
    """
    if found != stored:
        raise CorruptObjectError(
            f"{name}: CRC-32C does not match: stored {stored:#010x}, "
            f"computed {found:#010x}"
        )
