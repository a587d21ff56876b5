"""Caches that are wrong, and what the machine says of each."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typing_extensions import override

from tieredfs import (
    IndexType,
    NotFoundError,
    RemoteStorageManager,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    StorageUnavailableError,
)
from tieredfs.cache import (
    CachedIndexes,
    CacheDirectory,
    RemoteIndexCache,
    entry_file,
    loader,
)
from tieredfs.cache import cache as cache_module
from tieredfs.cache import (
    directory as directory_module,
)
from tieredfs.cache.description import SegmentDescription
from tieredfs.cache.entries import DiskEntries, Opened, ProcessState
from tieredfs.cache.entry import EntryKey, EntryName, entry_name
from tieredfs.cache.entry_file import encode_entry
from tieredfs.cache.eviction import Candidate, plan_evictions
from tieredfs.errors import ClosedError, CorruptIndexError
from tieredfs.format.index.offset import OffsetPosition
from tieredfs.format.index.txn import CollectedAborts
from tieredfs.storage import StorageWrapper

__all__ = ["BROKEN", "PATCHED", "unlocked"]

FAILURES = (CorruptIndexError, NotFoundError, StorageUnavailableError, TimeoutError)


class KeepsByOffset(RemoteIndexCache):
    """Keeps in memory what it found, whatever else has the same offset later."""

    @override
    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        known: dict[str, CachedIndexes] = vars(self).setdefault("known", {})
        found = super().get(metadata, timeout=timeout)
        if not found.indexes:
            return found
        return known.setdefault(self.name_of(metadata), found)

    @override
    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        given = [*segments]
        super().remove(given)
        for metadata in given:
            vars(self).get("known", {}).pop(self.name_of(metadata), None)

    def name_of(self, metadata: SegmentMetadata) -> str:
        return str(metadata.start_offset)


class KnowsNoVersions(KeepsByOffset):
    @override
    def name_of(self, metadata: SegmentMetadata) -> str:
        return str(metadata.id)


class DescribesEachTime(RemoteIndexCache):
    """A cache that keeps no description."""

    def get_described(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        """Ask the storage."""
        found = self.get(metadata, timeout=timeout)
        described = self.storage.describe(metadata, found.indexes)
        description = SegmentDescription.of(described)
        return CachedIndexes(found.indexes, metadata.start_offset, description)


class FetchesEachTime(RemoteIndexCache):
    @override
    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        self.remove([metadata])
        return super().get(metadata, timeout=timeout)


class OneByOne(StorageWrapper):
    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        kinds = self.inner.fetch_all_indexes(metadata)
        found = {kind: self.inner.fetch_index(metadata, kind) for kind in kinds}
        return SegmentIndexes(found, kinds.layout)


class FetchesOneByOne(RemoteIndexCache):
    def __init__(
        self,
        storage: RemoteStorageManager,
        directory: Path,
        **given: Any,  # noqa: ANN401 - as it was given
    ) -> None:
        super().__init__(OneByOne(storage), directory, **given)


class Dropping(StorageWrapper):
    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        found = self.inner.fetch_all_indexes(metadata)
        kept = dict(found)
        kept.pop(IndexType.TRANSACTION, None)
        return SegmentIndexes(kept, found.layout)


class LosesAnOptionalIndex(RemoteIndexCache):
    def __init__(
        self,
        storage: RemoteStorageManager,
        directory: Path,
        **given: Any,  # noqa: ANN401 - as it was given
    ) -> None:
        super().__init__(Dropping(storage), directory, **given)


class ForgetsAtRestart(RemoteIndexCache):
    @override
    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        known: set[SegmentMetadata] = vars(self).setdefault("known", set())
        if metadata not in known:
            self.remove([metadata])
            known.add(metadata)
        return super().get(metadata, timeout=timeout)


class ExceedsTheLimit(RemoteIndexCache):
    """Evicts nothing, and says that it has the limit that it was given."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        directory: Path,
        *,
        max_bytes: int | None = None,
        **given: Any,  # noqa: ANN401 - as it was given
    ) -> None:
        super().__init__(storage, directory, max_bytes=1 << 30, **given)
        if max_bytes is not None:
            (self.directory / "limit").write_text(str(max_bytes))

    @property
    @override
    def max_bytes(self) -> int:
        return int((self.directory / "limit").read_text())

    @override
    def resize(self, max_bytes: int) -> None:
        super().resize(1 << 30)
        (self.directory / "limit").write_text(str(max_bytes))


