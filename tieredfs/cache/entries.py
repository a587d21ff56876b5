"""The entries that a process has mapped, those on disk, and those being loaded.

All views of a cache share the state of their process. A forked child starts with an
empty one: it has none of its parent's threads, one of which may have held the lock.

A miss is one sequence, in ``EntryLoader._load``: take the lock of the entry, open it if
another process has written it meanwhile, else fetch the indexes, check them, write them
(``directory``, ``entry_file``), and open what was written.
"""

import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from cachetools import Cache, LRUCache

from tieredfs.cache.directory import CacheDirectory
from tieredfs.cache.entry import CachedIndexes, EntryKey, EntryName, check_indexes
from tieredfs.cache.entry_file import InvalidEntryError, decode_entry, encode_entry
from tieredfs.cache.stats import Counts
from tieredfs.errors import ClosedError, DeadlineExceededError, TieredFSWarning
from tieredfs.model import SegmentIndexes, SegmentMetadata
from tieredfs.objects import RequestPolicy
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import result_of
from tieredfs.storage import RemoteStorageManager

__all__ = ["DiskEntries", "EntryLoader", "Opened", "ProcessState"]

_MAX_MAPPED_ENTRIES = 1024
_MAX_LOADERS = 16

_LOCK_SHARE = 1 / 2
"""Share of a deadline to wait for another process that loads the entry; the rest is for
a fetch of our own, if that process is stopped."""

_PUBLISH_SHARE = 1 / 4
"""Share of a deadline to wait for the lock to write a fetched entry."""


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
        indexes = decode_entry(data, entry.identity)
        return Opened(entry.name, CachedIndexes(indexes, base_offset), now, 0.0)

    def open_counted(self, entry: EntryName, base_offset: int) -> Opened | None:
        """Map an entry; count an invalid one, and return None for it."""
        try:
            return self.open(entry, base_offset)
        except InvalidEntryError:
            with self.state.lock:
                self.state.counts.corruptions += 1
            return None

    def publish(
        self, entry: EntryName, fetched: SegmentIndexes, timeout: float
    ) -> None:
        """Write an entry, and evict others if necessary; warn if that fails.

        Args:
            entry: Name of the entry.
            fetched: The indexes to write.
            timeout: Maximum seconds to wait for another process that changes the
                cache.
        """
        pieces = encode_entry(entry.identity, fetched)
        try:
            gone = self.directory.publish(entry.name, pieces, timeout)
        except OSError as error:
            msg = f"{self.directory.path}: indexes cannot be cached: {error}"
            warnings.warn(msg, TieredFSWarning, stacklevel=2)
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


@dataclass(frozen=True, slots=True)
class EntryLoader:
    """Fetches entries that are not on disk, each once at a time, and writes them there.

    A caller waits no longer than its policy's deadline, whatever the load waits for: a
    free thread, another process, a store that hangs. The load continues afterwards.

    Attributes:
        storage: The storage to fetch indexes from.
        entries: The entries on disk.
    """

    storage: RemoteStorageManager
    entries: DiskEntries

    def load(
        self,
        metadata: SegmentMetadata,
        key: EntryKey,
        entry: EntryName,
        timeout: float | None,
    ) -> CachedIndexes:
        """Load an entry, or wait for a load that is in progress.

        Args:
            metadata: Metadata of the segment.
            key: Key of the entry in the process.
            entry: Name of the entry in the directory.
            timeout: Seconds to wait; None for the deadline of the storage's policy. The
                load goes on afterwards, and serves the next call.

        Raises:
            ClosedError: The cache was closed.
            DeadlineExceededError: ``timeout`` passed.
            UnsupportedOperationError: This thread runs the event loop that the store's
                client needs.
            TieredFSError: The error of the load.
        """
        self.storage.store.check_thread()
        if timeout is None:
            timeout = self.storage.store.policy.deadline
        future = self._begin(metadata, key, entry)
        try:
            return result_of(future, timeout)
        except CancelledError:  # it had not begun when the cache was closed
            self.entries.check_open()
            raise
        except TimeoutError:
            if future.done():  # it raised TimeoutError itself, or ended just now
                return future.result()
        name = self.storage.name_of(metadata)
        msg = f"{name}: indexes not loaded in {timeout:g} s"
        raise DeadlineExceededError(msg)

    def _begin(
        self, metadata: SegmentMetadata, key: EntryKey, entry: EntryName
    ) -> Future[CachedIndexes]:
        """Return the load of an entry that is in progress, or begin one."""
        state = self.entries.state
        load = (key, self.storage.store.policy)
        with state.lock:
            self.entries.check_open()
            state.counts.misses += 1
            future = state.loads.get(load)
            if future is None:
                future = state.pool.submit(self._load, metadata, key, entry)
                state.loads[load] = future
            return future

    def _load(
        self, metadata: SegmentMetadata, key: EntryKey, entry: EntryName
    ) -> CachedIndexes:
        """Fetch an entry and write it, unless another process just did."""
        entries, state = self.entries, self.entries.state
        policy = self.storage.store.policy
        base_offset = metadata.start_offset
        try:
            with ExitStack() as locked:
                # If the disk has no locks, or the holder is stopped, two may fetch.
                with suppress(OSError):
                    timeout = policy.deadline * _LOCK_SHARE
                    lock = entries.directory.loading(entry.name, timeout)
                    locked.enter_context(lock)
                removals = state.removals
                opened = entries.open_counted(entry, base_offset)
                if opened is None:
                    fetched = self._fetch(metadata)
                    if not fetched.indexes:  # it was deleted, and may be copied again
                        return CachedIndexes(fetched, base_offset)
                    timeout = policy.deadline * _PUBLISH_SHARE
                    entries.publish(entry, fetched, timeout)
                    removals = state.removals
                    opened = entries.open_counted(entry, base_offset)
            if opened is None:  # it could not be written
                return CachedIndexes(fetched, base_offset)
            with state.lock:
                state.keep(key, opened, removals)
            return opened.indexes
        finally:
            with state.lock:
                state.loads.pop((key, policy), None)

    def _fetch(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Fetch all indexes of a segment, and check them."""
        begun = time.perf_counter()
        fetched = self.storage.fetch_all_indexes(metadata)
        taken = time.perf_counter() - begun
        state = self.entries.state
        with state.lock:
            state.counts.loads += 1
            state.counts.load_seconds += taken
        check_indexes(fetched, metadata, self.storage.name_of(metadata))
        return fetched
