"""What an index cache has done so far."""

from dataclasses import dataclass

__all__ = ["CacheStats"]


@dataclass(frozen=True, slots=True)
class CacheStats:
    """Counters of one cache in this process, since it was opened.

    Attributes:
        hits: Entries that were there, opened already or on disk.
        misses: Entries that were not there, or not valid.
        loads: Entries that were fetched from the store.
        load_seconds: What that took.
        evictions: Entries that were removed to make room.
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
