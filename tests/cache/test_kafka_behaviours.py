"""What Kafka's RemoteIndexCacheTest asks of its cache, asked of ours.

The table at the end has all thirty of its tests, and what is deliberately different.
"""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cache.made import (
    BASE,
    Clock,
    Made,
    bytes_of,
    content_of,
    entry_size,
    files_in,
    made_segment,
    open_cache,
)
from tieredfs import ClosedError, CorruptIndexError, IndexType
from tieredfs.cache import RemoteIndexCache
from tieredfs.format.index.offset import OffsetIndex

SEGMENT = made_segment(0)
MANY = [made_segment(number) for number in range(10)]

CORRUPT = {
    IndexType.OFFSET: b"Hello, world",
    IndexType.TIMESTAMP: b"Hello, world1",
    # A transaction that ends before the segment begins.
    IndexType.TRANSACTION: bytes(34),
}
"""What Kafka's tests have in place of an index."""


def last_entry() -> tuple[int, int]:
    index = content_of(SEGMENT)[IndexType.OFFSET]
    parsed = OffsetIndex.parse(index, SEGMENT.start_offset)
    return parsed.entry(len(parsed) - 1)


def names_in(cache: RemoteIndexCache) -> list[str]:
    return [path.name for path in files_in(cache.directory)]


