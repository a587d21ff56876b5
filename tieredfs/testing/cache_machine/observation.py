"""What is seen of a cache from outside, before and after each call."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from tieredfs.cache import CacheStats
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.entries import Entries

__all__ = ["Observation"]


@dataclass(frozen=True, slots=True)
class Observation:
    """The directory, the counters and the storages at one moment.

    Attributes:
        entries: What the directory has.
        stats: The counters of each handle.
        operations: How many operations have reached the storages for each segment.
    """

    entries: Entries
    stats: Mapping[int, CacheStats]
    operations: Counter[CachedSegment]

    def fetches_since(self, earlier: "Observation") -> Counter[CachedSegment]:
        """Return how many operations there were for each segment; none is not in it."""
        return self.operations - earlier.operations

    def gone_since(self, earlier: "Observation") -> set[CachedSegment]:
        """Return the segments that had an entry, whole or damaged, and have none."""
        return {*earlier.entries.sizes} - {*self.entries.sizes}
