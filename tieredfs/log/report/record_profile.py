"""Find out which offsets of a segment still have records, from the batches of its log.

Compaction leaves a batch its first and last offset and removes records between them, so
headers say how many of these offsets have one. Which, only its records would.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tieredfs.format.batch.header import MAGIC
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.stored_batches import fetch_batches

__all__ = ["RecordProfile", "record_profile"]


@dataclass(frozen=True, slots=True)
class RecordProfile:
    """How the records of a segment are spread over its offsets.

    Between two edges the records are taken to be spread evenly.

    Attributes:
        edges: Offsets, increasing.
        counts: For each edge, the number of records below it.
    """

    edges: tuple[int, ...]
    counts: tuple[float, ...]

    @property
    def total(self) -> int:
        """Number of records, control records included."""
        return round(self.counts[-1]) if self.counts else 0

    def within(self, start: float, end: float) -> float:
        """Return about how many records have an offset in ``[start, end)``."""
        return self._below(end) - self._below(start)

    def holes(self, start: int, end: int) -> Iterator[tuple[int, int, float]]:
        """Yield where there are fewer records than offsets, and about how many.

        Args:
            start: First offset.
            end: End (exclusive).

        Yields:
            Ranges of offsets ``(start, end)``, in order, each with its records.
        """
        inside = (edge for edge in self.edges if start < edge < end)
        for low, high in pairwise((start, *inside, end)):
            records = self.within(low, high)
            if round(high - low - records, 6) > 0:
                yield low, high, records

    def _below(self, offset: float) -> float:
        at = bisect_left(self.edges, offset)
        if at == len(self.edges):
            return self.counts[-1] if self.counts else 0.0
        if at == 0:
            return self.counts[0]
        (low, high), (less, more) = (
            self.edges[at - 1 : at + 1],
            self.counts[at - 1 : at + 1],
        )
        return less + (more - less) * ((offset - low) / (high - low))


def record_profile(
    storage: RemoteStorageManager, segment: SegmentMetadata, max_edges: int
) -> RecordProfile | None:
    """Read a segment's log; return None if a message is of a format before v2.

    Args:
        storage: Where the segment is.
        segment: The segment, whose size is known.
        max_edges: Number of edges, 2 or more; where batches have more, they are evenly
            spaced.

    Raises:
        CorruptDataError: The log is corrupt.
        NotFoundError: The segment is gone.
    """
    edges, records = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for batches in fetch_batches(storage, segment):
        if (batches["magic"] < MAGIC).any():
            return None
        batches.check()
        first, past, held = (
            batches["base_offset"],
            batches["last_offset"] + 1,
            batches["record_count"],
        )
        edges.append(np.column_stack((first, past)).ravel())
        records.append(np.column_stack((np.zeros_like(held), held)).ravel())
    at, counts = np.concatenate(edges), np.concatenate(records).cumsum()
    # Of an offset that ends one batch and begins the next, either edge says the same.
    is_last = np.append(at[1:] != at[:-1], np.ones(min(1, len(at)), np.bool_))
    at, counts = at[is_last], counts[is_last]
    if len(at) > max_edges:
        even = np.unique(np.linspace(at[0], at[-1], max_edges).astype(np.int64))
        at, counts = even, np.interp(even, at, counts)
    return RecordProfile(tuple(at.tolist()), tuple(counts.tolist()))
