"""What one process has of a cache: entries mapped, loads under way, counts.

All views of a cache share it. A forked child begins anew: it has none of its parent's
threads, one of which may hold the lock for ever.
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

_OPENED = 1024
_LOADERS = 16


@dataclass(slots=True)
class Opened:
    """An entry that this process has mapped.

    Attributes:
        name: Its file's.
        indexes: What is in it.
        used: When it was used last.
        noted: When the directory was told of a use; 0 for not since it was loaded.
    """

    name: str
    indexes: CachedIndexes
    used: float
    noted: float


@dataclass(slots=True)
class Counts:
    """What CacheStats tells, while it is counted."""

    hits: int = 0
    misses: int = 0
    loads: int = 0
    load_seconds: float = 0.0
    evictions: int = 0
    corruptions: int = 0


class ProcessState:
    """The state; whoever touches anything in it holds the lock.

    Attributes:
        lock: It.
        opened: Entries that are mapped, those used last.
        loads: Those that are being loaded, each under the policy it is loaded under:
            a view that may wait longer shares no failure of one that may not.
        pool: Who loads them; what hangs does not keep the process from ending.
        counts: What was done.
        removals: How often entries were removed: what was opened before may be gone.
        is_closed: Whether nobody may ask any more.
    """

    lock: threading.Lock
    opened: LRUCache[EntryKey, Opened]
    loads: dict[tuple[EntryKey, RequestPolicy], Future[CachedIndexes]]
    pool: DaemonExecutor
    counts: Counts
    removals: int

    def __init__(self) -> None:
        """Begin with nothing."""
        self.is_closed = False
        self.reset_after_fork()
        _states.add(self)

    def reset_after_fork(self) -> None:
        """Forget everything; a fork's child does this."""
        self.lock = threading.Lock()
        self.opened = LRUCache(_OPENED)
        self.loads = {}
        self.pool = DaemonExecutor(_LOADERS, "tieredfs-index-load")
        self.counts = Counts()
        self.removals = 0

    def keep(self, key: EntryKey, opened: Opened, removals: int) -> None:
        """Keep what was opened, unless it may have been removed since.

        Args:
            key: The entry's.
            opened: What to keep.
            removals: How many there had been before it was opened.
        """
        if removals == self.removals and not self.is_closed:
            self.opened[key] = opened

    def forget(self, names: set[str]) -> None:
        """Let go of entries by the names of their files."""
        peek = Cache.__getitem__  # LRUCache's own would make each the one used last
        gone = [key for key in self.opened if peek(self.opened, key).name in names]
        for key in gone:
            del self.opened[key]


_states: "weakref.WeakSet[ProcessState]" = weakref.WeakSet()


def _in_child() -> None:
    for state in list(_states):
        state.reset_after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
