"""Count the records of a stored log, for layouts that do not store their number."""

from tieredfs.format.batch.header import MAGIC
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.stored_batches import fetch_batches

__all__ = ["count_records"]


def count_records(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> int | None:
    """Count the records of a segment in its log; None for a message format before v2.

    Args:
        storage: Where the segment is.
        segment: The segment, whose size is known.

    Raises:
        CorruptDataError: The log is corrupt.
        NotFoundError: The segment is gone.
    """
    total = 0
    for batches in fetch_batches(storage, segment):
        if (batches["magic"] < MAGIC).any():
            return None
        batches.check()
        total += int(batches["record_count"].sum())
    return total
