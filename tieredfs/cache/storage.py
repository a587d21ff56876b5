"""A storage whose indexes come from a cache, transparently to the reader."""

import os
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from tieredfs.cache.cache import RemoteIndexCache
from tieredfs.cache.directory import max_bytes_if_new
from tieredfs.cache.entry import CachedIndexes
from tieredfs.errors import (
    ClosedError,
    CorruptIndexError,
    TieredFSError,
    TieredFSWarning,
    UnsupportedFormatError,
)
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentIndexes,
    SegmentMetadata,
)
from tieredfs.objects import RequestObserver, RequestPolicy
from tieredfs.storage import (
    LogSource,
    PlannedFetch,
    RemoteStorageManager,
    StorageWrapper,
)

__all__ = ["IndexCachedStorage", "with_index_cache"]


class IndexCachedStorage(StorageWrapper):
    """A storage that fetches the indexes of a segment once, and then caches them.

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
                return known or self._describe_again(metadata, found.indexes)
        return self.inner.describe(metadata, indexes)

    def _describe_again(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes
    ) -> SegmentMetadata:
        """Describe a segment whose description is not cached, which has failed before.

        The cached indexes may be those of a damaged copy that another process has
        replaced since.
        """
        try:
            return self.inner.describe(metadata, indexes)
        except CorruptIndexError:
            with suppress(OSError):
                self.cache.remove([metadata])
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
        known = layout or self.cache.layout_of(metadata)
        return self.inner.fetch_log_segment(metadata, start, end, layout=known)

    def fetch_log_ahead(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return a part of a log or more, as ``fetch_log_segment`` does."""
        known = layout or self.cache.layout_of(metadata)
        return self.inner.fetch_log_ahead(metadata, start, end, layout=known)

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
        known = layout or self.cache.layout_of(metadata)
        return self.inner.plan_fetch(metadata, start, end, layout=known, after=after)

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete a segment and its cached indexes; a missing one is not an error."""
        self.inner.delete_log_segment(metadata)
        # An entry that remains is not used again, and is evicted first.
        with suppress(OSError):
            self.cache.remove([metadata])

    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        """Store a segment; its indexes are cached, where the layout knows them."""
        custom, _ = self.copy_with_indexes(metadata, data)
        return custom

    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Store a segment, and cache its indexes, where the layout knows them."""
        custom, indexes = self.inner.copy_with_indexes(metadata, data)
        if indexes is not None:
            # What was stored stays stored: an index may be malformed, or the cache be
            # closed.
            with suppress(ClosedError, CorruptIndexError, UnsupportedFormatError):
                self.cache.put(replace(metadata, custom_metadata=custom), indexes)
        return custom, indexes

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
        with suppress(OSError):
            self.cache.remove(
                [one for one in listed if (one.start_offset, one.id) == name]
            )

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
        try:
            if describing:
                return self.cache.get_described(metadata)
            return self.cache.get(metadata)
        except (CorruptIndexError, UnsupportedFormatError):
            return None


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
