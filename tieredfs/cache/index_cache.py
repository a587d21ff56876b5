"""Kafka's RemoteIndexCache: indexes of stored segments, kept on a local disk."""

import os
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Self

from cachetools import LRUCache

from tieredfs.cache.directory import CacheDirectory
from tieredfs.cache.entry import CachedIndexes, check_indexes
from tieredfs.cache.entry_file import InvalidEntryError, decode_entry, encode_entry
from tieredfs.cache.stats import CacheStats
from tieredfs.errors import (
    ClosedError,
    DeadlineExceededError,
    InvalidArgumentError,
    TieredFSWarning,
)
from tieredfs.format.offset_index import OffsetPosition
from tieredfs.format.txn_index import CollectedAborts
from tieredfs.format.varints import Int64Array
from tieredfs.model import SegmentIndexes, SegmentMetadata, TopicIdPartition, Uuid
from tieredfs.storage import RemoteStorageManager

__all__ = ["DEFAULT_BYTES", "RemoteIndexCache"]

DEFAULT_BYTES = 1 << 30
"""Bytes on disk that a cache may take, unless it is told otherwise: 1 GiB, as Kafka."""

_OPENED = 1024
_LOADERS = 16
_TOUCH_SECONDS = 30.0

_Key = tuple[TopicIdPartition, Uuid, str]


@dataclass(slots=True)
class _Opened:
    """An entry that this process has mapped."""

    name: str
    indexes: CachedIndexes
    used: float
    noted: float
    """When the directory was told of a use; 0 for not since it was loaded."""


@dataclass(slots=True)
class _Counts:
    hits: int = 0
    misses: int = 0
    loads: int = 0
    load_seconds: float = 0.0
    evictions: int = 0
    corruptions: int = 0