class KeepsItsOwnLimit(RemoteIndexCache):
    @override
    def resize(self, max_bytes: int) -> None:
        vars(self)["own"] = max_bytes

    @property
    @override
    def max_bytes(self) -> int:
        own: int = vars(self).get("own", super().max_bytes)
        return own


class KeepsErrors(RemoteIndexCache):
    @override
    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        errors: dict[str, Exception] = vars(self).setdefault("errors", {})
        if str(metadata) in errors:
            raise errors[str(metadata)]
        try:
            return super().get(metadata, timeout=timeout)
        except FAILURES as error:
            errors[str(metadata)] = error
            raise


class TakesFailuresForNothing(RemoteIndexCache):
    @override
    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        try:
            return super().get(metadata, timeout=timeout)
        except FAILURES:
            return CachedIndexes(SegmentIndexes(), metadata.start_offset)


class RemovesAnothersToo(RemoteIndexCache):
    @override
    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        if [*segments]:
            self.clear()


class RemovesFromMemoryAlone(RemoteIndexCache):
    @override
    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        self._state.opened.clear()


class ServesWhatItRemoved(RemoteIndexCache):
    @override
    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        names = [entry_name(self._identity, metadata).name for metadata in segments]
        self._directory.remove(names)


class ClearsOthersFiles(RemoteIndexCache):
    @override
    def clear(self) -> None:
        super().clear()
        shutil.rmtree(self.directory)
        self.resize(self.max_bytes)


class LeavesUnfinishedFiles(RemoteIndexCache):
    def __init__(
        self,
        storage: RemoteStorageManager,
        directory: Path,
        **given: Any,  # noqa: ANN401 - as it was given
    ) -> None:
        with patch.object(CacheDirectory, "_remove_leftover"):
            super().__init__(storage, directory, **given)


class BreaksWhatIsHeld(RemoteIndexCache):
    """Overwrites what it removes, in the file that others have mapped."""

    @override
    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        given = [*segments]
        for one in given:
            name = entry_name(self._identity, one).name
            path = self.directory / f"{name}.indexes"
            if path.is_file():
                with path.open("r+b") as file:
                    file.write(bytes(path.stat().st_size))
        super().remove(given)


class Mixing(StorageWrapper):
    """Knows only the segment that it was asked for last, by any thread."""

    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        vars(self)["asked"] = metadata
        found = self.inner.fetch_all_indexes(metadata)
        stored: dict[SegmentMetadata, SegmentIndexes] = vars(self.inner)["stored"]
        return found if self.asked == metadata else stored[self.asked]

    @property
    def asked(self) -> SegmentMetadata:
        """The segment."""
        asked: SegmentMetadata = vars(self)["asked"]
        return asked


class MixesFetches(RemoteIndexCache):
    def __init__(
        self,
        storage: RemoteStorageManager,
        directory: Path,
        **given: Any,  # noqa: ANN401 - as it was given
    ) -> None:
        super().__init__(Mixing(storage), directory, **given)


class IgnoresTimeouts(RemoteIndexCache):
    @override
    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        return super().get(metadata)


class ClosesItsViewsApart(RemoteIndexCache):
    @override
    def close(self) -> None:
        vars(self)["shut"] = True

    @override
    def get(
        self, metadata: SegmentMetadata, *, timeout: float | None = None
    ) -> CachedIndexes:
        if "shut" in vars(self):
            raise ClosedError("it is closed")
        return super().get(metadata, timeout=timeout)

    @override
    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        if "shut" in vars(self):
            raise ClosedError("it is closed")
        super().remove(segments)

    @override
    def clear(self) -> None:
        if "shut" in vars(self):
            raise ClosedError("it is closed")
        super().clear()

    @override
    def resize(self, max_bytes: int) -> None:
        if "shut" in vars(self):
            raise ClosedError("it is closed")
        super().resize(max_bytes)


class CountsItsViewsApart(RemoteIndexCache):
    @override
    def with_storage(self, storage: RemoteStorageManager) -> RemoteIndexCache:
        return RemoteIndexCache(storage, self.directory)


class ViewsFetchFromItsStorage(RemoteIndexCache):
    @override
    def with_storage(self, storage: RemoteStorageManager) -> RemoteIndexCache:
        return super().with_storage(self.storage)


