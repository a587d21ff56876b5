"""Counters of an index cache."""

from dataclasses import dataclass

__all__ = ["CacheStats"]


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
