"""Open, write and drop the entries of a cache directory."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from tieredfs.cache.directory import CacheDirectory
from tieredfs.cache.entry import CachedIndexes
from tieredfs.cache.entry_file import InvalidEntryError, decode_entry, encode_entry
from tieredfs.cache.entry_name import EntryName
from tieredfs.cache.process_state import Opened, ProcessState
from tieredfs.errors import ClosedError, TieredFSWarning
from tieredfs.model import SegmentIndexes

__all__ = ["DiskEntries"]


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
        self, entry: EntryName, fetched: SegmentIndexes, patience: float
    ) -> None:
        """Write an entry, and evict others if necessary; warn if that fails.

        Args:
            entry: Name of the entry.
            fetched: The indexes to write.
            patience: Maximum seconds to wait for another process that changes the
                cache.
        """
        pieces = encode_entry(entry.identity, fetched)
        try:
            gone = self.directory.publish(entry.name, pieces, patience)
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
