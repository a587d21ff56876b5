"""One process's state of a cache: mapped entries, loads in progress, counters.

All views of a cache share the state. A forked child starts with an empty one: it has
none of its parent's threads, one of which may have held the lock.
"""

import os
import threading
import weakref
from concurrent.futures import Future
from dataclasses import dataclass

from cachetools import Cache, LRUCache

from tieredfs.cache.entry import CachedIndexes
from tieredfs.cache.entry_name import EntryKey
from tieredfs.objects import RequestPolicy
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor

__all__ = ["Counts", "Opened", "ProcessState"]

_MAX_MAPPED_ENTRIES = 1024
_MAX_LOADERS = 16


@dataclass(slots=True)
class Opened:
    """An entry that this process has mapped.

    Attributes:
        name: Name of its file.
        indexes: The indexes in it.
        used: Time of the last use.
        noted: Time of the last use that was recorded in the directory; 0 if none was
            since the entry was loaded.
    """

    name: str
    indexes: CachedIndexes
    used: float
    noted: float


@dataclass(slots=True)
class Counts:
    """The mutable counters behind CacheStats."""

    hits: int = 0
    misses: int = 0
    loads: int = 0
    load_seconds: float = 0.0
    evictions: int = 0
    corruptions: int = 0


class ProcessState:
    """The state of a cache in one process; every access requires the lock.

    Attributes:
        lock: Protects the other attributes.
        opened: The mapped entries that were used last.
        loads: Entries that are being loaded, by entry and request policy: a view with a
            longer deadline does not share the failure of one with a shorter deadline.
        pool: The threads that load entries; a load that hangs does not keep the process
            from ending.
        counts: The counters.
        removals: Number of removals so far: an entry opened before one may be gone.
        is_closed: Whether the cache was closed.
    """

    lock: threading.Lock
    opened: LRUCache[EntryKey, Opened]
    loads: dict[tuple[EntryKey, RequestPolicy], Future[CachedIndexes]]
    pool: DaemonExecutor
    counts: Counts
    removals: int

    def __init__(self) -> None:
        """Create an empty state."""
        self.is_closed = False
        self.reset_after_fork()
        _states.add(self)

    def reset_after_fork(self) -> None:
        """Reset to an empty state; called in a forked child."""
        self.lock = threading.Lock()
        self.opened = LRUCache(_MAX_MAPPED_ENTRIES)
        self.loads = {}
        self.pool = DaemonExecutor(_MAX_LOADERS, "tieredfs-index-load")
        self.counts = Counts()
        self.removals = 0

    def keep(self, key: EntryKey, opened: Opened, removals: int) -> None:
        """Keep an opened entry, unless it may have been removed since.

        Args:
            key: Key of the entry.
            opened: The entry to keep.
            removals: The value of ``removals`` before the entry was opened.
        """
        if removals == self.removals and not self.is_closed:
            self.opened[key] = opened

    def forget(self, names: set[str]) -> None:
        """Drop entries by the names of their files."""
        peek = Cache.__getitem__  # LRUCache's own would count as a use
        gone = [key for key in self.opened if peek(self.opened, key).name in names]
        for key in gone:
            del self.opened[key]


_states: "weakref.WeakSet[ProcessState]" = weakref.WeakSet()


def _in_child() -> None:
    for state in list(_states):
        state.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
