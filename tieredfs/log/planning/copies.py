"""Determine which of two copies is the later state of a compacted log.

A cleaner only removes records, so of two different copies, the one with fewer records
at the offsets that both cover was written later. The manifest contains the record count
of a whole segment. The count for a part of it is read from the log, and only if the
manifests do not decide.
"""

from typing import Final

from cachetools import LRUCache

from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log.planning.positions import read_offsets
from tieredfs.model import SegmentMetadata
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.storage import RemoteStorageManager

__all__ = ["CopyComparison"]

_MAX_COUNTS: Final = 100_000


class CopyComparison:
    """Compare copies by their number of records, and cache the counts.

    Segments never change, so a count is valid as long as its segment exists.
    """

    def __init__(self, storage: RemoteStorageManager) -> None:
        """Create a comparison, without sending a request.

        Args:
            storage: Where the copies are.
        """
        self._storage = storage
        self._lock = make_lock()
        self._counts: LRUCache[tuple[SegmentMetadata, int, int], int]
        self._counts = LRUCache(_MAX_COUNTS)

    def __call__(
        self, one: SegmentMetadata, other: SegmentMetadata, start: int, end: int
    ) -> int:
        """Compare the record counts of two segments at the offsets ``[start, end)``.

        Args:
            one: A segment that covers the offsets, described.
            other: Another one.
            start: First offset.
            end: End (exclusive) of the offsets.

        Returns:
            Below 0 if ``one`` has fewer, above 0 if ``other`` has fewer; 0 if the
            counts are equal, or if the layout does not store counts.

        Raises:
            CorruptDataError: A log that had to be read is corrupt.
            NotFoundError: A segment is gone.
        """
        ours, theirs = count_bounds(one, start, end), count_bounds(other, start, end)
        if ours is None or theirs is None:
            return 0
        if ours[1] < theirs[0] or ours[0] > theirs[1]:
            return ours[0] - theirs[0]
        return self._count(one, start, end) - self._count(other, start, end)

    def _count(self, segment: SegmentMetadata, start: int, end: int) -> int:
        """Count the records of a segment in a range of offsets."""
        bounds = count_bounds(segment, start, end)
        if bounds is not None and bounds[0] == bounds[1]:
            return bounds[0]
        key = (segment, start, end)
        with self._lock:
            known = self._counts.get(key)
        if known is None:
            known = self._count_in_log(segment, start, end)
            with self._lock:
                self._counts[key] = known
        return known

    def _count_in_log(self, segment: SegmentMetadata, start: int, end: int) -> int:
        decoder = RecordDecoder("", 0, ("offset",), self._storage.store.options)
        total = 0
        for batches in read_offsets(self._storage, segment, start, end):
            batches.check()
            inside = (batches["base_offset"] >= start) & (batches["last_offset"] < end)
            total += int(batches["record_count"][inside].sum())
            others = batches.take(~inside).within(start, end)
            total += sum(rows.num_rows for rows in decoder.decode([others]))
        return total


def count_bounds(
    segment: SegmentMetadata, start: int, end: int
) -> tuple[int, int] | None:
    """Return bounds on a segment's record count in a range, from its description alone.

    Args:
        segment: The segment, which covers the offsets.
        start: First offset.
        end: End (exclusive) of the offsets.

    Returns:
        The minimum and the maximum; None if the segment's record count is not known.
    """
    if segment.record_count is None or segment.end_offset is None:
        return None
    wanted = end - start
    others = segment.end_offset + 1 - segment.start_offset - wanted
    return max(0, segment.record_count - others), min(segment.record_count, wanted)
