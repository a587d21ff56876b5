"""The indexes of a segment that is migrated: those of the source, or rebuilt ones."""

from collections.abc import Mapping, Sequence
from typing import Final

from tieredfs.errors import (
    SEGMENT_ERRORS,
    CorruptIndexError,
    NotFoundError,
)
from tieredfs.log.push.source_log import measured, read_indexes
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.inspection import (
    PriorState,
    inspect_segment,
    parse_producers,
    prior_state,
)
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.stream import read_batches

__all__ = ["lacks_indexes", "read_description", "rebuilt_indexes"]

_ALWAYS: Final = frozenset(IndexType) - {IndexType.TRANSACTION}
"""The indexes that Kafka has of every segment."""


def read_description(
    source: RemoteStorageManager, listed: SegmentMetadata
) -> tuple[SegmentMetadata, dict[IndexType, bytes]]:
    """Return a segment with its end and size, and the indexes that can be read.

    Raises:
        NotFoundError: The segment is gone.
        CorruptDataError: Its end cannot be determined.
    """
    try:
        indexes = source.fetch_all_indexes(listed)
        found = {kind: bytes(index) for kind, index in indexes.items()}
        return source.describe(listed, indexes), found
    except CorruptIndexError:
        one_by_one = read_indexes(source, listed)
        segment = measured(source, listed)
        if segment is None:
            raise
        return segment, {kind: bytes(index) for kind, index in one_by_one.items()}


def lacks_indexes(found: Mapping[IndexType, bytes]) -> bool:
    """Return whether an index is missing that Kafka has of every segment."""
    return not found.keys() >= _ALWAYS


def rebuilt_indexes(
    storages: Sequence[RemoteStorageManager],
    segment: SegmentMetadata,
    log: LogSource,
    found: Mapping[IndexType, bytes],
) -> dict[IndexType, bytes]:
    """Return the indexes of a segment, those rebuilt that are missing or inconsistent.

    Args:
        storages: Where the segment before it may be, for what that has left.
        segment: The segment, whose end offset and size are known.
        log: Its log.
        found: The indexes that could be read.

    Raises:
        CorruptBatchError: A batch is malformed, or outside the segment.
    """
    prior = PriorState()
    for storage in storages:
        if prior.producers is None:
            prior = _prior_state(storage, segment)
    inspection = inspect_segment(read_batches(log), segment, found, prior)
    kept = {k: v for k, v in found.items() if k not in inspection.inconsistent}
    return {**inspection.rebuilt, **kept}


def _prior_state(storage: RemoteStorageManager, segment: SegmentMetadata) -> PriorState:
    """Return what a storage contains about the partition where a segment begins."""
    try:
        for before in _segments_before(storage, segment):
            end = storage.describe(before).end_offset
            if end == segment.start_offset - 1:
                return prior_state(storage.fetch_all_indexes(before))
            if end is not None and end < segment.start_offset:
                break
        return PriorState(parse_producers(storage.fetch_producers_before(segment)))
    except (NotFoundError, *SEGMENT_ERRORS):
        return PriorState()


def _segments_before(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> list[SegmentMetadata]:
    """Return the segments that begin before another one, the last one first."""
    listed = storage.list_segments(segment.partition)
    return [one for one in listed[::-1] if one.start_offset < segment.start_offset]
