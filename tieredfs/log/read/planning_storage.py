"""A storage that plans the fetches of a segment's log instead of sending them."""

from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from tieredfs.model import SegmentMetadata
from tieredfs.objects import RequestCounts
from tieredfs.storage import PlannedFetch, RemoteStorageManager, StorageWrapper
from tieredfs.storage.segment_log.stream import LogFetch

__all__ = ["FetchCost", "PlannedLog", "PlanningStorage"]

_MAX_OVERSHOOT_BYTES: Final = 64 << 10
"""How far the last request may pass a slice, where large batches shift the requests."""

_BLANK: Final = np.zeros(1, np.uint8)


@dataclass(slots=True)
class PlannedLog:
    """The fetches that were planned of a log.

    Attributes:
        requests: Their requests.
        max_size: Bytes of the largest one.
        count: Number of fetches.
        last_start: Position at which the last one begins.
        end: Position at which the last one ends.
    """

    requests: RequestCounts = field(default_factory=RequestCounts)
    max_size: int = 0
    count: int = 0
    last_start: int = 0
    end: int = 0


@dataclass(frozen=True, slots=True)
class FetchCost:
    """What each further fetch of a log costs, whatever its range.

    Attributes:
        requests: Its requests, and their bytes besides those of the range, such as
            those of a manifest.
        chunk: Bytes of the log that are fetched for a single one.
    """

    requests: RequestCounts
    chunk: int


class PlanningStorage(StorageWrapper):
    """A storage that plans the fetches of one segment's log instead of sending them."""

    def __init__(self, inner: RemoteStorageManager) -> None:
        """Wrap ``inner``, before the segment's first fetch."""
        super().__init__(inner)
        self._after: PlannedFetch | None = None
        self._fetched = PlannedLog()

    def plan(self, pieces: LogFetch, until: int) -> PlannedLog:
        """Plan the fetches of a log up to a position, and return them."""
        self._fetched = fetched = PlannedLog()
        for _ in pieces:
            if self._after is not None and self._after.end >= until:
                break
        return fetched

    def overshoot(self, segment: SegmentMetadata) -> RequestCounts:
        """Return the bytes that the last planned fetch may bring besides."""
        start = self._after.end if self._after else 0
        end = min(start + _MAX_OVERSHOOT_BYTES, segment.size or 0)
        if start >= end:
            return RequestCounts()
        more = self.inner.plan_fetch(segment, start, end, after=self._after)
        return RequestCounts(size=more.requests.size)

    def fetch_cost(self, segment: SegmentMetadata) -> FetchCost:
        """Return what one more fetch costs, after those that were planned."""
        none, one = (
            self.inner.plan_fetch(segment, 0, end, after=self._after) for end in (0, 1)
        )
        return FetchCost(replace(one.requests, size=none.requests.size), one.end)

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Plan a fetch, and return as many bytes, which take no memory."""
        planned = self.inner.plan_fetch(
            metadata, start, end, layout=layout, after=self._after
        )
        self._after, fetched = planned, self._fetched
        fetched.requests += planned.requests
        fetched.max_size = max(fetched.max_size, planned.requests.size)
        fetched.count += 1
        fetched.last_start, fetched.end = start, planned.end
        blank = np.broadcast_to(_BLANK, planned.end - start)
        return memoryview(blank)  # type: ignore[arg-type] # an array is a buffer
