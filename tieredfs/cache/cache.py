"""Kafka's RemoteIndexCache: a cache of segment indexes on a local disk."""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from numbers import Real
from pathlib import Path
from types import TracebackType
from typing import Self

from tieredfs.cache.directory import DEFAULT_BYTES, CacheDirectory, max_bytes_if_new
from tieredfs.cache.entries import DiskEntries, ProcessState
from tieredfs.cache.entry import (
    CachedIndexes,
    EntryKey,
    check_indexes,
    entry_name,
    key_of,
)
from tieredfs.cache.entry_file import InvalidEntryError
from tieredfs.cache.loader import EntryLoader
from tieredfs.cache.stats import CacheStats
from tieredfs.cache.user_directory import given_directory
from tieredfs.errors import InvalidArgumentError
from tieredfs.format.buffers import Int64Array
from tieredfs.format.index.offset import OffsetPosition
from tieredfs.format.index.txn import CollectedAborts
from tieredfs.integers import is_integer
from tieredfs.model import SegmentIndexes, SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["RemoteIndexCache"]

_TOUCH_INTERVAL_SECONDS = 30.0
"""Minimum interval, in seconds, of recording the uses of an entry on disk."""


class RemoteIndexCache:
    """Fetch the indexes of segments once, and keep them across restarts.

    The directory may be shared by any number of caches, threads and processes, for any
    stores. A file that is missing, truncated, changed, or of another version or store
    costs one ``fetch_all_indexes``, never an error. Indexes that a caller holds stay
    readable, whatever happens to the cache.

    A cache may be shared by threads, used after a fork, and pickled; each process has
    its own state, over the same files.

    Source: Kafka's RemoteIndexCache (KIP-405), KIP-1002.

    Attributes:
        storage: The storage that the indexes are fetched from.
        ttl: Seconds without use after which an entry is no longer served.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        directory: str | os.PathLike[str],
        *,
        max_bytes: int | None = None,
        ttl: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open a cache; existing entries are mapped when they are first used.

        Args:
            storage: The storage to fetch indexes from.
            directory: The directory of the entries; created if necessary.
            max_bytes: Maximum bytes on disk, for all processes that share the
                directory, from now on; None to keep the current limit, initially 1 GiB.
            ttl: Seconds without use after which an entry is no longer served; None for
                no limit.
            clock: Returns seconds since 1970.

        Raises:
            InvalidArgumentError: ``max_bytes`` is negative or exceeds 63 bits,
                ``ttl`` is not above 0, or ``directory`` is a URL.
            OSError: The directory cannot be created or written.
        """
        if max_bytes is not None:
            _check_max_bytes(max_bytes)
        if ttl is not None:
            _check_ttl(ttl)
        self.storage = storage
        self.ttl = ttl
        self._clock = clock
        self._touch_interval = (
            _TOUCH_INTERVAL_SECONDS
            if ttl is None
            else min(_TOUCH_INTERVAL_SECONDS, ttl / 4)
        )
        self._identity = storage.identity
        self._directory = CacheDirectory(
            given_directory(directory), DEFAULT_BYTES, clock
        )
        self._directory.establish(max_bytes)
        self._state = ProcessState()
        self._entries = DiskEntries(self._directory, self._state, ttl, clock)
        self._loader = EntryLoader(storage, self._entries)

    @property
    def directory(self) -> Path:
        """The directory of the entries."""
        return self._directory.path

    @property
    def max_bytes(self) -> int:
        """Maximum bytes on disk, for all processes that share the directory."""
        return self._directory.max_bytes

    @property
    def stats(self) -> CacheStats:
        """The counters of this cache, and the bytes in the directory.

        The directory is scanned each time, so that the bytes are those on disk,
        whatever other programs do: about 5 ms for 1,000 entries.
        """
        size = self._directory.usage().size
        with self._state.lock:
            return self._state.counts.stats(size)

    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        """Return the indexes of a segment, fetching them in one operation if necessary.

        An invalid file is replaced. A segment without any index is not kept: it may
        have been deleted, and may be copied again. Of concurrent callers for one
        segment, in any process, one fetches. The fetch goes on after ``timeout``, and
        serves the next call.

        Args:
            metadata: Metadata of the segment, as listed.
            timeout: Seconds to wait for a fetch; None for the deadline of the storage's
                policy.

        Raises:
            ClosedError: The cache was closed.
            CorruptIndexError: The stored indexes are malformed; nothing is cached, and
                the next call fetches again.
            DeadlineExceededError: ``timeout`` passed.
            TieredFSError: The error of the storage.
        """
        return self._get(metadata, timeout, describing=False)

    def get_described(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        """Return the indexes of a segment with its description, as ``get`` does.

        The storage describes the segment once. The description is kept in the file of
        the indexes: it is checked, evicted and removed with them, and one that the
        listing contradicts is replaced.

        Args:
            metadata: Metadata of the segment, as listed.
            timeout: As ``get`` takes it.

        Returns:
            The entry; without a description if that could not be found out.

        Raises:
            TieredFSError: As in ``get``.
        """
        return self._get(metadata, timeout, describing=True)

    def put(self, metadata: SegmentMetadata, indexes: SegmentIndexes) -> None:
        """Keep the indexes of a segment that was just stored, without a fetch.

        An entry that exists is replaced. Nothing happens if it cannot be written, or if
        there are no indexes: ``get`` fetches them then.

        Args:
            metadata: The segment, with the custom metadata that it will be listed with.
            indexes: What the storage's ``fetch_all_indexes`` returns for it.

        Raises:
            ClosedError: The cache was closed.
            CorruptIndexError: An index is malformed, or points outside the segment.
        """
        with self._state.lock:
            self._entries.check_open()
        check_indexes(indexes, metadata, self.storage.name_of(metadata))
        if indexes.indexes:
            entry = entry_name(self._identity, metadata)
            with suppress(OSError):
                self._loader.keep(indexes, key_of(metadata), entry)

    def note_checked_end(self, metadata: SegmentMetadata) -> None:
        """Keep with a description that its end offset was compared with the log.

        Nothing happens if the entry has no such description, or cannot be written.

        Args:
            metadata: The segment, as ``describe`` returned it.

        Raises:
            ClosedError: The cache was closed.
        """
        with self._state.lock:
            self._entries.check_open()
        entry = entry_name(self._identity, metadata)
        with suppress(OSError):
            self._loader.note(metadata, key_of(metadata), entry)

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Return whether ``note_checked_end`` was called for a segment as described.

        It sends no request.

        Args:
            metadata: The segment, as ``describe`` returned it.
        """
        found = self._peek(metadata)
        if found is None or found.description is None:
            return False
        return found.description.is_end_checked and found.describe(metadata) == metadata

    def layout_of(self, metadata: SegmentMetadata) -> bytes:
        """Return the layout's data of a segment from the cache, without a fetch.

        Returns:
            The data; empty if it is not cached, or the layout has none.
        """
        found = self._peek(metadata)
        return b"" if found is None else found.indexes.layout

    def with_storage(self, storage: RemoteStorageManager) -> "RemoteIndexCache":
        """Return a view of this cache that fetches from another view of the storage.

        Both share their mapped entries and counters, and are closed together.
        """
        view = object.__new__(type(self))
        vars(view).update(vars(self))  # copy() would open another one, as pickle does
        view.storage = storage
        view._loader = EntryLoader(storage, self._entries)
        return view

    def lookup_offset(self, metadata: SegmentMetadata, offset: int) -> OffsetPosition:
        """Return where in a segment's log to look for an offset; fetch if necessary."""
        return self.get(metadata).lookup_offset(offset)

    def lookup_offsets(
        self, metadata: SegmentMetadata, offsets: Int64Array
    ) -> Int64Array:
        """Return the log positions of many offsets of a segment; fetch if necessary."""
        return self.get(metadata).lookup_offsets(offsets)

    def lookup_timestamp(
        self, metadata: SegmentMetadata, timestamp: int, start_offset: int = 0
    ) -> OffsetPosition:
        """Return where in a segment's log to look for a time in ms since 1970."""
        return self.get(metadata).lookup_timestamp(timestamp, start_offset)

    def aborted_transactions(
        self, metadata: SegmentMetadata, start: int, end: int
    ) -> CollectedAborts:
        """Collect a segment's aborted transactions that touch ``[start, end)``."""
        return self.get(metadata).aborted_transactions(start, end)

    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        """Remove segments from memory and disk; a missing one is not an error.

        Raises:
            ClosedError: The cache was closed.
            OSError: The files cannot be removed.
        """
        with self._state.lock:
            self._entries.check_open()
        names = [entry_name(self._identity, metadata).name for metadata in segments]
        try:
            self._directory.remove(names)
        finally:  # after the files: a thread that opened one before notices it
            with self._state.lock:
                self._state.removals += 1
                self._state.forget(set(names))

    def clear(self) -> None:
        """Remove all segments, including those of other stores in the directory.

        Raises:
            ClosedError: The cache was closed.
            OSError: The files cannot be removed.
        """
        with self._state.lock:
            self._entries.check_open()
        try:
            self._directory.clear()
        finally:
            with self._state.lock:
                self._state.removals += 1
                self._state.opened.clear()

    def resize(self, max_bytes: int) -> None:
        """Set the maximum bytes on disk, for all processes that share the directory.

        Raises:
            ClosedError: The cache was closed.
            InvalidArgumentError: ``max_bytes`` is negative or exceeds 63 bits.
            OSError: The directory cannot be written.
        """
        _check_max_bytes(max_bytes)
        with self._state.lock:
            self._entries.check_open()
        self._entries.drop(self._directory.resize(max_bytes))

    def close(self) -> None:
        """Close the cache and its views; the files stay. It may be called repeatedly.

        Indexes that a caller holds stay readable. A fetch in progress runs to its end,
        but does not keep the process from ending.
        """
        with self._state.lock:
            self._state.is_closed = True
            self._state.opened.clear()
        self._state.pool.shutdown(wait=False, cancel_futures=True)

    def __enter__(self) -> Self:
        """Use the cache in a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the cache."""
        self.close()

    def __repr__(self) -> str:
        """Show the storage and the directory, without secrets."""
        return f"RemoteIndexCache({self.storage!r}, {str(self.directory)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the storage, directory and limits, but not the counters."""
        arguments = (self.storage, self.directory, self.max_bytes, self.ttl)
        return _reopened, arguments

    def _get(
        self, metadata: SegmentMetadata, timeout: float | None, *, describing: bool
    ) -> CachedIndexes:
        """Return an entry that is mapped; else map or load it."""
        key = key_of(metadata)
        now = self._clock()
        state = self._state
        with state.lock:
            self._entries.check_open()
            opened = state.opened.get(key)
            if opened is not None and self._entries.is_idle(now, opened.used):
                del state.opened[key]
                opened = None
            if opened is not None and describing:
                opened = opened if opened.indexes.describe(metadata) else None
            if opened is not None:
                state.counts.hits += 1
                opened.used = now
                if now - opened.noted < self._touch_interval:
                    return opened.indexes
                opened.noted = now
        if opened is None:
            return self._find(metadata, key, timeout, describing=describing)
        self._directory.touch(opened.name)
        return opened.indexes

    def _peek(self, metadata: SegmentMetadata) -> CachedIndexes | None:
        """Return an entry that is mapped or on disk, without a fetch."""
        key = key_of(metadata)
        state = self._state
        with state.lock:
            opened = state.opened.get(key)
            removals = state.removals
        if opened is None:
            with suppress(InvalidEntryError):
                entry = entry_name(self._identity, metadata)
                opened = self._entries.open(entry, metadata.start_offset)
            if opened is None:
                return None
            with state.lock:  # else each range of a log would check the entry again
                state.keep(key, opened, removals)
        return opened.indexes

    def _find(
        self,
        metadata: SegmentMetadata,
        key: EntryKey,
        timeout: float | None,
        *,
        describing: bool,
    ) -> CachedIndexes:
        """Map an entry that is not mapped yet, or load it."""
        entry = entry_name(self._identity, metadata)
        state = self._state
        removals = state.removals
        opened = None
        with suppress(InvalidEntryError):  # the load counts it
            opened = self._entries.open(entry, metadata.start_offset)
        if opened is None or (describing and opened.indexes.describe(metadata) is None):
            found = self._loader.load(
                metadata,
                key,
                entry,
                timeout,
                is_known=opened is not None,
                describing=describing,
            )
            if opened is not None:
                self._directory.touch(entry.name)
            return found
        opened.noted = opened.used
        with state.lock:
            self._entries.check_open()
            state.counts.hits += 1
            state.keep(key, opened, removals)
        self._directory.touch(entry.name)
        return opened.indexes


def _check_ttl(ttl: object) -> None:
    if not isinstance(ttl, Real) or not float(ttl) > 0:
        msg = f"ttl {ttl!r} is not a number of seconds above 0"
        raise InvalidArgumentError(msg)


def _check_max_bytes(max_bytes: int) -> None:
    if not is_integer(max_bytes) or not 0 <= max_bytes < 1 << 63:
        msg = f"max_bytes {max_bytes!r} is not an integer from 0 to 2**63 - 1"
        raise InvalidArgumentError(msg)


def _reopened(
    storage: RemoteStorageManager, directory: Path, max_bytes: int, ttl: float | None
) -> RemoteIndexCache:
    limit = max_bytes_if_new(directory, max_bytes)
    return RemoteIndexCache(storage, directory, max_bytes=limit, ttl=ttl)
