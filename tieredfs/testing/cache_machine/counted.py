"""What a cache has to count.

The check raises AssertionError with one sentence: the promise that is broken, and how
it was seen.
"""

from dataclasses import dataclass

from tieredfs.cache import CacheStats
from tieredfs.testing.rule import require

__all__ = ["Counted"]


@dataclass(frozen=True, slots=True)
class Counted:
    """What one call adds to the counters of a handle; by default nothing.

    Attributes:
        lookups: How many segments were looked up.
        fetches: How many of them were fetched.
        evictions: How many entries had to go.
        is_damaged: Whether the segment's entry was damaged.
        is_kept: Whether what was fetched could be kept; else it need not be a load.
    """

    lookups: int = 0
    fetches: int = 0
    evictions: int = 0
    is_damaged: bool = False
    is_kept: bool = True

    def check(self, said: str, before: CacheStats, after: CacheStats) -> None:
        """Require that the counters have counted it.

        Args:
            said: What was called.
            before: The counters when it was called.
            after: The counters now.
        """
        found = (
            after.hits - before.hits,
            after.misses - before.misses,
            after.loads - before.loads,
            after.evictions - before.evictions,
        )
        hits = self.lookups - self.fetches
        wanted = (hits, self.fetches, self.fetches, self.evictions)
        failed = (hits, self.fetches, 0, self.evictions)
        require(
            found == wanted or (found == failed and not self.is_kept),
            f"the counters are true: {said} added {found} hits, misses, loads and "
            f"evictions, not {wanted}",
        )
        corruptions = after.corruptions - before.corruptions
        require(
            0 <= corruptions <= self.is_damaged,
            f"the counters are true: {said} added {corruptions} corruptions",
        )
