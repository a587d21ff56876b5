"""The metrics of a cache.

A metric is a field of both classes here, and is counted where it occurs: hits in
``cache``, misses, loads, evictions and corrupt files in ``entries``. The size alone is
measured.
"""

from dataclasses import asdict, dataclass

__all__ = ["CacheStats", "Counts"]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Counters of one cache in this process, since it was opened.

    Attributes:
        hits: Lookups that found an entry, mapped or on disk.
        misses: Lookups that found no entry, or an invalid one.
        loads: Entries fetched from the store.
        load_seconds: Total time of the fetches.
        evictions: Entries removed to make room.
        corruptions: Files that were not what had been written.
        size: Bytes on disk, of all processes that share the directory.
    """

    hits: int
    misses: int
    loads: int
    load_seconds: float
    evictions: int
    corruptions: int
    size: int


@dataclass(slots=True)
class Counts:
    """The mutable counters behind CacheStats."""

    hits: int = 0
    misses: int = 0
    loads: int = 0
    load_seconds: float = 0.0
    evictions: int = 0
    corruptions: int = 0

    def stats(self, size: int) -> CacheStats:
        """Return the counters now, with the bytes on disk."""
        return CacheStats(**asdict(self), size=size)
