"""Whether a log that ends before its segment does was cleaned, or is cut.

A listing states where a segment ends, by its name or by that of the next one. Its log
ends earlier where the cleaner has removed its last batches. It also does in a copy of a
log directory that is not whole, and that is damage.
"""

from collections.abc import Callable, Mapping

import numpy as np

from tieredfs.errors import CorruptBatchError
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.time import TimeIndex
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.stored_batches import fetch_batches

__all__ = ["INDEXES", "check_cleaned_end", "check_early_end"]

INDEXES = (IndexType.OFFSET, IndexType.TIMESTAMP)
"""The indexes that show how far a log went when it was closed or cleaned."""


def check_early_end(
    storage: RemoteStorageManager, segment: SegmentMetadata, reached: int
) -> None:
    """Check that a cleaner has removed the last batches of a segment.

    Either the store states that it may have, or the log shows it: a broker writes
    without holes. And the indexes of a file, which may have been cut, must not go on.

    Args:
        storage: Where the segment is.
        segment: The segment, whose log ends before its end offset.
        reached: One past the last offset in the log.

    Raises:
        CorruptBatchError: The log was cut.
        CorruptIndexError: An index is malformed.
    """
    name = storage.name_of(segment)
    if not storage.is_compacted(segment.partition) and not _has_holes(storage, segment):
        msg = (
            f"{name}: the log ends before offset {reached}, "
            f"the segment at {segment.end_offset}"
        )
        raise CorruptBatchError(msg)
    if not segment.version:
        return  # a tier's own object is stored whole: what a broker copied was cleaned
    indexes = storage.fetch_indexes(segment, INDEXES)

    def largest_timestamp() -> int:
        found = fetch_batches(storage, segment)
        return max((int(one["max_timestamp"].max()) for one in found), default=-1)

    check_cleaned_end(storage, segment, reached, indexes, largest_timestamp)


def check_cleaned_end(
    storage: RemoteStorageManager,
    segment: SegmentMetadata,
    reached: int,
    indexes: Mapping[IndexType, Buffer],
    largest_timestamp: Callable[[], int],
) -> None:
    """Check that the indexes of a cleaned log end where it does.

    A cleaner writes the indexes anew with the log, so an index that goes on shows that
    the log was cut. And it ends each time index with the largest timestamp of the log,
    as a broker does when it closes a segment: without an entry nothing shows that the
    log is whole.

    Args:
        storage: Where the segment is.
        segment: The segment, whose log ends before its end offset.
        reached: One past the last offset in the log.
        indexes: Its indexes, as far as it has them.
        largest_timestamp: Returns the largest timestamp of the log, -1 for none.

    Raises:
        CorruptBatchError: An index has an offset behind the end of the log, or the time
            index has no entry and should have one.
        CorruptIndexError: An index is malformed.
    """
    name = storage.name_of(segment)
    times = _checked_times(indexes, segment, reached, name)
    # No entry is written for a timestamp that is negative, or that records do not have.
    if len(times) or not segment.version or largest_timestamp() < 0:
        return
    # The cleaner renames a log before its indexes, which may not have been there yet.
    again = storage.fetch_indexes(segment, INDEXES)
    if not len(_checked_times(again, segment, reached, name)):
        raise CorruptBatchError(
            f"{name}: the log ends before offset {reached}, the segment at "
            f"{segment.end_offset}, and its time index has no entry that shows that a "
            "cleaner removed the rest: copy both files again"
        )


def _checked_times(
    indexes: Mapping[IndexType, Buffer],
    segment: SegmentMetadata,
    reached: int,
    name: str,
) -> TimeIndex:
    """Return the time index, once no index has an offset behind the end of the log."""
    base = segment.start_offset
    offsets = OffsetIndex.parse(
        indexes.get(IndexType.OFFSET, b""), base, name=f"{name}: offset index"
    )
    times = TimeIndex.parse(
        indexes.get(IndexType.TIMESTAMP, b""), base, name=f"{name}: time index"
    )
    lasts = [index.entry(-1).offset for index in (offsets, times) if len(index)]
    last = max(lasts, default=-1)
    if last >= reached:
        msg = f"{name}: the log ends before offset {reached}, its indexes at {last}"
        raise CorruptBatchError(msg)
    return times


def _has_holes(storage: RemoteStorageManager, segment: SegmentMetadata) -> bool:
    """Return whether offsets are missing inside a log."""
    following = segment.start_offset
    for batches in fetch_batches(storage, segment):
        batches.check()
        base, last = batches["base_offset"], batches["last_offset"]
        whole = batches["record_count"] == last - base + 1
        tiled = base == np.concatenate([[following], last[:-1] + 1])
        if not (whole & tiled).all():
            return True
        following = int(last[-1]) + 1
    return False
