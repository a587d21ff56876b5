"""Positions of offsets in a segment's log, from its offset index."""

from collections.abc import Iterator

from tieredfs.format.batch.table import LogBatches
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.stored_batches import fetch_batches

__all__ = ["locate", "offset_index", "read_offsets"]


def read_offsets(
    storage: RemoteStorageManager, segment: SegmentMetadata, start: int, end: int
) -> Iterator[LogBatches]:
    """Yield the batches that contain some of the offsets ``[start, end)``.

    Args:
        storage: Where the segment is.
        segment: The segment, whose end offset and size are known.
        start: First offset.
        end: End (exclusive) of the offsets.

    Raises:
        CorruptDataError: The log or its offset index is corrupt.
        NotFoundError: The segment is gone.
    """
    position, until = locate(storage, segment, start, end)
    for batches in fetch_batches(storage, segment, start=position, until=until):
        base, last = batches["base_offset"], batches["last_offset"]
        found = batches.take((last >= start) & (base < end))
        if len(found):
            yield found
        if base[-1] >= end:
            return


def locate(
    storage: RemoteStorageManager, segment: SegmentMetadata, start: int, end: int
) -> tuple[int, int]:
    """Look up the positions of a range of offsets in a segment's log.

    Args:
        storage: Where the segment is.
        segment: The segment, whose end offset and size are known.
        start: First offset.
        end: End (exclusive) of the offsets.

    Returns:
        The position of a batch at or before ``start``, and a position at or after
        ``end``.

    Raises:
        CorruptIndexError: The offset index is malformed.
    """
    size = segment.size or 0
    if segment.start_offset >= start and end > (segment.end_offset or 0):
        return 0, size
    index = offset_index(storage, segment)
    position = index.end_position(end)
    return index.lookup(start).position, size if position is None else position


def offset_index(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> OffsetIndex:
    """Fetch the offset index of a segment.

    Args:
        storage: Where the segment is.
        segment: The segment, whose end offset and size are known.

    Raises:
        CorruptIndexError: The index is malformed.
    """
    found = storage.fetch_indexes(segment, [IndexType.OFFSET])
    return OffsetIndex.parse(
        found.get(IndexType.OFFSET, b""),
        segment.start_offset,
        end_offset=segment.end_offset,
        log_size=segment.size,
        name=f"{storage.name_of(segment)}: offset index",
    )
