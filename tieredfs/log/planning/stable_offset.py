"""The last stable offset: up to which every transaction of a log has ended.

A consumer that reads committed records reads up to it: of what follows it is not known
yet whether it is committed. Source: KIP-98, Kafka's ProducerStateManager.
"""

from collections.abc import Sequence

from tieredfs.errors import NotFoundError
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.producer_state import ProducerTracker
from tieredfs.format.records.marker import marker_of
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.tiles import last_of
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.stored_batches import fetch_each_batch

__all__ = ["first_open_offset", "stable_offset"]


def stable_offset(
    storage: RemoteStorageManager, segments: Sequence[SegmentMetadata]
) -> int:
    """Return the first offset of a transaction that is open where a log ends.

    It is the end of the log if there is none. The producer snapshot of the last segment
    contains the open transactions. A segment without one, such as the one that a broker
    is writing, is read whole, and so are those before it, from the last snapshot on.

    Args:
        storage: Where the segments are.
        segments: The last segments of a partition with their end offsets and, where
            they overlap, their epochs; sorted by start offset.

    Returns:
        An offset, perhaps before the beginning of the log.

    Raises:
        NotFoundError: The last segment is gone.
        CorruptDataError: The snapshot, or the log of a segment without one, is corrupt.
    """
    last = last_of(segments)
    if last is None:
        return 0
    found = _snapshot(storage, last)
    if found is None:
        found = _snapshot_after(storage, last, segments)
    return first_open_offset(found, end_of(last))


def first_open_offset(producers: ProducerSnapshot, end: int) -> int:
    """Return the first offset of a producer's open transaction; ``end`` without one."""
    firsts = (one.transaction_first_offset for one in producers.producers)
    return min((first for first in firsts if first >= 0), default=end)


def _snapshot(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> ProducerSnapshot | None:
    """Return the state of the producers after a segment, if it is stored."""
    found = storage.fetch_indexes(segment, [IndexType.PRODUCER_SNAPSHOT])
    data = found.get(IndexType.PRODUCER_SNAPSHOT)
    if data is None:
        return None
    name = f"{storage.name_of(segment)}: producer snapshot"
    return ProducerSnapshot.parse(data, name=name)


def _snapshot_before(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> ProducerSnapshot | None:
    """Return the state of the producers before a segment, if it is stored with it."""
    try:
        data = storage.fetch_producers_before(segment)
    except NotFoundError:
        return None
    return ProducerSnapshot.parse(data, name=f"{storage.name_of(segment)}: producers")


def _snapshot_after(
    storage: RemoteStorageManager,
    last: SegmentMetadata,
    segments: Sequence[SegmentMetadata],
) -> ProducerSnapshot:
    """Follow the producers from the last snapshot to the end of a segment.

    Without any snapshot the log is read from its beginning, as a broker does.
    """
    logs = [last]
    while (found := _snapshot_before(storage, logs[-1])) is None:
        start = logs[-1].start_offset
        before = (one for one in segments if one.start_offset < start == end_of(one))
        previous = next(before, None)
        if previous is None:
            found = ProducerSnapshot()
            break
        found = _snapshot(storage, previous)
        if found is not None:
            break
        logs.append(previous)
    producers = ProducerTracker.after(found)
    for segment in reversed(logs):
        _follow(storage, segment, producers)
    return producers.snapshot()


def _follow(
    storage: RemoteStorageManager, segment: SegmentMetadata, producers: ProducerTracker
) -> None:
    """Follow the producers through the log of a segment."""
    is_active = storage.is_active(segment)
    for batch in fetch_each_batch(storage, segment, torn_tail=is_active):
        marker = marker_of(batch)
        if marker is not None:
            producers.end_transaction(batch.header, marker)
        elif batch.header.record_count:
            producers.add(batch.header)
