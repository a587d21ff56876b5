"""A segment is described once, and the description has the fate of its entry."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.made import Made, bytes_of, content_of, files_in, made_segment
from tieredfs import (
    ClosedError,
    CorruptBatchError,
    CorruptIndexError,
    EpochEntry,
    SegmentIndexes,
    SegmentMetadata,
    StorageUnavailableError,
)
from tieredfs.cache import IndexCachedStorage, RemoteIndexCache
from tieredfs.cache.description import SegmentDescription
from tieredfs.cache.entry_file import decode_entry, encode_entry, entry_identity

LISTED = replace(made_segment(0), end_offset=None)


def described(listed: SegmentMetadata) -> SegmentMetadata:
    end = listed.end_offset
    return replace(
        listed,
        end_offset=listed.start_offset + 999 if end is None else end,
        max_timestamp_ms=5,
        leader_epochs=(EpochEntry(3, listed.start_offset),),
        record_count=7,
    )


DESCRIBED = described(LISTED)


class Describing(Made):
    """A storage that describes segments, and counts how often."""

    descriptions = 0
    problem: Exception | None = None

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        assert indexes is None or bytes_of(indexes) == content_of(metadata)
        if metadata.is_described:
            return metadata
        self.descriptions += 1
        if self.problem is not None:
            raise self.problem
        return described(metadata)

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        del metadata
        return False


def opened(tmp_path: Path) -> tuple[Describing, IndexCachedStorage]:
    """Open a storage as another process would."""
    inner = Describing(tmp_path / "asked")
    cache = RemoteIndexCache(inner, tmp_path / "cache")
    return inner, IndexCachedStorage(inner, cache)


def test_it_is_asked_for_once_and_not_after_a_restart(tmp_path: Path) -> None:
    inner, storage = opened(tmp_path)
    for _ in range(2):
        assert storage.describe(LISTED) == DESCRIBED
        assert storage.describe(LISTED).record_count == DESCRIBED.record_count
    assert (inner.descriptions, inner.fetches) == (1, 1)
    again, after = opened(tmp_path)
    assert after.describe(LISTED) == DESCRIBED
    assert (again.descriptions, again.fetches) == (0, 1)
    assert bytes_of(after.fetch_all_indexes(LISTED)) == content_of(LISTED)
    assert again.fetches == 1


def test_an_entry_of_indexes_alone_gets_it_and_keeps_its_last_use(
    tmp_path: Path,
) -> None:
    inner, storage = opened(tmp_path)
    storage.fetch_all_indexes(LISTED)
    (file,) = files_in(storage.cache.directory)
    os.utime(file, (1_700_000_000, 1_700_000_000))
    before = storage.cache.stats
    storage.cache.note_checked_end(LISTED)  # of no description
    assert storage.describe(LISTED) == DESCRIBED
    assert (inner.descriptions, inner.fetches) == (1, 1)
    stats = storage.cache.stats
    assert (stats.hits, stats.misses) == (before.hits + 1, before.misses)
    storage.cache.note_checked_end(DESCRIBED)
    times = file.stat().st_mtime
    assert times > 1_700_000_000  # the description was a use
    again, after = opened(tmp_path)
    assert after.describe(LISTED) == DESCRIBED
    assert again.descriptions == 0


def cut(data: bytes) -> bytes:
    return data[:-1]


def flip(data: bytes) -> bytes:
    return data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]


def describe_otherwise(data: bytes) -> bytes:
    """Write what a program with other rules would write, its checksums right."""
    identity = entry_identity(memoryview(data))
    indexes, found = decode_entry(memoryview(data), identity)
    assert found is not None
    return b"".join(encode_entry(identity, indexes, replace(found, end_offset=-7)))


@pytest.mark.parametrize("damage", [cut, flip])
def test_a_damaged_entry_loses_it_with_the_indexes(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    inner, storage = opened(tmp_path)
    storage.describe(LISTED)
    (file,) = files_in(storage.cache.directory)
    file.write_bytes(damage(file.read_bytes()))
    again, after = opened(tmp_path)
    assert after.describe(LISTED) == DESCRIBED
    assert (again.descriptions, inner.fetches) == (1, 2)


def test_one_that_no_segment_can_have_is_asked_for_again(tmp_path: Path) -> None:
    _, storage = opened(tmp_path)
    storage.describe(LISTED)
    (file,) = files_in(storage.cache.directory)
    file.write_bytes(describe_otherwise(file.read_bytes()))
    again, after = opened(tmp_path)
    assert after.describe(LISTED) == DESCRIBED
    assert (again.descriptions, again.fetches) == (1, 1)


@given(data=st.data())
def test_at_whatever_byte_a_file_ends_the_answer_is_right(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tmp_path = tmp_path_factory.mktemp("cut")
    _, storage = opened(tmp_path)
    storage.describe(LISTED)
    (file,) = files_in(storage.cache.directory)
    whole = file.read_bytes()
    end = data.draw(st.integers(0, len(whole) - 1))
    file.write_bytes(whole[:end])
    again, after = opened(tmp_path)
    assert after.describe(LISTED) == DESCRIBED
    assert again.descriptions == 1
    assert len(file.read_bytes()) == len(whole)


def test_it_is_removed_with_its_segment(tmp_path: Path) -> None:
    inner, storage = opened(tmp_path)
    storage.describe(LISTED)
    storage.delete_log_segment(LISTED)
    storage.describe(LISTED)
    assert (inner.descriptions, inner.fetches) == (2, 2)


@pytest.mark.parametrize(
    ("changed", "fetches"),
    [
        (replace(LISTED, size=1), 1),  # of the same name: the same indexes
        (replace(LISTED, end_offset=LISTED.start_offset + 4), 1),
        (replace(LISTED, version="2"), 2),
        (replace(LISTED, custom_metadata=b"2"), 2),
    ],
    ids=["size", "end", "version", "custom metadata"],
)
def test_another_listing_is_described_anew(
    tmp_path: Path, changed: SegmentMetadata, fetches: int
) -> None:
    inner, storage = opened(tmp_path)
    storage.describe(LISTED)
    for _ in range(2):
        assert storage.describe(changed) == described(changed)
    assert (inner.descriptions, inner.fetches) == (2, fetches)


def test_what_is_removed_while_it_is_described_stays_removed(tmp_path: Path) -> None:
    inner, storage = opened(tmp_path)
    storage.fetch_all_indexes(LISTED)

    def describe(
        metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        del indexes
        RemoteIndexCache(inner, storage.cache.directory).remove([metadata])
        return DESCRIBED

    inner.describe = describe  # type: ignore[method-assign]
    assert storage.describe(LISTED) == DESCRIBED
    assert files_in(storage.cache.directory) == []


@pytest.mark.parametrize(
    "problem", [CorruptBatchError("torn"), StorageUnavailableError("away")]
)
def test_an_error_is_raised_and_not_kept(tmp_path: Path, problem: Exception) -> None:
    inner, storage = opened(tmp_path)
    inner.problem = problem
    for _ in range(2):
        with pytest.raises(type(problem), match=str(problem)):
            storage.describe(LISTED)
    assert inner.fetches == 1  # the indexes are kept
    inner.problem = None
    assert storage.describe(LISTED) == DESCRIBED
    again, after = opened(tmp_path)
    assert after.describe(LISTED) == DESCRIBED
    assert again.descriptions == 0


def test_indexes_that_were_damaged_when_they_were_cached_are_fetched_again(
    tmp_path: Path,
) -> None:
    inner, storage = opened(tmp_path)
    inner.problem = CorruptIndexError("damaged")
    with pytest.raises(CorruptIndexError):
        storage.describe(LISTED)
    cached = inner.fetches

    def describe(
        metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        # Another process has repaired the segment: what was cached of it is wrong.
        if indexes is not None and inner.fetches == cached:
            raise CorruptIndexError("damaged")
        return described(metadata)

    inner.describe = describe  # type: ignore[method-assign]
    assert storage.describe(LISTED) == DESCRIBED
    assert storage.describe(LISTED) == DESCRIBED
    assert inner.fetches == cached + 1


def test_a_checked_end_is_kept_for_the_segment_as_described(tmp_path: Path) -> None:
    _, storage = opened(tmp_path)
    storage.describe(LISTED)
    assert not storage.is_end_checked(DESCRIBED)
    wrong = replace(DESCRIBED, end_offset=LISTED.start_offset)
    storage.note_checked_end(wrong)
    assert not storage.is_end_checked(DESCRIBED)
    storage.note_checked_end(DESCRIBED)
    for _, one in ((None, storage), opened(tmp_path)):
        assert one.is_end_checked(DESCRIBED)
        assert not one.is_end_checked(wrong)
        assert one.describe(LISTED) == DESCRIBED
    storage.delete_log_segment(LISTED)
    assert not storage.is_end_checked(DESCRIBED)
    storage.note_checked_end(DESCRIBED)
    assert files_in(storage.cache.directory) == []
    storage.close()
    with pytest.raises(ClosedError):
        storage.note_checked_end(DESCRIBED)


def test_one_without_room_is_answered_and_leaves_the_indexes(tmp_path: Path) -> None:
    inner, storage = opened(tmp_path)
    storage.fetch_all_indexes(LISTED)
    (file,) = files_in(storage.cache.directory)
    storage.cache.resize(file.stat().st_size)
    assert storage.describe(LISTED) == DESCRIBED
    assert files_in(storage.cache.directory) == [file]
    assert inner.fetches == 1


def test_a_segment_of_which_a_field_is_unknown_has_no_description() -> None:
    assert SegmentDescription.of(LISTED) is None
    assert SegmentDescription.of(replace(DESCRIBED, leader_epochs=None)) is None
