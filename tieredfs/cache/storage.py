"""A storage whose indexes come from a cache, transparently to the reader."""

import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

from tieredfs.cache.cache import RemoteIndexCache
from tieredfs.cache.directory import max_bytes_if_new
from tieredfs.cache.entry import CachedIndexes
from tieredfs.errors import (
    ClosedError,
    CorruptIndexError,
    CorruptObjectError,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    TieredFSWarning,
    UnsupportedFormatError,
)
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import RequestObserver, RequestPolicy
from tieredfs.storage import (
    LogSource,
    PlannedFetch,
    RemoteStorageManager,
    StorageWrapper,
)

__all__ = ["IndexCachedStorage", "with_index_cache"]

_STALE: Final = (
    CorruptIndexError,
    CorruptObjectError,
    NotFoundError,
    PermissionDeniedError,
)
"""Errors of a call that was given cached data of an earlier copy of its segment; a
manifest may name a key that is no longer in use. A malformed batch is not one: the log
was read as it is stored."""


class IndexCachedStorage(StorageWrapper):
    """A storage that fetches the indexes of a segment once, and then caches them.

    A segment may be deleted and stored again under its name, by this process or by
    another one. What is cached then describes a copy that is gone. So it is forgotten
    with each call that may replace or delete a segment; it is not used where the
    listing contradicts it; and a fetch that failed with it is sent once without it.

    Attributes:
        cache: The cache of the indexes.
    """

    def __init__(self, inner: RemoteStorageManager, cache: RemoteIndexCache) -> None:
        """Wrap ``inner``, whose indexes ``cache`` fetches."""
        super().__init__(inner)
        self.cache = cache

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index of a segment; the first call fetches all of them."""
        found = self._cached(metadata)
        if found is None:
            return self.inner.fetch_index(metadata, index_type)
        return found.index(index_type, self.name_of(metadata))

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes of a segment; the first call fetches all."""
        wanted = list(index_types)
        found = self._cached(metadata)
        if found is None:
            return self.inner.fetch_indexes(metadata, wanted)
        kept = found.indexes
        chosen = {kind: kept[kind] for kind in wanted if kind in kept}
        return SegmentIndexes(chosen, kept.layout)

    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        """Return all indexes of a segment; only the first call fetches them."""
        found = self._cached(metadata)
        if found is None:
            return self.inner.fetch_all_indexes(metadata)
        return found.indexes

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Return ``metadata`` with every field known; only the first call asks."""
        if indexes is None and not metadata.is_described:
            found = self._cached(metadata, describing=True)
            if found is not None:
                known = found.describe(metadata)
                if known is not None:
                    return known
                indexes = found.indexes
        if indexes is not None:
            try:
                return self.inner.describe(metadata, indexes)
            except _STALE:
                self._forget([metadata])
        return self.inner.describe(metadata)

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Return whether an end offset has been verified, by any process."""
        return self.inner.is_end_checked(metadata) or self.cache.is_end_checked(
            metadata
        )

    def note_checked_end(self, metadata: SegmentMetadata) -> None:
        """Keep that an end offset was verified."""
        self.inner.note_checked_end(metadata)
        self.cache.note_checked_end(metadata)

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a part of a log, using the layout's data from the cache."""
        return self._with_layout(
            metadata,
            layout,
            lambda known: self.inner.fetch_log_segment(
                metadata, start, end, layout=known
            ),
        )

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a part of a log or more, as ``fetch_log_segment`` does."""
        return self._with_layout(
            metadata,
            layout,
            lambda known: self.inner.fetch_log_ahead(
                metadata, start, end, layout=known
            ),
        )

    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        """Plan a fetch that has the layout's data from the cache."""
        known = layout or self._current_layout(metadata)
        return self.inner.plan_fetch(metadata, start, end, layout=known, after=after)

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete a segment and its cached indexes; a missing one is not an error."""
        try:
            self.inner.delete_log_segment(metadata)
        finally:  # also where it may have been deleted
            self._forget([metadata])

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete all of a partition, and what is cached of the segments it lists."""
        listed: list[SegmentMetadata] = []
        with suppress(TieredFSError):
            listed = self.inner.list_segments(partition)
        try:
            self.inner.delete_partition(partition)
        finally:
            self._forget(listed)

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment; its indexes are cached, where the layout knows them."""
        custom, _ = self.copy_with_indexes(metadata, data)
        return custom

    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Store a segment, and cache its indexes, where the layout knows them.

        It does not know those of a segment that another process had stored. Then what
        is cached may be of a still earlier copy.
        """
        try:
            custom, indexes = self.inner.copy_with_indexes(metadata, data)
        finally:
            self._forget([metadata])
        stored = replace(metadata, custom_metadata=custom)
        if indexes is None:
            self._forget([stored])
        else:
            # What was stored stays stored: an index may be malformed, or the cache be
            # closed.
            with suppress(ClosedError, CorruptIndexError, UnsupportedFormatError):
                self.cache.put(stored, indexes)
        return custom, indexes

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment; nothing stays cached of an earlier copy."""
        try:
            custom = self.inner.copy_open_log(metadata, log, indexes)
        finally:
            self._forget([metadata])
        self._forget([replace(metadata, custom_metadata=custom)])
        return custom

    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store a segment in place of a damaged copy, of which nothing stays cached."""
        try:
            return self.inner.replace_log_segment(metadata, log, indexes)
        finally:  # also where it may have been replaced
            self._forget_copies(metadata)

    def _forget_copies(self, metadata: SegmentMetadata) -> None:
        """Remove the entries of every listed copy of a segment."""
        name = metadata.start_offset, metadata.id
        listed: list[SegmentMetadata] = [metadata]
        with suppress(TieredFSError):
            listed += self.inner.list_segments(
                metadata.partition, metadata.start_offset
            )
        self._forget([one for one in listed if (one.start_offset, one.id) == name])

    def _forget(self, segments: Iterable[SegmentMetadata]) -> None:
        """Remove the entries of segments, also as listed without custom metadata.

        An entry that cannot be removed is not used where the store shows that it is
        stale, and is evicted some day.
        """
        named: list[SegmentMetadata] = []
        for one in segments:
            named.append(one)
            if one.custom_metadata:
                named.append(replace(one, custom_metadata=b""))
        if named:
            with suppress(ClosedError, OSError):
                self.cache.remove(named)

    def _current_layout(self, metadata: SegmentMetadata) -> bytes:
        """Return the cached layout's data; empty if they are of an earlier copy."""
        layout = self.cache.layout_of(metadata)
        if not layout or self.inner.is_layout_current(metadata, layout):
            return layout
        self._forget([metadata])
        return b""

    def _with_layout(
        self,
        metadata: SegmentMetadata,
        layout: bytes,
        fetch: Callable[[bytes], memoryview],
    ) -> memoryview:
        """Fetch with the layout's data; once more without, if they may be stale.

        Args:
            metadata: The segment.
            layout: What the caller gave, which this storage may have cached; empty to
                take what is cached now.
            fetch: Fetches with the layout's data, or without if they are empty.
        """
        known = layout or self._current_layout(metadata)
        if known:
            try:
                return fetch(known)
            except _STALE:
                self._forget([metadata])
        return fetch(b"")

    def with_policy(self, policy: RequestPolicy) -> Self:
        """Return the same storage, on the same connections and files."""
        view = object.__new__(type(self))
        vars(view).update(vars(self))  # copy() would open another cache, as pickle does
        view.inner = self.inner.with_policy(policy)
        view.store = view.inner.store
        view.cache = self.cache.with_storage(view.inner)
        return self._shared_with(view)

    def with_observer(self, observer: RequestObserver) -> Self:
        """Return the same storage, on the same connections and files."""
        view = super().with_observer(observer)
        view.cache = self.cache.with_storage(view.inner)
        return view

    def close(self) -> None:
        """Close the cache, whose files stay, and the storage behind it."""
        self.cache.close()
        super().close()

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the storage and the location of the cache."""
        cache = self.cache
        arguments = (cache.directory, cache.max_bytes, cache.ttl)
        return _reopened, (self.inner, *arguments)

    def _cached(
        self, metadata: SegmentMetadata, *, describing: bool = False
    ) -> CachedIndexes | None:
        """Return the cached indexes; None for a segment that is not cached.

        An active segment, which a broker is still writing, is not. A damaged index is
        not either: it must not prevent a read of the segment's other indexes.
        """
        if self.inner.is_active(metadata):
            return None
        get = self.cache.get_described if describing else self.cache.get
        try:
            found = get(metadata)
            layout = found.indexes.layout
            if layout and not self.inner.is_layout_current(metadata, layout):
                self._forget([metadata])
                found = get(metadata)
        except (CorruptIndexError, UnsupportedFormatError):
            return None
        return found


def with_index_cache(
    storage: RemoteStorageManager,
    directory: str | os.PathLike[str],
    max_bytes: int | None = None,
    ttl: float | None = None,
) -> RemoteStorageManager:
    """Put a cache of indexes in front of a storage.

    Args:
        storage: The storage to wrap.
        directory: The directory of the cache; created if necessary.
        max_bytes: Maximum bytes on disk, for all processes that share the directory,
            from now on; None to keep the current limit, initially 1 GiB.
        ttl: Seconds without use after which an entry is no longer served.

    Returns:
        The wrapped storage; ``storage`` itself, with a TieredFSWarning, if the
        directory cannot be created or written.
    """
    try:
        cache = RemoteIndexCache(storage, directory, max_bytes=max_bytes, ttl=ttl)
    except OSError as error:
        msg = f"indexes are not cached: {os.fspath(directory)} cannot be used: {error}"
        warnings.warn(msg, TieredFSWarning, stacklevel=2)
        return storage
    return IndexCachedStorage(storage, cache)


def _reopened(
    storage: RemoteStorageManager, directory: Path, max_bytes: int, ttl: float | None
) -> RemoteStorageManager:
    return with_index_cache(
        storage, directory, max_bytes_if_new(directory, max_bytes), ttl
    )