class IgnoresTheStartOffset(RemoteIndexCache):
    @override
    def lookup_timestamp(
        self, metadata: SegmentMetadata, timestamp: int, start_offset: int = 0
    ) -> OffsetPosition:
        return super().lookup_timestamp(metadata, timestamp)


class CollectsAbortsFromTheNextOffset(RemoteIndexCache):
    @override
    def aborted_transactions(
        self, metadata: SegmentMetadata, start: int, end: int
    ) -> CollectedAborts:
        return super().aborted_transactions(metadata, start + 1, end)


class CollectsAbortsToTheOffsetBefore(RemoteIndexCache):
    @override
    def aborted_transactions(
        self, metadata: SegmentMetadata, start: int, end: int
    ) -> CollectedAborts:
        return super().aborted_transactions(metadata, start, max(start, end - 1))


@contextmanager
def reopened(cache: RemoteIndexCache) -> Iterator[None]:
    """Let a closed cache work for a while."""
    state = vars(cache)["_state"]
    was_closed, state.is_closed = state.is_closed, False
    try:
        yield
    finally:
        state.is_closed = was_closed


class RemovesWhenClosed(RemoteIndexCache):
    @override
    def remove(self, segments: Iterable[SegmentMetadata]) -> None:
        with reopened(self):
            super().remove(segments)


class ClearsWhenClosed(RemoteIndexCache):
    @override
    def clear(self) -> None:
        with reopened(self):
            super().clear()


class ResizesWhenClosed(RemoteIndexCache):
    @override
    def resize(self, max_bytes: int) -> None:
        with reopened(self):
            super().resize(max_bytes)


class ClearsBeforeItSaysThatItIsClosed(RemoteIndexCache):
    @override
    def clear(self) -> None:
        self._directory.clear()
        super().clear()


class ResizesUncounted(RemoteIndexCache):
    @override
    def resize(self, max_bytes: int) -> None:
        self._entries.check_open()
        self._state.forget(set(self._directory.resize(max_bytes)))


@contextmanager
def unlocked(*_: object) -> Iterator[None]:
    """Do nothing, in place of a context."""
    yield


def same_store(identity: str, metadata: SegmentMetadata) -> EntryName:
    del identity
    return entry_name("", metadata)


def same_segment(identity: str, metadata: SegmentMetadata) -> EntryName:
    return entry_name(identity, replace(metadata, id=SegmentId.from_bytes(bytes(16))))


def keep_always(
    self: ProcessState, key: EntryKey, opened: Opened, removals: int
) -> None:
    del removals
    self.opened[key] = opened


def describe_anyway(
    self: SegmentDescription, listed: SegmentMetadata
) -> SegmentMetadata:
    return replace(
        listed,
        size=self.size,
        max_timestamp_ms=self.max_timestamp_ms,
        leader_epochs=self.leader_epochs,
        record_count=self.record_count,
    )


def publish_or_raise(
    self: DiskEntries,
    entry: EntryName,
    fetched: SegmentIndexes,
    timeout: float,
    description: SegmentDescription | None = None,
) -> None:
    pieces = encode_entry(entry.identity, fetched, description)
    self.drop(self.directory.publish(entry.name, pieces, timeout))


def remove_all_but_ours(path: Path, writer: int) -> None:
    if writer != os.getpid():
        path.unlink(missing_ok=True)


def evict_all(candidates: Iterable[Candidate], room: int) -> list[Candidate]:
    found = [*candidates]
    return found if sum(one.size for one in found) > room else []


def evict_newest(candidates: Iterable[Candidate], room: int) -> list[Candidate]:
    found = sorted(candidates, key=lambda one: one.used)
    total = sum(one.size for one in found)
    gone: list[Candidate] = []
    while found and total > room:
        gone.append(found.pop())
        total -= gone[-1].size
    return gone


def evict_one_more(candidates: Iterable[Candidate], room: int) -> list[Candidate]:
    found = [*candidates]
    gone = plan_evictions(found, room)
    kept = sorted({*found} - {*gone}, key=lambda one: one.used)
    return [*gone, *kept[:1]] if gone else []


def evict_hot_first(candidates: Iterable[Candidate], room: int) -> list[Candidate]:
    cold = [replace(one, is_hot=not one.is_hot) for one in candidates]
    return plan_evictions(cold, room)


