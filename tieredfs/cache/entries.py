"""The entries that a process has mapped, and those on disk.

All views of a cache share the state of their process. A forked child starts with an
empty one: it has none of its parent's threads, one of which may have held the lock.
What is neither mapped nor on disk is loaded: see ``loader``.
"""

import os
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from cachetools import Cache, LRUCache

from tieredfs.cache.description import SegmentDescription
from tieredfs.cache.directory import CacheDirectory
from tieredfs.cache.entry import CachedIndexes, EntryKey, EntryName
from tieredfs.cache.entry_file import InvalidEntryError, decode_entry, encode_entry
from tieredfs.cache.stats import Counts
from tieredfs.errors import (
    ClosedError,
    TieredFSWarning,
)
from tieredfs.format.buffers import Buffer
from tieredfs.model import SegmentIndexes
from tieredfs.objects import RequestPolicy
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor

__all__ = ["DiskEntries", "Opened", "ProcessState"]

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


class ProcessState:
    """The state of a cache in one process; every change requires the lock.

    Attributes:
        lock: Protects the other attributes.
        opened: The mapped entries that were used last.
        loads: Entries that are being loaded, by entry, request policy and whether they
            are described: a view with a longer deadline does not share the failure of
            one with a shorter deadline.
        pool: The threads that load entries; a load that hangs does not keep the process
            from ending.
        counts: The counters.
        removals: Number of removals so far: an entry opened before one may be gone.
        is_closed: Whether the cache was closed.
    """

    lock: threading.Lock
    opened: LRUCache[EntryKey, Opened]
    loads: dict[tuple[EntryKey, RequestPolicy, bool], Future[CachedIndexes]]
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


@dataclass(frozen=True, slots=True)
class DiskEntries:
    """The entries on disk, and the process's counters of them.

    Attributes:
        directory: The directory of the entries.
        state: The counters, and the entries that are mapped.
        ttl: Seconds without use after which an entry is no longer served.
        clock: Returns seconds since 1970.
    """

    directory: CacheDirectory
    state: ProcessState
    ttl: float | None
    clock: Callable[[], float]

    def check_open(self) -> None:
        """Raise ClosedError if the cache was closed."""
        if self.state.is_closed:
            msg = f"the index cache in {self.directory.path} is closed"
            raise ClosedError(msg)

    def is_idle(self, now: float, used: float) -> bool:
        """Return whether an entry last used at ``used`` is no longer served."""
        return self.ttl is not None and now - used > self.ttl

    def open(self, entry: EntryName, base_offset: int) -> Opened | None:
        """Map an entry and check every byte of it.

        Returns:
            The entry; None if it is missing or has expired.

        Raises:
            InvalidEntryError: The entry is not what was written.
        """
        now = self.clock()
        try:
            if self.ttl is not None:
                used = self.directory.used(entry.name)
                if used is None or self.is_idle(now, used):
                    return None
            data = self.directory.read(entry.name)
        except FileNotFoundError:
            return None
        except OSError as error:
            msg = f"it cannot be read: {error}"
            raise InvalidEntryError(msg) from error
        indexes, description = decode_entry(data, entry.identity)
        held = CachedIndexes(indexes, base_offset, description)
        return Opened(entry.name, held, now, 0.0)

    def open_counted(self, entry: EntryName, base_offset: int) -> Opened | None:
        """Map an entry; count an invalid one, and return None for it."""
        try:
            return self.open(entry, base_offset)
        except InvalidEntryError:
            with self.state.lock:
                self.state.counts.corruptions += 1
            return None

    def publish(
        self,
        entry: EntryName,
        fetched: SegmentIndexes,
        timeout: float,
        description: SegmentDescription | None = None,
    ) -> None:
        """Write an entry, and evict others if necessary; warn if that fails.

        Args:
            entry: Name of the entry.
            fetched: The indexes to write.
            timeout: Maximum seconds to wait for another process that changes the
                cache.
            description: The segment's description, if it is known.
        """
        pieces = encode_entry(entry.identity, fetched, description)
        self._put(self.directory.publish, entry.name, pieces, timeout)

    def rewrite(
        self,
        entry: EntryName,
        kept: SegmentIndexes,
        timeout: float,
        description: SegmentDescription,
    ) -> None:
        """Write a description into an entry that exists; warn if that fails.

        Args:
            entry: Name of the entry; one that was removed meanwhile stays removed.
            kept: The indexes in it.
            timeout: As in ``publish``.
            description: The segment's description.
        """
        pieces = encode_entry(entry.identity, kept, description)
        self._put(self.directory.rewrite, entry.name, pieces, timeout)

    def _put(
        self,
        write: Callable[[str, Sequence[Buffer], float], list[str]],
        name: str,
        pieces: Sequence[Buffer],
        timeout: float,
    ) -> None:
        try:
            gone = write(name, pieces, timeout)
        except OSError as error:
            msg = f"{self.directory.path}: indexes cannot be cached: {error}"
            warnings.warn(msg, TieredFSWarning, stacklevel=3)
        else:
            self.drop(gone)

    def drop(self, names: Iterable[str]) -> None:
        """Count evicted entries, and release their mappings."""
        gone = set(names)
        if not gone:
            return
        with self.state.lock:
            self.state.counts.evictions += len(gone)
            self.state.forget(gone)