@dataclass(slots=True)
class _Live:
    """What a forked child must begin anew, and a pickle leaves at home."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    opened: "LRUCache[_Key, _Opened]" = field(default_factory=lambda: LRUCache(_OPENED))
    loads: "dict[_Key, Future[CachedIndexes]]" = field(default_factory=dict)
    pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_LOADERS, "tieredfs-index-load")
    )


class RemoteIndexCache:
    """Fetch the indexes of segments once, and keep them across restarts.

    The directory may be shared by any number of caches, threads and processes, of any
    stores. What is in it that is missing, short, changed, of another version or store
    costs one ``fetch_all_indexes``, never an error. An entry that was handed out stays
    readable, whatever becomes of the cache.

    A cache may be shared by threads, used after a fork, and pickled; each process has
    its own, over the same files.

    Source: Kafka's RemoteIndexCache (KIP-405), KIP-1002.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        directory: str | os.PathLike[str],
        *,
        max_bytes: int = DEFAULT_BYTES,
        ttl: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Open a cache; entries that are there are opened when they are asked for.

        Args:
            storage: Where the indexes come from.
            directory: Where they are kept; made if need be.
            max_bytes: Bytes on disk, of all that share the directory: the one that was
                opened or resized last decides.
            ttl: Seconds after which an entry that nobody used is not served any more;
                None for never.
            clock: Seconds since 1970.

        Raises:
            InvalidArgumentError: ``max_bytes`` is negative, or ``ttl`` not above 0.
            OSError: The directory cannot be made or written.
        """
        if max_bytes < 0 or (ttl is not None and not ttl > 0):
            msg = f"not a cache: max_bytes={max_bytes}, ttl={ttl}"
            raise InvalidArgumentError(msg)
        self.storage = storage
        self._clock = clock
        self._ttl = ttl
        self.max_bytes = max_bytes
        self._directory = CacheDirectory(Path(directory), max_bytes, clock)
        self._place = f"{type(storage).__qualname__}\0{storage.store.identity}"
        self._counts = _Counts()
        self._live = _Live()
        self._is_closed = False
        _caches.add(self)

    @property
    def directory(self) -> Path:
        """Where the entries are."""
        return self._directory.path

    @property
    def stats(self) -> CacheStats:
        """What this cache has done so far, and what the directory holds."""
        size = self._directory.usage().size
        with self._live.lock:
            counts = self._counts
            return CacheStats(
                counts.hits,
                counts.misses,
                counts.loads,
                counts.load_seconds,
                counts.evictions,
                counts.corruptions,
                size,
            )

    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        """Return the indexes of a segment, fetched anew if need be, in one operation.

        A file that is not valid is replaced. Of several that want one segment, in any
        process, one fetches; it goes on when ``timeout`` passes, and serves the next.

        Args:
            metadata: As it was listed.
            timeout: Seconds to wait for a fetch; None for as long as the storage's
                policy lets it take.

        Raises:
            ClosedError: The cache was closed.
            CorruptIndexError: The stored indexes are malformed; nothing is kept, and
                the next call asks again.
            DeadlineExceededError: ``timeout`` passed.
            TieredFSError: What the storage raised.
        """
        key = (metadata.partition, metadata.id, metadata.version)
        now = self._clock()
        with self._live.lock:
            self._check_open()
            opened = self._live.opened.get(key)
            if opened is not None and self._is_idle(now, opened.used):
                del self._live.opened[key]
                opened = None
            if opened is not None:
                self._counts.hits += 1
                opened.used = now
                if now - opened.noted < _TOUCH_SECONDS:
                    return opened.indexes
                opened.noted = now
        if opened is None:
            return self._find(metadata, key, timeout)
        self._directory.use_again(opened.name)
        return opened.indexes

    def layout_of(self, metadata: SegmentMetadata) -> bytes:
        """Return what the layout keeps of a segment, if that is here; nothing is asked.

        Returns:
            Empty when it is not here, or there is nothing that the layout keeps.
        """
        key = (metadata.partition, metadata.id, metadata.version)
        with self._live.lock:
            opened = self._live.opened.get(key)
        if opened is not None:
            return opened.indexes.indexes.layout
        found, _ = self._open(*self._identify(metadata), metadata)
        return b"" if found is None else found.indexes.layout

    def in_front_of(self, storage: RemoteStorageManager) -> "RemoteIndexCache":
        """Return a cache over the same files that asks another view of the storage."""
        view = copy(self)
        view.storage = storage
        _caches.add(view)
        return view

    def lookup_offset(self, metadata: SegmentMetadata, offset: int) -> OffsetPosition:
        """Return where in a segment's log to look for an offset, by ``get``."""
        return self.get(metadata).lookup_offset(offset)

    def lookup_offsets(
        self, metadata: SegmentMetadata, offsets: Int64Array
    ) -> Int64Array:
        """Return the positions of many offsets of a segment at once, by ``get``."""
        return self.get(metadata).lookup_offsets(offsets)

    def lookup_timestamp(
        self, metadata: SegmentMetadata, timestamp: int, start_offset: int = 0
    ) -> OffsetPosition:
        """Return where in a segment's log to look for a time (ms), by ``get``."""
        return self.get(metadata).lookup_timestamp(timestamp, start_offset)

    def aborted_transactions(
        self, metadata: SegmentMetadata, start: int, end: int
    ) -> CollectedAborts:
        """Collect a segment's aborted transactions that touch ``[start, end)``."""
        return self.get(metadata).aborted_transactions(start, end)

    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        """Forget segments, here and on disk; one that is not there is no error.

        Raises:
            ClosedError: The cache was closed.
        """
        gone = list(segments)
        with self._live.lock:
            self._check_open()
            for metadata in gone:
                key = (metadata.partition, metadata.id, metadata.version)
                self._live.opened.pop(key, None)
        self._directory.remove([self._identify(metadata)[0] for metadata in gone])

    def clear(self) -> None:
        """Forget all segments, those of other stores in the directory too.

        Raises:
            ClosedError: The cache was closed.
        """
        with self._live.lock:
            self._check_open()
            self._live.opened.clear()
        self._directory.clear()

    def resize(self, max_bytes: int) -> None:
        """Set how many bytes all that share the directory may keep.

        Raises:
            ClosedError: The cache was closed.
            InvalidArgumentError: ``max_bytes`` is negative.
        """
        if max_bytes < 0:
            msg = f"a cache cannot have {max_bytes} bytes"
            raise InvalidArgumentError(msg)
        with self._live.lock:
            self._check_open()
        self.max_bytes = max_bytes
        self._drop(self._directory.resize(max_bytes))

    def close(self) -> None:
        """Let go of everything but the files; again is no error.

        What was handed out stays readable; a fetch that is under way comes to its end.
        """
        with self._live.lock:
            self._is_closed = True
            self._live.opened.clear()
        self._live.pool.shutdown(wait=False, cancel_futures=True)

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
        """Pickle where it is and how large; what it has done stays here."""
        arguments = (self.storage, self.directory, self.max_bytes, self._ttl)
        return _reopened, arguments

    def begin_anew(self) -> None:
        """Forget what a fork cannot take along; the child does this."""
        self._live = _Live()

    def _check_open(self) -> None:
        if self._is_closed:
            msg = f"{self!r} is closed"
            raise ClosedError(msg)

    def _is_idle(self, now: float, used: float) -> bool:
        return self._ttl is not None and now - used > self._ttl

    def _identify(self, metadata: SegmentMetadata) -> tuple[str, bytes]:
        """Return the name of a segment's file, and what the file says that it is."""
        partition = metadata.partition
        parts = (
            self._place,
            partition.topic,
            str(partition.topic_id),
            str(partition.partition),
            str(metadata.id),
            str(metadata.start_offset),
            metadata.version,
        )
        digest = sha256("\0".join(parts).encode()).digest()
        return digest[:16].hex(), digest

    def _find(
        self, metadata: SegmentMetadata, key: _Key, timeout: float | None
    ) -> CachedIndexes:
        """Open an entry that is not held, or have it loaded."""
        name, identity = self._identify(metadata)
        found, is_corrupt = self._open(name, identity, metadata)
        if found is not None:
            now = self._clock()
            with self._live.lock:
                self._check_open()
                self._counts.hits += 1
                self._live.opened[key] = _Opened(name, found, now, now)
            self._directory.use_again(name)
            return found
        with self._live.lock:
            self._check_open()
            self._counts.misses += 1
            self._counts.corruptions += is_corrupt
            future = self._live.loads.get(key)
            if future is None:
                future = self._live.pool.submit(self._load, metadata, key)
                self._live.loads[key] = future
        try:
            return future.result(timeout)
        except CancelledError:
            self._check_open()
            raise
        except TimeoutError as error:
            if future.done():
                raise
            msg = (
                f"{self.storage.name_of(metadata)}: indexes not there in {timeout:g} s"
            )
            raise DeadlineExceededError(msg) from error

    def _open(
        self, name: str, identity: bytes, metadata: SegmentMetadata
    ) -> tuple[CachedIndexes | None, bool]:
        """Open an entry from disk, and tell whether there was one that is not valid."""
        try:
            if self._ttl is not None:
                used = self._directory.used(name)
                if used is None or self._is_idle(self._clock(), used):
                    return None, False
            indexes = decode_entry(self._directory.read(name), identity)
        except FileNotFoundError:
            return None, False
        except (OSError, InvalidEntryError):
            return None, True
        return CachedIndexes(indexes, metadata.start_offset), False

    def _load(self, metadata: SegmentMetadata, key: _Key) -> CachedIndexes:
        """Fetch an entry and keep it, unless another process just did."""
        name, identity = self._identify(metadata)
        live = self._live
        try:
            with self._directory.loading(name):
                found, _ = self._open(name, identity, metadata)
                if found is None:
                    fetched = self._fetch(name, identity, metadata)
                    found, _ = self._open(name, identity, metadata)
            if found is None:  # there is no room for it
                return CachedIndexes(fetched, metadata.start_offset)
            with live.lock:
                if not self._is_closed:
                    live.opened[key] = _Opened(name, found, self._clock(), 0.0)
            return found
        finally:
            with live.lock:
                live.loads.pop(key, None)

    def _fetch(
        self, name: str, identity: bytes, metadata: SegmentMetadata
    ) -> SegmentIndexes:
        """Fetch all indexes of a segment, and write them to disk if that can be."""
        begun = time.perf_counter()
        fetched = self.storage.fetch_all_indexes(metadata)
        with self._live.lock:
            self._counts.loads += 1
            self._counts.load_seconds += time.perf_counter() - begun
        check_indexes(fetched, metadata, self.storage.name_of(metadata))
        try:
            self._drop(self._directory.publish(name, encode_entry(identity, fetched)))
        except OSError as error:
            msg = f"{self.directory}: indexes cannot be kept: {error}"
            warnings.warn(msg, TieredFSWarning, stacklevel=2)
        return fetched

    def _drop(self, names: Iterable[str]) -> None:
        """Count entries that had to go, and let go of them."""
        gone = set(names)
        if not gone:
            return
        with self._live.lock:
            self._counts.evictions += len(gone)
            opened = self._live.opened
            for key in [key for key, entry in opened.items() if entry.name in gone]:
                del opened[key]


def _reopened(
    storage: RemoteStorageManager, directory: Path, max_bytes: int, ttl: float | None
) -> RemoteIndexCache:
    return RemoteIndexCache(storage, directory, max_bytes=max_bytes, ttl=ttl)


_caches: "weakref.WeakSet[RemoteIndexCache]" = weakref.WeakSet()


def _in_child() -> None:
    for cache in list(_caches):
        cache.begin_anew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