def test_an_entry_is_one_file_in_the_directory(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    assert cache.directory == tmp_path / "cache"
    cache.get(SEGMENT)
    (file,) = files_in(cache.directory)
    assert len(file.stem) == 32
    assert bytes.fromhex(file.stem)
    for data in content_of(SEGMENT).values():
        assert data in file.read_bytes()


def test_all_indexes_are_fetched_at_the_first_look_and_never_again(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    offset, position = last_entry()
    assert made.fetches == 0
    for _ in range(2):
        assert cache.lookup_offset(SEGMENT, offset) == (offset, position)
        assert cache.lookup_timestamp(SEGMENT, 1 << 60, BASE) == (offset, position)
        assert len(cache.aborted_transactions(SEGMENT, BASE, BASE + 1000).aborted) == 1
        assert made.fetches == 1


def test_a_missing_transaction_index_is_kept_as_missing(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    made.damage[IndexType.TRANSACTION] = None
    for _ in range(2):
        assert IndexType.TRANSACTION not in cache.get(SEGMENT).indexes
        found = cache.aborted_transactions(SEGMENT, BASE, BASE + 1000)
        assert found == ((), False)
    assert made.fetches == 1


def test_offsets_outside_the_index_give_its_last_entry_or_the_start(
    tmp_path: Path,
) -> None:
    _, cache = open_cache(tmp_path)
    offset, position = last_entry()
    assert cache.lookup_offset(SEGMENT, offset + 500) == (offset, position)
    assert cache.lookup_offset(SEGMENT, BASE - 1) == (BASE, 0)
    assert cache.lookup_timestamp(SEGMENT, 0, BASE) == (BASE, 0)


def test_of_three_entries_two_stay_where_two_have_room(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path, max_bytes=2 * entry_size())
    first, second, third = MANY[:3]
    for segment in (first, first, second, second, third, third):
        cache.get(segment)
    assert made.fetches == 3
    assert len(files_in(cache.directory)) == 2
    assert cache.stats.evictions == 1
    assert cache.stats.size <= 2 * entry_size()
    for segment in MANY[:3]:
        assert bytes_of(cache.get(segment).indexes) == content_of(segment)
    assert made.fetches > 3  # what had to go was fetched again
    assert len(files_in(cache.directory)) == 2


def test_a_closed_cache_answers_nothing_any_more(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    cache.close()
    with pytest.raises(ClosedError):
        cache.get(SEGMENT)
    with pytest.raises(ClosedError):
        cache.lookup_offset(SEGMENT, BASE)
    with pytest.raises(ClosedError):
        cache.remove([SEGMENT])
    with pytest.raises(ClosedError):
        cache.clear()
    with pytest.raises(ClosedError):
        cache.resize(1)
    assert made.fetches == 1


def test_a_cache_can_be_closed_twice(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    cache.close()
    cache.close()
    assert len(files_in(cache.directory)) == 1


def test_a_removed_entry_is_off_the_disk_immediately(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    before = set(cache.directory.iterdir())
    cache.get(SEGMENT)
    cache.remove([SEGMENT])
    assert files_in(cache.directory) == []
    # Nothing waits to be cleaned up: only locks were added.
    added = set(cache.directory.iterdir()) - before
    assert all(path.name.startswith("tieredfs-load-") for path in added)
    cache.get(SEGMENT)
    assert made.fetches == 2


def test_no_thread_is_left_by_a_cache_that_is_closed(tmp_path: Path) -> None:
    def running() -> set[threading.Thread]:
        return {each for each in threading.enumerate() if each.name[:8] == "tieredfs"}

    before = running()
    _, cache = open_cache(tmp_path)
    assert not running() - before  # no cleaner
    cache.get(SEGMENT)
    loaders = running() - before
    cache.close()
    for thread in loaders:
        thread.join(30)
    assert not [thread for thread in loaders if thread.is_alive()]


def test_closing_lets_go_of_all_and_removes_nothing(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    for segment in MANY:
        cache.get(segment)
    maps = Path("/proc/self/maps")
    assert maps.read_text().count(str(cache.directory)) == 10
    cache.close()
    assert maps.read_text().count(str(cache.directory)) == 0
    assert len(files_in(cache.directory)) == 10


def test_a_hit_does_not_wait_for_the_miss_of_another(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(MANY[0])
    begun, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        assert go_on.wait(30)

    made.before = wait
    with ThreadPoolExecutor(1) as pool:
        miss = pool.submit(cache.get, MANY[1])
        assert begun.wait(30)
        cache.get(MANY[0], timeout=30)
        assert not miss.done()
        go_on.set()
        assert bytes_of(miss.result(30).indexes) == content_of(MANY[1])


def test_a_cache_that_is_opened_again_fetches_nothing(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    for segment in MANY[:2]:
        cache.get(segment)
    cache.close()
    _, again = open_cache(tmp_path)
    for segment in MANY[:2]:
        assert bytes_of(again.get(segment).indexes) == content_of(segment)
    assert made.fetches == 2
    assert again.stats.hits == 2


def test_one_entry_can_be_removed(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    for segment in MANY[:2]:
        cache.get(segment)
    cache.remove([MANY[0]])
    assert len(files_in(cache.directory)) == 1
    cache.get(MANY[1])
    assert made.fetches == 2
    cache.get(MANY[0])
    assert made.fetches == 3


def test_to_remove_what_is_not_there_changes_nothing(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(MANY[0])
    cache.remove([MANY[1]])
    assert len(files_in(cache.directory)) == 1
    cache.get(MANY[0])
    assert made.fetches == 1


def test_several_entries_can_be_removed_together(tmp_path: Path) -> None:
    _, cache = open_cache(tmp_path)
    for segment in MANY:
        cache.get(segment)
    assert len(files_in(cache.directory)) == 10
    cache.remove(iter(MANY))
    assert files_in(cache.directory) == []
    assert cache.stats.size == 0


def test_a_cache_of_one_byte_is_empty(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    cache.resize(1)
    assert files_in(cache.directory) == []
    assert cache.stats.size == 0
    assert bytes_of(cache.get(SEGMENT).indexes) == content_of(SEGMENT)
    assert files_in(cache.directory) == []
    assert made.fetches == 2


def test_a_smaller_bound_evicts_what_is_too_much_and_a_larger_one_nothing(
    tmp_path: Path,
) -> None:
    clock = Clock()
    made, cache = open_cache(tmp_path, max_bytes=2 * entry_size(), clock=clock)
    for segment in MANY[:2]:
        cache.get(segment)
        clock.now += 1
    kept = names_in(cache)
    cache.resize(2 * entry_size())
    assert names_in(cache) == kept
    cache.resize(2 * entry_size() - 1)
    assert len(names_in(cache)) == 1
    cache.resize(100 * entry_size())
    assert len(names_in(cache)) == 1
    cache.get(MANY[1])  # it was the older one that had to go
    assert made.fetches == 2
    cache.get(MANY[0])
    assert made.fetches == 3
    assert len(names_in(cache)) == 2


@pytest.mark.parametrize("kind", CORRUPT)
def test_an_index_that_is_corrupt_on_disk_is_fetched_anew(
    tmp_path: Path, kind: IndexType
) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    cache.close()
    (file,) = files_in(cache.directory)
    part = content_of(SEGMENT)[kind][:12]
    file.write_bytes(file.read_bytes().replace(part, b"Hello, world", 1))
    _, again = open_cache(tmp_path)
    assert bytes_of(again.get(SEGMENT).indexes) == content_of(SEGMENT)
    assert made.fetches == 2
    assert again.stats.corruptions == 1


@pytest.mark.parametrize("is_removed_first", [True, False])
def test_an_entry_that_is_removed_while_it_loads_is_there_or_not_but_never_half(
    tmp_path: Path, is_removed_first: bool
) -> None:
    made, cache = open_cache(tmp_path)
    fetching, fetched = threading.Event(), threading.Event()

    def wait() -> None:
        fetching.set()
        assert fetched.wait(30)

    made.before = wait
    with ThreadPoolExecutor(2) as pool:
        found = pool.submit(cache.get, SEGMENT)
        assert fetching.wait(30)
        if is_removed_first:
            cache.remove([SEGMENT])
        fetched.set()
        assert bytes_of(found.result(30).indexes) == content_of(SEGMENT)
        if not is_removed_first:
            cache.remove([SEGMENT])
    on_disk = len(files_in(cache.directory))
    assert on_disk == is_removed_first
    cache.get(SEGMENT)
    assert made.fetches == 2 - on_disk
    assert len(files_in(cache.directory)) == 1


def test_concurrent_remove_and_get_leave_memory_and_disk_consistent(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    start = threading.Barrier(2)

    def remove() -> None:
        start.wait()
        cache.remove([SEGMENT])

    with ThreadPoolExecutor(1) as pool:
        for _ in range(50):
            removal = pool.submit(remove)
            start.wait()
            cache.get(SEGMENT)
            removal.result(30)
            before, on_disk = made.fetches, len(files_in(cache.directory))
            cache.get(SEGMENT)
            assert made.fetches == before + 1 - on_disk


def test_nothing_is_kept_of_a_corrupt_remote_copy_and_the_next_call_asks_again(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    made.damage[IndexType.TIMESTAMP] = CORRUPT[IndexType.TIMESTAMP]
    for fetches in (1, 2):
        with pytest.raises(CorruptIndexError, match="time index"):
            cache.get(SEGMENT)
        assert made.fetches == fetches
        assert files_in(cache.directory) == []
    made.damage.clear()
    assert bytes_of(cache.get(SEGMENT).indexes) == content_of(SEGMENT)
    assert made.fetches == 3


def test_what_is_on_disk_is_used_where_nothing_is_in_memory(tmp_path: Path) -> None:
    made, other = open_cache(tmp_path)
    _, cache = open_cache(tmp_path)  # opened before there was anything
    other.get(SEGMENT)
    assert bytes_of(cache.get(SEGMENT).indexes) == content_of(SEGMENT)
    assert made.fetches == 1


@pytest.mark.parametrize("kind", CORRUPT)
def test_a_corrupt_remote_index_is_an_error_that_names_it(
    tmp_path: Path, kind: IndexType
) -> None:
    made, cache = open_cache(tmp_path)
    made.damage[kind] = CORRUPT[kind]
    with pytest.raises(CorruptIndexError, match=str(SEGMENT.id)):
        cache.get(SEGMENT)


def test_abandoned_temporary_files_are_removed_and_no_foreign_files(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "cache"
    directory.mkdir()
    gone = directory / f"{2**31 - 1}-{'0' * 16}.tmp"  # no process has this number
    others = ["notes.tmp", "my.indexes", f"1-{'0' * 16}.tmp", "0.indexes.deleted"]
    for path in (gone, *(directory / name for name in others)):
        path.write_bytes(b"something")
    _, cache = open_cache(tmp_path)
    assert not gone.exists()
    cache.get(SEGMENT)
    cache.clear()
    assert all((directory / name).exists() for name in others)


def test_invalid_files_neither_stop_the_start_nor_are_opened_by_it(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    for segment in MANY:
        cache.get(segment)
    cache.close()
    for number, file in enumerate(files_in(cache.directory)):
        file.write_bytes(b"" if number % 2 else b"Hello, world")
    _, again = open_cache(tmp_path)
    for segment in MANY:
        assert bytes_of(again.get(segment).indexes) == content_of(segment)
    assert made.fetches == 20


def test_what_was_handed_out_stays_readable_when_it_is_removed(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    held = cache.get(SEGMENT)
    cache.remove([SEGMENT])
    again = cache.get(SEGMENT)
    assert made.fetches == 2
    cache.clear()
    cache.close()
    for found in (held, again):
        assert bytes_of(found.indexes) == content_of(SEGMENT)
        assert found.lookup_offset(BASE + 999) == last_entry()
        assert len(found.aborted_transactions(BASE, BASE + 1000).aborted) == 1


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def timed(tmp_path: Path, clock: Clock) -> tuple[Made, RemoteIndexCache]:
    """A cache whose entries live for 1000 seconds after their last use."""
    return open_cache(tmp_path, ttl=1000, clock=clock)


def test_without_a_time_to_live_entries_do_not_expire(
    tmp_path: Path, clock: Clock
) -> None:
    made, cache = open_cache(tmp_path, clock=clock)
    cache.get(SEGMENT)
    clock.now += 30 * 365 * 86_400
    cache.get(SEGMENT)
    assert made.fetches == 1


def test_an_entry_unused_for_so_long_is_fetched_again(
    timed: tuple[Made, RemoteIndexCache], clock: Clock
) -> None:
    made, cache = timed
    cache.get(SEGMENT)
    clock.now += 1000
    cache.get(SEGMENT)
    assert made.fetches == 1
    clock.now += 1001
    assert bytes_of(cache.get(SEGMENT).indexes) == content_of(SEGMENT)
    assert made.fetches == 2
    assert len(files_in(cache.directory)) == 1


def test_each_use_prolongs_the_life_of_an_entry_for_other_processes_too(
    timed: tuple[Made, RemoteIndexCache], clock: Clock, tmp_path: Path
) -> None:
    made, cache = timed
    for _ in range(10):
        cache.get(SEGMENT)
        clock.now += 900
    _, other = open_cache(tmp_path, ttl=1000, clock=clock)
    other.get(SEGMENT)
    clock.now += 900
    cache.get(SEGMENT)
    assert made.fetches == 1


def test_entries_grow_old_one_by_one(
    timed: tuple[Made, RemoteIndexCache], clock: Clock
) -> None:
    made, cache = timed
    cache.get(MANY[0])
    clock.now += 600
    cache.get(MANY[1])
    clock.now += 600
    cache.get(MANY[1])
    assert made.fetches == 2
    cache.get(MANY[0])
    assert made.fetches == 3


def test_size_and_age_both_bound_what_is_kept(tmp_path: Path, clock: Clock) -> None:
    made, cache = open_cache(
        tmp_path, max_bytes=2 * entry_size(), ttl=1000, clock=clock
    )
    for segment in MANY[:3]:
        cache.get(segment)
        clock.now += 1
    assert cache.stats.evictions == 1
    cache.get(MANY[2])
    assert made.fetches == 3
    clock.now += 2000
    cache.get(MANY[2])
    assert made.fetches == 4
    assert len(files_in(cache.directory)) == 2


KAFKAS = [
    "IndexFileNameAndLocationOnDisk",
    "FetchIndexFromRemoteStorage",
    "FetchIndexForMissingTransactionIndex",
    "PositionForNonExistingIndex",
    "CacheEntryExpiry",
    "GetIndexAfterCacheClose",
    "CloseIsIdempotent",
    "CacheEntryIsDeletedOnRemoval",
    "CleanerThreadShutdown",
    "Close",
    "ConcurrentReadWriteAccess",
    "ReloadCacheAfterClose",
    "RemoveItem",
    "RemoveNonExistentItem",
    "RemoveMultipleItems",
    "ClearCacheAndIndexFilesWhenResizeCache",
    "CorrectnessForCacheAndIndexFilesWhenResizeCache",
    "CorruptCacheIndexFileExistsButNotInCache",
    "ConcurrentRemoveReadForCache",
    "MultipleIndexEntriesExecutionInCorruptException",
    "IndexFileAlreadyExistOnDiskButNotInCache",
    "RSMReturnCorruptedIndexFile",
    "ConcurrentCacheDeletedFileExists",
    "DeleteInvalidIndexFilesOnInit",
    "FetchIndexAccessibleWhenMarkedForCleanup",
    "CacheTtlCanBeDisabled",
    "TtlEviction",
    "TtlRefreshOnAccess",
    "TtlWithMultipleEntries",
    "SizeAndTimeBasedEviction",
]
"""Its tests, the newer ones at the end; what came as two or three is one."""

SAME = ""

TABLE: dict[str, tuple[Callable[..., None], str]] = {
    "IndexFileNameAndLocationOnDisk": (
        test_an_entry_is_one_file_in_the_directory,
        "one file, not three, so that an entry is whole or not there",
    ),
    "FetchIndexFromRemoteStorage": (
        test_all_indexes_are_fetched_at_the_first_look_and_never_again,
        "one fetch of all indexes, not one of each",
    ),
    "FetchIndexForMissingTransactionIndex": (
        test_a_missing_transaction_index_is_kept_as_missing,
        "missing stays missing; Kafka makes an empty file",
    ),
    "PositionForNonExistingIndex": (
        test_offsets_outside_the_index_give_its_last_entry_or_the_start,
        SAME,
    ),
    "CacheEntryExpiry": (test_of_three_entries_two_stay_where_two_have_room, SAME),
    "GetIndexAfterCacheClose": (
        test_a_closed_cache_answers_nothing_any_more,
        "a typed error, not IllegalStateException",
    ),
    "CloseIsIdempotent": (test_a_cache_can_be_closed_twice, SAME),
    "CacheEntryIsDeletedOnRemoval": (
        test_a_removed_entry_is_off_the_disk_immediately,
        "nothing is renamed to be deleted later",
    ),
    "CleanerThreadShutdown": (
        test_no_thread_is_left_by_a_cache_that_is_closed,
        "there is no cleaner that an exception could end",
    ),
    "Close": (test_closing_lets_go_of_all_and_removes_nothing, SAME),
    "ConcurrentReadWriteAccess": (
        test_a_hit_does_not_wait_for_the_miss_of_another,
        SAME,
    ),
    "ReloadCacheAfterClose": (
        test_a_cache_that_is_opened_again_fetches_nothing,
        "entries are opened when they are asked for",
    ),
    "RemoveItem": (test_one_entry_can_be_removed, SAME),
    "RemoveNonExistentItem": (test_to_remove_what_is_not_there_changes_nothing, SAME),
    "RemoveMultipleItems": (test_several_entries_can_be_removed_together, SAME),
    "ClearCacheAndIndexFilesWhenResizeCache": (
        test_a_cache_of_one_byte_is_empty,
        "immediately, and it still answers",
    ),
    "CorrectnessForCacheAndIndexFilesWhenResizeCache": (
        test_a_smaller_bound_evicts_what_is_too_much_and_a_larger_one_nothing,
        SAME,
    ),
    "CorruptCacheIndexFileExistsButNotInCache": (
        test_an_index_that_is_corrupt_on_disk_is_fetched_anew,
        "every byte is checked, not only the ends of an index",
    ),
    "ConcurrentRemoveReadForCache": (
        test_an_entry_that_is_removed_while_it_loads_is_there_or_not_but_never_half,
        (
            "in both orders; where they race, see "
            "test_concurrent_remove_and_get_leave_memory_and_disk_consistent"
        ),
    ),
    "MultipleIndexEntriesExecutionInCorruptException": (
        test_nothing_is_kept_of_a_corrupt_remote_copy_and_the_next_call_asks_again,
        "nothing of it stays on disk either: all indexes are of one copy",
    ),
    "IndexFileAlreadyExistOnDiskButNotInCache": (
        test_what_is_on_disk_is_used_where_nothing_is_in_memory,
        "whichever process wrote it",
    ),
    "RSMReturnCorruptedIndexFile": (
        test_a_corrupt_remote_index_is_an_error_that_names_it,
        "the segment and the index are named",
    ),
    "ConcurrentCacheDeletedFileExists": (
        test_abandoned_temporary_files_are_removed_and_no_foreign_files,
        "no file is renamed to .deleted, so none can be in the way",
    ),
    "DeleteInvalidIndexFilesOnInit": (
        test_invalid_files_neither_stop_the_start_nor_are_opened_by_it,
        "they are replaced when they are asked for; Kafka fails to start on some",
    ),
    "FetchIndexAccessibleWhenMarkedForCleanup": (
        test_what_was_handed_out_stays_readable_when_it_is_removed,
        "for as long as it is held, not for ten seconds",
    ),
    "CacheTtlCanBeDisabled": (
        test_without_a_time_to_live_entries_do_not_expire,
        SAME,
    ),
    "TtlEviction": (
        test_an_entry_unused_for_so_long_is_fetched_again,
        "it is not served any more; its file goes when room is needed, or is replaced",
    ),
    "TtlRefreshOnAccess": (
        test_each_use_prolongs_the_life_of_an_entry_for_other_processes_too,
        "across processes and restarts",
    ),
    "TtlWithMultipleEntries": (test_entries_grow_old_one_by_one, SAME),
    "SizeAndTimeBasedEviction": (test_size_and_age_both_bound_what_is_kept, SAME),
}


def test_the_table_has_all_thirty_and_names_tests_that_are_here() -> None:
    assert len(KAFKAS) == 30
    assert list(TABLE) == KAFKAS
    for test, _ in TABLE.values():
        assert globals()[test.__name__] is test
        assert test.__name__.startswith("test_")
