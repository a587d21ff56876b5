"""The largest timestamp that a manifest states, compared with the time index."""

from itertools import chain

from tieredfs.errors import CorruptObjectError
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.time import NO_TIMESTAMP, TimeIndex
from tieredfs.model import SegmentMetadata
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.stored_batches import fetch_batches

__all__ = ["check_max_timestamp"]


def check_max_timestamp(
    storage: RemoteStorageManager,
    metadata: SegmentMetadata,
    time_index: Buffer,
    *,
    claim: str,
    index: str,
) -> int:
    """Return the largest timestamp of a segment, if its time index agrees.

    A broker ends the time index of each closed segment with the largest timestamp, so
    the last entry confirms the manifest. Where no record has a timestamp, the index has
    no entry and the manifest states the modification time of the file: then the whole
    log is read. A broker states -1 where all timestamps are below it.

    Args:
        storage: Where the segment is.
        metadata: With its end offset, size and largest timestamp, as the manifest
            states them.
        time_index: The index, or the end of it.
        claim: The claim's name used in error messages.
        index: The index's name used in error messages.

    Raises:
        CorruptObjectError: The manifest contradicts the index, or if that is empty, the
            log.
        CorruptIndexError: The index is malformed.
        CorruptBatchError: A batch of a log that is read is malformed.
    """
    claimed = -1 if metadata.max_timestamp_ms is None else metadata.max_timestamp_ms
    times = TimeIndex.parse(time_index, metadata.start_offset, name=index)
    if not len(times):
        found = _largest(storage, metadata)
        if found >= 0 and found != claimed:
            msg = f"{claim} is {claimed}, the largest in the log is {found}"
            raise CorruptObjectError(msg)
        return found
    last = times.entry(-1)
    if max(last.timestamp, NO_TIMESTAMP) != max(claimed, NO_TIMESTAMP):
        msg = f"{claim} is {claimed}, the last entry of {index} has {last.timestamp}"
        raise CorruptObjectError(msg)
    if metadata.end_offset is not None and last.offset > metadata.end_offset:
        msg = (
            f"{claim} ends at offset {metadata.end_offset}, the last entry of {index} "
            f"is at {last.offset}"
        )
        raise CorruptObjectError(msg)
    return last.timestamp


def _largest(storage: RemoteStorageManager, metadata: SegmentMetadata) -> int:
    batches = chain.from_iterable(fetch_batches(storage, metadata))
    return max((batch.header.max_timestamp for batch in batches), default=-1)