PATCHED: dict[str, Callable[[], Any]] = {
    "trusts a damaged file": lambda: patch.object(entry_file, "crc32c", lambda _: 0),
    "takes no lock": lambda: patch.object(CacheDirectory, "loading", unlocked),
    "checks no index": lambda: patch.object(loader, "check_indexes"),
    "knows no store": lambda: patch.object(cache_module, "entry_name", same_store),
    "names files by offset": lambda: patch.object(
        cache_module, "entry_name", same_segment
    ),
    "keeps what was removed meanwhile": lambda: patch.object(
        ProcessState, "keep", keep_always
    ),
    "trusts any description": lambda: patch.object(
        SegmentDescription, "describe", describe_anyway
    ),
    "raises when the disk is full": lambda: patch.object(
        DiskEntries, "publish", publish_or_raise
    ),
    "removes what another process writes": lambda: patch.object(
        CacheDirectory, "_remove_leftover", staticmethod(remove_all_but_ours)
    ),
    "evicts all": lambda: patch.object(directory_module, "plan_evictions", evict_all),
    "evicts the newest": lambda: patch.object(
        directory_module, "plan_evictions", evict_newest
    ),
    "evicts one more": lambda: patch.object(
        directory_module, "plan_evictions", evict_one_more
    ),
    "evicts what is used often": lambda: patch.object(
        directory_module, "plan_evictions", evict_hot_first
    ),
}
"""What goes wrong deep inside of the cache."""

BROKEN: dict[type[RemoteIndexCache] | str, str] = {
    KeepsByOffset: "an index is that of its segment: .* returned those of",
    KnowsNoVersions: "an index is that of its segment: .* returned those of",
    FetchesEachTime: "what is held is not fetched again",
    FetchesOneByOne: "all indexes are fetched in one operation|was fetched 5 times",
    LosesAnOptionalIndex: "no index is lost: .* no TRANSACTION index",
    ForgetsAtRestart: "what is held is not fetched again",
    ExceedsTheLimit: "the size on disk keeps to its bound",
    KeepsItsOwnLimit: "a limit is that of all handles|resize returned",
    KeepsErrors: "a failure is not kept",
    TakesFailuresForNothing: "failure of the storage is raised, each|its storage hung",
    RemovesAnothersToo: "an entry stays while there is room: after remove",
    RemovesFromMemoryAlone: "what is removed is gone",
    ServesWhatItRemoved: "what was removed or has expired is not served",
    ClearsOthersFiles: "files of other programs stay: after clear",
    LeavesUnfinishedFiles: "a new handle removes what a crash has left",
    BreaksWhatIsHeld: "get.* had returned, looked at after|to the byte: get.* returned",
    "trusts a damaged file": "the store has, to the byte|another bit|gets back its",
    "takes no lock": "all indexes are fetched in one operation, by one of concurrent",
    "checks no index": "a failure of the storage is raised, each time",
    "knows no store": "returned those of|an entry stays while there is room: .* remove",
    "names files by offset": "an index is that of its segment: .* returned those of",
    MixesFetches: "its segment: get of .* returned those of|served: get of .* raised",
    "keeps what was removed meanwhile": "what was removed or has expired is not served",
    "removes what another process writes": "what another process is writing stays",
    DescribesEachTime: "what was described is not described again",
    "trusts any description": "a description is that of its segment as listed",
    "raises when the disk is full": "a full disk is not an error of a read",
    IgnoresTimeouts: "a caller waits no longer than its timeout",
    ClosesItsViewsApart: "a closed cache says so: get returned",
    CountsItsViewsApart: "the counters are true: get.* by a view",
    ViewsFetchFromItsStorage: "a view fetches from its own storage",
    IgnoresTheStartOffset: "the last entry at or below: lookup_timestamp",
    CollectsAbortsFromTheNextOffset: "a lookup finds a segment's aborts",
    CollectsAbortsToTheOffsetBefore: "a lookup finds a segment's aborts",
    "evicts all": "no more is evicted than has to be",
    "evicts one more": "no more is evicted than has to be",
    "evicts the newest": "(not used for longest|used once) is evicted first",
    "evicts what is used often": "what was used once is evicted first",
    ResizesUncounted: "the counters are true: resize",
    RemovesWhenClosed: "a closed cache says so: remove returned",
    ClearsWhenClosed: "a closed cache says so: clear returned",
    ResizesWhenClosed: "a closed cache says so: resize returned",
    ClearsBeforeItSaysThatItIsClosed: "an entry stays while there is room: .* calls of",
}
"""What is wrong, and the sentence that the machine says of it."""
