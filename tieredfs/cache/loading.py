"""One load of an entry at a time, which outlives whoever waits for it.

A caller waits as long as its policy lets one call take, whatever the load waits for: a
free thread, another process, a store that hangs.
"""

import time
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from tieredfs.cache.disk_entries import DiskEntries
from tieredfs.cache.entry import CachedIndexes, check_indexes
from tieredfs.cache.entry_name import EntryKey, EntryName
from tieredfs.errors import DeadlineExceededError
from tieredfs.model import SegmentIndexes, SegmentMetadata
from tieredfs.objects.concurrency.waiting import result_of
from tieredfs.storage import RemoteStorageManager

__all__ = ["EntryLoader"]

_LOCK_SHARE = 1 / 2
"""Of a deadline, what is waited for another process that loads the entry; the rest is
for a fetch of our own, when that process stands still."""

_PUBLISH_SHARE = 1 / 4
"""Of a deadline, what is waited to keep what was fetched."""


@dataclass(frozen=True, slots=True)
class EntryLoader:
    """Fetches what is not on disk, and puts it there.

    Attributes:
        storage: Where indexes come from.
        entries: Where they are kept.
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
        """Have an entry loaded, or wait for the load that is under way.

        Args:
            metadata: Whose indexes they are.
            key: What the process knows the entry by.
            entry: What the directory knows it by.
            timeout: Seconds to wait; None for the deadline of the storage's policy. The
                load goes on afterwards, and serves the next.

        Raises:
            ClosedError: The cache was closed.
            DeadlineExceededError: ``timeout`` passed.
            UnsupportedOperationError: It is waited for on the event loop that the
                store's client needs.
            TieredFSError: What the load raised.
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
            if future.done():  # it raised that itself, or came to its end just now
                return future.result()
        name = self.storage.name_of(metadata)
        msg = f"{name}: indexes not there in {timeout:g} s"
        raise DeadlineExceededError(msg)

    def _begin(
        self, metadata: SegmentMetadata, key: EntryKey, entry: EntryName
    ) -> Future[CachedIndexes]:
        """Return the load of an entry that is under way, or begin one."""
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
        """Fetch an entry and keep it, unless another process just did."""
        entries, state = self.entries, self.entries.state
        policy = self.storage.store.policy
        base_offset = metadata.start_offset
        try:
            with ExitStack() as alone:
                # Where there can be no lock, or whoever has it stands still, two fetch.
                with suppress(OSError):
                    patience = policy.deadline * _LOCK_SHARE
                    lock = entries.directory.loading(entry.name, patience)
                    alone.enter_context(lock)
                removals = state.removals
                opened = entries.open_counted(entry, base_offset)
                if opened is None:
                    fetched = self._fetch(metadata)
                    patience = policy.deadline * _PUBLISH_SHARE
                    entries.publish(entry, fetched, patience)
                    removals = state.removals
                    opened = entries.open_counted(entry, base_offset)
            if opened is None:  # it could not be kept
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
