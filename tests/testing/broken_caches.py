"""Caches that are wrong, and what the machine says of each."""

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
    entries,
    entry_file,
)
from tieredfs.cache import cache as cache_module
from tieredfs.cache.entry import EntryName, entry_name
from tieredfs.errors import CorruptIndexError
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


@contextmanager
def unlocked(*_: object) -> Iterator[None]:
    """Do nothing, in place of a context."""
    yield


def same_store(identity: str, metadata: SegmentMetadata) -> EntryName:
    del identity
    return entry_name("", metadata)


def same_segment(identity: str, metadata: SegmentMetadata) -> EntryName:
    return entry_name(identity, replace(metadata, id=SegmentId.from_bytes(bytes(16))))


PATCHED: dict[str, Callable[[], Any]] = {
    "trusts a damaged file": lambda: patch.object(entry_file, "crc32c", lambda _: 0),
    "takes no lock": lambda: patch.object(CacheDirectory, "loading", unlocked),
    "checks no index": lambda: patch.object(entries, "check_indexes"),
    "knows no store": lambda: patch.object(cache_module, "entry_name", same_store),
    "names files by offset": lambda: patch.object(
        cache_module, "entry_name", same_segment
    ),
}
"""What goes wrong deep inside of the cache."""

BROKEN: dict[type[RemoteIndexCache] | str, str] = {
    KeepsByOffset: "an index is that of its segment: .* returned those of",
    KnowsNoVersions: "an index is that of its segment: .* returned those of",
    FetchesEachTime: "what is held is not fetched again",
    FetchesOneByOne: "all indexes are fetched in one operation",
    LosesAnOptionalIndex: "no index is lost: .* no TRANSACTION index",
    ForgetsAtRestart: "what is held is not fetched again",
    ExceedsTheLimit: "the size on disk keeps to its bound",
    KeepsItsOwnLimit: "a limit is that of all handles",
    KeepsErrors: "a failure is not kept",
    TakesFailuresForNothing: "a failure of the storage is raised, each time",
    RemovesAnothersToo: "an entry stays while there is room: after remove",
    RemovesFromMemoryAlone: "what is removed is gone",
    ServesWhatItRemoved: "what was removed or has expired is not served",
    ClearsOthersFiles: "files of other programs stay: after clear",
    LeavesUnfinishedFiles: "a new handle removes what a crash has left",
    BreaksWhatIsHeld: "what get.* had returned, looked at after",
    "trusts a damaged file": "the store has, to the byte|another bit|gets back its",
    "takes no lock": "all indexes are fetched in one operation, by one of concurrent",
    "checks no index": "a failure of the storage is raised, each time",
    "knows no store": "returned those of|an entry stays while there is room: .* remove",
    "names files by offset": "an index is that of its segment: .* returned those of",
}
"""What is wrong, and the sentence that the machine says of it."""
