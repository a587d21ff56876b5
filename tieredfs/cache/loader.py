"""The load of an entry that is not on disk, or is without a description.

A miss is one sequence, in ``EntryLoader._load``: take the lock of the entry, open it if
another process has written it meanwhile, else fetch the indexes, check them, describe
the segment if that is asked for, write both (``directory``, ``entry_file``), and open
what was written.
"""

import time
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace

from tieredfs.cache.description import SegmentDescription
from tieredfs.cache.entries import DiskEntries
from tieredfs.cache.entry import CachedIndexes, EntryKey, EntryName, check_indexes
from tieredfs.errors import DeadlineExceededError, TieredFSError
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
        *,
        is_known: bool = False,
        describing: bool = False,
    ) -> CachedIndexes:
        """Load an entry, or wait for a load that is in progress.

        Args:
            metadata: Metadata of the segment.
            key: Key of the entry in the process.
            entry: Name of the entry in the directory.
            timeout: Seconds to wait; None for the deadline of the storage's policy. The
                load goes on afterwards, and serves the next call.
            is_known: Whether the entry exists, and only its description is missing.
            describing: Whether the segment is described as well. If that fails, the
                result has no description.

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
        future = self._begin(
            metadata, key, entry, is_known=is_known, describing=describing
        )
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

    def keep(self, indexes: SegmentIndexes, key: EntryKey, entry: EntryName) -> None:
        """Write an entry that was not fetched.

        Args:
            indexes: The indexes, checked.
            key: Key of the entry in the process.
            entry: Name of the entry in the directory.
        """
        timeout = self.storage.store.policy.deadline * _PUBLISH_SHARE
        with self.entries.directory.loading(entry.name, timeout):
            self.entries.publish(entry, indexes, timeout)
        with self.entries.state.lock:
            self.entries.state.opened.pop(key, None)

    def note(self, metadata: SegmentMetadata, key: EntryKey, entry: EntryName) -> None:
        """Note in an entry that its segment's end offset was compared with the log.

        Args:
            metadata: The segment, described: an entry with another description, or
                without one, does not change.
            key: Key of the entry in the process.
            entry: Name of the entry in the directory.
        """
        timeout = self.storage.store.policy.deadline * _PUBLISH_SHARE
        with self.entries.directory.loading(entry.name, timeout):
            opened = self.entries.open_counted(entry, metadata.start_offset)
            known = opened.indexes.description if opened else None
            if opened is None or known is None or known.describe(metadata) is None:
                return
            checked = replace(known, is_end_checked=True)
            self.entries.rewrite(entry, opened.indexes.indexes, timeout, checked)
        with self.entries.state.lock:
            self.entries.state.opened.pop(key, None)

    def _begin(
        self,
        metadata: SegmentMetadata,
        key: EntryKey,
        entry: EntryName,
        *,
        is_known: bool,
        describing: bool,
    ) -> Future[CachedIndexes]:
        """Return the load of an entry that is in progress, or begin one."""
        state = self.entries.state
        load = (key, self.storage.store.policy, describing)
        with state.lock:
            self.entries.check_open()
            state.counts.hits += is_known
            state.counts.misses += not is_known
            future = state.loads.get(load)
            if future is None:
                future = state.pool.submit(
                    self._load, metadata, key, entry, describing=describing
                )
                state.loads[load] = future
            return future

    def _load(
        self,
        metadata: SegmentMetadata,
        key: EntryKey,
        entry: EntryName,
        *,
        describing: bool,
    ) -> CachedIndexes:
        """Fetch an entry and write it, unless another process just did."""
        entries, state = self.entries, self.entries.state
        policy = self.storage.store.policy
        try:
            with ExitStack() as locked:
                # If the disk has no locks, or the holder is stopped, two may fetch.
                with suppress(OSError):
                    timeout = policy.deadline * _LOCK_SHARE
                    lock = entries.directory.loading(entry.name, timeout)
                    locked.enter_context(lock)
                removals = state.removals
                opened = entries.open_counted(entry, metadata.start_offset)
                if opened is None:
                    indexes = self._fetch(metadata)
                    if not indexes.indexes:  # it was deleted, and may be copied again
                        return CachedIndexes(indexes, metadata.start_offset)
                elif describing and opened.indexes.describe(metadata) is None:
                    indexes = opened.indexes.indexes  # which the storage then takes
                else:
                    with state.lock:
                        state.keep(key, opened, removals)
                    return opened.indexes
                description = self._describe(metadata, indexes) if describing else None
                timeout = policy.deadline * _PUBLISH_SHARE
                if opened is None:
                    entries.publish(entry, indexes, timeout, description)
                elif description is not None:
                    entries.rewrite(entry, indexes, timeout, description)
                removals = state.removals
                opened = entries.open_counted(entry, metadata.start_offset)
            if opened is None:  # it could not be written
                return CachedIndexes(indexes, metadata.start_offset, description)
            with state.lock:
                state.keep(key, opened, removals)
            return opened.indexes
        finally:
            with state.lock:
                state.loads.pop((key, policy, describing), None)

    def _describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes
    ) -> SegmentDescription | None:
        """Describe a segment; return None if that fails: then the caller tries."""
        with suppress(TieredFSError):
            return SegmentDescription.of(self.storage.describe(metadata, indexes))
        return None

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
