"""Load each entry once at a time; a load continues when its caller stops waiting.

A miss is one sequence, in ``_load``: take the lock of the entry, open it if another
process has written it meanwhile, else fetch the indexes, check them, write them
(``entries``, ``directory``, ``entry_file``), and open what was written.

A caller waits no longer than its policy's deadline, whatever the load waits for: a free
thread, another process, a store that hangs.
"""

import time
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from tieredfs.cache.entries import DiskEntries
from tieredfs.cache.entry import CachedIndexes, EntryKey, EntryName, check_indexes
from tieredfs.errors import DeadlineExceededError
from tieredfs.model import SegmentIndexes, SegmentMetadata
from tieredfs.objects.concurrency.waiting import result_of
from tieredfs.storage import RemoteStorageManager

__all__ = ["EntryLoader"]

_LOCK_SHARE = 1 / 2
"""Share of a deadline to wait for another process that loads the entry; the rest is for
a fetch of our own, if that process is stopped."""

_PUBLISH_SHARE = 1 / 4
"""Share of a deadline to wait for the lock to write a fetched entry."""


@dataclass(frozen=True, slots=True)
class EntryLoader:
    """Fetches entries that are not on disk, and writes them there.

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
                    patience = policy.deadline * _LOCK_SHARE
                    lock = entries.directory.loading(entry.name, patience)
                    locked.enter_context(lock)
                removals = state.removals
                opened = entries.open_counted(entry, base_offset)
                if opened is None:
                    fetched = self._fetch(metadata)
                    patience = policy.deadline * _PUBLISH_SHARE
                    entries.publish(entry, fetched, patience)
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
