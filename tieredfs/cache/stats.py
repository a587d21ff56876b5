"""The metrics of a cache.

Hits are counted in ``cache``, misses and loads in ``loading``, evictions and corrupt
files in ``entries``; ``RemoteIndexCache.stats`` shows them.
"""

from dataclasses import dataclass

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
