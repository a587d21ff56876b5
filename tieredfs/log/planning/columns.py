"""Bounds, overlaps and histories of segments, from columns where they are a table."""

from collections.abc import Callable, Sequence

import numpy as np

from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.errors import CorruptDataError, NotFoundError, UnsupportedFormatError
from tieredfs.format.buffers import Int64Array
from tieredfs.model import SegmentMetadata
from tieredfs.storage import SegmentTable

__all__ = ["end_of", "ends_of", "first_of", "may_diverge", "overlaps", "starts_of"]


def starts_of(segments: Sequence[SegmentMetadata]) -> Int64Array:
    """Return the first offset of each segment."""
    if isinstance(segments, SegmentTable):
        return segments.start_offsets
    starts = (segment.start_offset for segment in segments)
    return np.fromiter(starts, np.int64, len(segments))


def ends_of(segments: Sequence[SegmentMetadata]) -> Int64Array:
    """Return the offset after the last one of each segment.

    Raises:
        ValueError: A segment has not been described.
    """
    if isinstance(segments, SegmentTable):
        return segments.end_offsets + 1
    return np.fromiter(map(end_of, segments), np.int64, len(segments))


def first_of(segments: Sequence[SegmentMetadata]) -> int:
    """Return the first offset of the segments; 0 without segments."""
    return int(starts_of(segments).min()) if len(segments) else 0


def overlaps(segments: Sequence[SegmentMetadata]) -> bool:
    """Return whether any two of the segments, sorted by start, share an offset."""
    reached = np.maximum.accumulate(ends_of(segments)[:-1])
    return bool((starts_of(segments)[1:] < reached).any())


def may_diverge(
    segments: Sequence[SegmentMetadata],
    highest_epoch: Callable[[SegmentMetadata], int | None],
    describe: Callable[[SegmentMetadata], SegmentMetadata],
) -> bool:
    """Return whether segments that do not overlap may be of different histories.

    If all have the same highest epoch, they are of one history: its leader had
    everything before. Otherwise the last segment's history determines under which epoch
    each segment has to end; a cleaner may also have left an older epoch. A segment
    without an epoch, or whose epoch is not listed, agrees with every history.

    Args:
        segments: The segments of a partition with their end offsets, as listed.
        highest_epoch: Returns the highest epoch of a segment, if it is listed.
        describe: Reads the history of the last segment.
    """
    epochs = _epochs_of(segments, highest_epoch)
    known = epochs[epochs != NO_EPOCH]
    if not len(known) or (known == known[0]).all():
        return False
    ends = ends_of(segments)
    last = int(np.where(epochs == epochs.max(), ends, -1).argmax())
    try:
        lineage = LeaderEpochs(describe(segments[last]).leader_epochs or ())
    except (CorruptDataError, NotFoundError, UnsupportedFormatError):
        return False  # reported when it is read
    return not lineage.accepts_each(epochs, ends - 1).all()


def _epochs_of(
    segments: Sequence[SegmentMetadata],
    highest_epoch: Callable[[SegmentMetadata], int | None],
) -> Int64Array:
    """Return the highest epoch of each segment; ``NO_EPOCH`` if it is not listed."""
    if isinstance(segments, SegmentTable):
        return segments.highest_epochs.astype(np.int64)
    known = (highest_epoch(segment) for segment in segments)
    each = (NO_EPOCH if epoch is None else epoch for epoch in known)
    return np.fromiter(each, np.int64, len(segments))


def end_of(segment: SegmentMetadata) -> int:
    """Return the offset after the last one of a segment.

    Raises:
        ValueError: The segment has not been described.
    """
    if segment.end_offset is None:
        msg = f"{segment} has not been described"
        raise ValueError(msg)
    return segment.end_offset + 1
