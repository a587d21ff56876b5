"""What is cached of a copy that is gone never hides the copy that is there."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cache.made import PARTITION, bytes_of, content_of, files_in, made_segment
from tieredfs import (
    CorruptObjectError,
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    PlannedFetch,
    RemoteStorageManager,
    SegmentIndexes,
    SegmentMetadata,
    StorageUnavailableError,
    TieredFSError,
    TopicIdPartition,
)
from tieredfs.cache import IndexCachedStorage, with_index_cache
from tieredfs.storage import LogSource

SEGMENT = made_segment(0)
EMPTY = LogSegmentData(b"", {})


@dataclass
class Copy:
    """One copy of the segment: a layout's data that open its log, and its log."""

    layout: bytes
    log: bytes
    entries: int = 20


class Copies(RemoteStorageManager):
    """A storage whose segment another process can store again under its name.

    Attributes:
        stored: The copy that is there.
        requests: The requests that were sent.
        wrong: What is raised for the log with the layout's data of another copy.
        knows: Whether a copy returns its indexes.
    """

    def __init__(self) -> None:
        """Begin with one copy."""
        super().__init__(ObjectStore("memory://stale-entries"))
        self.stored: Copy | None = Copy(b"manifest 1", b"log one")
        self.requests: list[str] = []
        self.wrong: TieredFSError | None = CorruptObjectError("the tag is wrong")
        self.knows = True
        self.custom = b""

    def replace_elsewhere(self) -> None:
        """Store the segment again, in another process."""
        self.stored = Copy(b"manifest two", b"another log", 10)

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the one."""
        return [PARTITION] if topic in {None, PARTITION.topic} else []

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segment with what it takes in the store."""
        del partition, min_offset
        if self.stored is None:
            return []
        size = len(self.stored.layout) + len(self.stored.log)
        return [replace(SEGMENT, stored_size=size)]

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return the log, if it can be read with the layout's data."""
        del metadata
        copy = self._copy("log" if layout else "manifest and log")
        if layout not in {b"", copy.layout}:
            if self.wrong is not None:
                raise self.wrong
            return memoryview(copy.log)[:7]
        return memoryview(copy.log)[start:end]

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index."""
        return self.fetch_all_indexes(metadata)[index_type]

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return all indexes."""
        del index_types
        copy = self._copy("indexes")
        content = content_of(metadata, copy.entries)
        views = {kind: memoryview(data) for kind, data in content.items()}
        return SegmentIndexes(views, copy.layout)

    def copy_with_indexes(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> tuple[bytes, SegmentIndexes | None]:
        """Store the segment, or find it stored."""
        del data
        self.replace_elsewhere()
        if self.wrong is not None and not self.knows:
            raise self.wrong
        found = self.fetch_all_indexes(metadata)
        return self.custom, found if self.knows else None

    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        """Store the segment."""
        del metadata, log, indexes
        self.replace_elsewhere()
        return self.custom

    def delete_partition(self, partition: TopicIdPartition) -> None:
        """Delete the segment."""
        del partition
        self.stored = None

    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        """Delete the segment, without an answer."""
        del metadata
        self.stored = None
        raise StorageUnavailableError("no answer")

    def _copy(self, request: str) -> Copy:
        self.requests.append(request)
        if self.stored is None:
            raise NotFoundError("not found: the segment")
        return self.stored


@pytest.fixture
def inner() -> Copies:
    """The storage."""
    return Copies()


@pytest.fixture
def storage(inner: Copies, tmp_path: Path) -> IndexCachedStorage:
    """The storage, with the indexes of its first copy in a cache."""
    cached = with_index_cache(inner, tmp_path)
    assert isinstance(cached, IndexCachedStorage)
    cached.fetch_all_indexes(SEGMENT)
    assert cached.fetch_log_segment(SEGMENT) == b"log one"
    inner.requests.clear()
    return cached


def assert_current(inner: Copies, storage: IndexCachedStorage) -> None:
    (listed,) = inner.list_segments(PARTITION)
    assert storage.fetch_log_segment(listed) == b"another log"
    assert bytes_of(storage.fetch_all_indexes(listed)) == content_of(SEGMENT, 10)


@pytest.mark.parametrize("error", [CorruptObjectError, PermissionDeniedError])
@pytest.mark.parametrize("is_given", [True, False])
def test_a_layout_with_which_a_fetch_fails_is_fetched_again_in_one_operation(
    inner: Copies,
    storage: IndexCachedStorage,
    error: type[TieredFSError],
    *,
    is_given: bool,
) -> None:
    layout = storage.fetch_all_indexes(SEGMENT).layout if is_given else b""
    inner.replace_elsewhere()
    inner.wrong = error("it cannot be read with this manifest")
    found = storage.fetch_log_segment(SEGMENT, layout=layout)
    assert found == b"another log"
    assert inner.requests == ["log", "manifest and log"]
    assert files_in(storage.cache.directory) == []
    storage.fetch_all_indexes(SEGMENT)
    assert storage.fetch_log_ahead(SEGMENT, 0, 11) == b"another log"
    assert inner.requests[2:] == ["indexes", "log"]
    assert_current(inner, storage)


def test_a_segment_that_is_gone_is_not_found_and_not_cached(
    inner: Copies, storage: IndexCachedStorage
) -> None:
    inner.stored = None
    with pytest.raises(NotFoundError):
        storage.fetch_log_segment(SEGMENT)
    assert files_in(storage.cache.directory) == []


def test_an_error_that_says_nothing_of_the_layout_is_raised(
    inner: Copies, storage: IndexCachedStorage
) -> None:
    inner.replace_elsewhere()
    inner.wrong = StorageUnavailableError("no answer")
    with pytest.raises(StorageUnavailableError):
        storage.fetch_log_segment(SEGMENT)
    assert inner.requests == ["log"]
    assert len(files_in(storage.cache.directory)) == 1


class Listed(Copies):
    """A storage that compares what is stated with what is listed."""

    def is_layout_current(self, metadata: SegmentMetadata, layout: bytes) -> bool:
        """Compare the length of the data, and that of the log that they state."""
        sizes = {b"manifest 1": 7, b"manifest two": 11}
        return metadata.stored_size in {None, len(layout) + sizes[layout]}


@pytest.mark.parametrize("first", ["log", "indexes", "plan"])
def test_a_layout_that_the_listing_contradicts_is_not_used(
    tmp_path: Path, first: str
) -> None:
    inner = Listed()
    inner.wrong = None  # what it states is read without an error
    storage = with_index_cache(inner, tmp_path)
    storage.fetch_all_indexes(SEGMENT)
    inner.replace_elsewhere()
    (listed,) = storage.list_segments(PARTITION)
    inner.requests.clear()
    if first == "log":
        assert storage.fetch_log_segment(listed) == b"another log"
        assert inner.requests == ["manifest and log"]
    elif first == "plan":
        planned = storage.plan_fetch(listed, 0, 5)
        assert isinstance(planned, PlannedFetch)
        assert inner.requests == []
    for _ in range(2):
        found = storage.fetch_all_indexes(listed)
        assert bytes_of(found) == content_of(SEGMENT, 10)
        assert found.layout == b"manifest two"
    assert inner.requests.count("indexes") == 1
    assert storage.fetch_log_segment(listed) == b"another log"


class TestWhatMayReplaceASegment:
    """Each call is made through the cached storage."""

    def test_a_partition_that_is_deleted_is_not_cached(
        self, storage: IndexCachedStorage
    ) -> None:
        storage.delete_partition(PARTITION)
        assert files_in(storage.cache.directory) == []
        with pytest.raises(NotFoundError):
            storage.fetch_all_indexes(SEGMENT)

    def test_a_deletion_without_an_answer_is_one(
        self, storage: IndexCachedStorage
    ) -> None:
        with pytest.raises(StorageUnavailableError):
            storage.delete_log_segment(SEGMENT)
        assert files_in(storage.cache.directory) == []

    @pytest.mark.parametrize("custom", [b"", b"custom"])
    def test_a_log_that_is_copied_in_place(
        self, inner: Copies, storage: IndexCachedStorage, custom: bytes
    ) -> None:
        inner.custom = custom
        log = LogSource(0, "a log", lambda *_: memoryview(b""), is_steady=True)
        assert storage.copy_open_log(SEGMENT, log, {}) == custom
        assert_current(inner, storage)

    @pytest.mark.parametrize("custom", [b"", b"custom"])
    def test_a_copy_that_found_another_one(
        self, inner: Copies, storage: IndexCachedStorage, custom: bytes
    ) -> None:
        inner.knows, inner.wrong, inner.custom = False, None, custom
        storage.copy_log_segment(SEGMENT, EMPTY)
        assert files_in(storage.cache.directory) == []
        assert_current(inner, storage)

    def test_a_copy_whose_listing_has_no_custom_metadata(
        self, inner: Copies, storage: IndexCachedStorage
    ) -> None:
        inner.custom = b"custom"
        storage.copy_log_segment(SEGMENT, EMPTY)
        assert_current(inner, storage)

    def test_a_copy_that_failed(
        self, inner: Copies, storage: IndexCachedStorage
    ) -> None:
        inner.knows = False
        with suppress(CorruptObjectError):
            storage.copy_log_segment(SEGMENT, EMPTY)
        assert files_in(storage.cache.directory) == []


def test_a_description_from_indexes_of_another_copy_is_asked_for_again(
    inner: Copies, storage: IndexCachedStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = replace(SEGMENT, end_offset=None)

    def describe(
        metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        if indexes is not None and indexes.layout != b"manifest two":
            raise CorruptObjectError("the manifest contradicts the index")
        return replace(metadata, end_offset=SEGMENT.end_offset)

    old = storage.fetch_all_indexes(SEGMENT)
    inner.replace_elsewhere()
    monkeypatch.setattr(inner, "describe", describe)
    for indexes in (None, old):
        assert storage.describe(unknown, indexes).end_offset == SEGMENT.end_offset
