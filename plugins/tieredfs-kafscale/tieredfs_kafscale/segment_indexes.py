"""The indexes of a segment, as Kafka has them.

KafScale stores one, which is sparse, and loses it without harm: it is rebuilt from the
log, and so are the others.
"""

import struct
from collections.abc import Mapping
from typing import Final

from tieredfs import (
    CorruptIndexError,
    IndexType,
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.storage import LogSource, crc32c, inspect_copy, read_log
from tieredfs_kafscale.index_file import (
    SparseIndexBuilder,
    parse_index,
    to_offset_index,
)
from tieredfs_kafscale.segment_file import HEADER_SIZE
from tieredfs_kafscale.segment_log import check_checksum, stored_log

__all__ = [
    "build_index",
    "fetch_offset_index",
    "largest_timestamp",
    "rebuild_indexes",
]

_MAGIC: Final = 2
_TIME_ENTRY: Final = struct.Struct(">qi")


def build_index(log: LogSource, interval: int) -> bytes:
    """Return the ``.index`` object of a log.

    Args:
        log: The log.
        interval: Number of records after which a batch gets an entry.

    Raises:
        UnsupportedOperationError: A batch is not of version 2.
        CorruptDataError: The log is malformed.
    """
    index = SparseIndexBuilder(interval)
    for batches in read_log(log):
        columns = ("base_offset", "position", "record_count", "magic")
        for base, position, count, magic in zip(
            *(batches[name].tolist() for name in columns), strict=True
        ):
            if magic != _MAGIC:
                raise UnsupportedOperationError(
                    f"{log.name}: its log has batches of version {magic}, and "
                    f"KafScale stores only version {_MAGIC}"
                )
            index.add(base, position + HEADER_SIZE, count)
    return index.encode()


def fetch_offset_index(
    store: ObjectStore, key: str, segment: SegmentMetadata
) -> bytes | None:
    """Return the stored index, converted; None if it has to be rebuilt.

    Args:
        store: Where it is.
        key: The key of the ``.index`` object.
        segment: The segment, whose end offset and size are known.
    """
    try:
        entries = parse_index(store.get(key), f"{store.url}/{key}")
    except (NotFoundError, CorruptIndexError, UnsupportedFormatError):
        return None
    base, end = segment.start_offset, segment.end_offset or 0
    return to_offset_index(entries, base, end, segment.size or 0)


def rebuild_indexes(
    store: ObjectStore,
    key: str,
    segment: SegmentMetadata,
    checksum: int,
    transactions: memoryview | None,
) -> Mapping[IndexType, bytes]:
    """Rebuild the indexes of a segment from its log, in the memory of a few MiB of it.

    Args:
        store: Where it is.
        key: The key of the ``.kfs`` object.
        segment: The segment, whose end offset and size are known.
        checksum: CRC-32C of the log.
        transactions: Its transaction index, if it has one.

    Raises:
        NotFoundError: The segment is gone.
        CorruptDataError: The log is malformed, or not what was stored.
    """
    found = 0

    def add(piece: memoryview) -> None:
        nonlocal found
        found = crc32c(piece, found)

    log = stored_log(store, key, segment.size or 0)
    known = {} if transactions is None else {IndexType.TRANSACTION: transactions}
    inspection = inspect_copy(log, add, segment, known)
    check_checksum(found, checksum, log.name)
    return inspection.rebuilt


def largest_timestamp(time_index: memoryview) -> int:
    """Return the largest timestamp of a segment, ms since 1970 UTC; -1 for none.

    Args:
        time_index: Its time index, of which it is the last entry's.
    """
    if len(time_index) < _TIME_ENTRY.size:
        return -1
    stamp: int = _TIME_ENTRY.unpack(time_index[-_TIME_ENTRY.size :])[0]
    return stamp
