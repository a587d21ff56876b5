"""The entries of a directory, as a cache opens, writes and drops them."""

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
    """What lies on disk, and what was counted of it.

    Attributes:
        directory: Where it lies.
        state: Who counts.
        ttl: Seconds after which an entry that nobody used is not served any more.
        clock: Seconds since 1970.
    """

    directory: CacheDirectory
    state: ProcessState
    ttl: float | None
    clock: Callable[[], float]

    def check_open(self) -> None:
        """Refuse to go on when the cache was closed."""
        if self.state.is_closed:
            msg = f"the index cache in {self.directory.path} is closed"
            raise ClosedError(msg)

    def is_idle(self, now: float, used: float) -> bool:
        """Tell whether an entry that was used last at a time is served no more."""
        return self.ttl is not None and now - used > self.ttl

    def open(self, entry: EntryName, base_offset: int) -> Opened | None:
        """Map an entry and check every byte of it.

        Returns:
            None when there is none.

        Raises:
            InvalidEntryError: There is one, but not what was written.
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
        """Map an entry; one that is not valid is counted, and as good as none."""
        try:
            return self.open(entry, base_offset)
        except InvalidEntryError:
            with self.state.lock:
                self.state.counts.corruptions += 1
            return None

    def publish(
        self, entry: EntryName, fetched: SegmentIndexes, patience: float
    ) -> None:
        """Write an entry, if that can be; others may have to go for it.

        Args:
            entry: Its name.
            fetched: What is in it.
            patience: Most seconds to wait for another process that changes the cache.
        """
        pieces = encode_entry(entry.identity, fetched)
        try:
            gone = self.directory.publish(entry.name, pieces, patience)
        except OSError as error:
            msg = f"{self.directory.path}: indexes cannot be kept: {error}"
            warnings.warn(msg, TieredFSWarning, stacklevel=2)
        else:
            self.drop(gone)

    def drop(self, names: Iterable[str]) -> None:
        """Count entries that had to go, and let go of them."""
        gone = set(names)
        if not gone:
            return
        with self.state.lock:
            self.state.counts.evictions += len(gone)
            self.state.forget(gone)
