"""Whatever becomes of what is on disk: one fetch, no error, the right answer."""

import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, given, settings

from cache.apart import run_apart
from cache.made import (
    Made,
    bytes_of,
    content_of,
    entry_size,
    files_in,
    made_segment,
    open_cache,
)
from support.child_process import GIVE_UP_PRIVILEGES
from support.damage import damaged, flipped
from tieredfs import IndexType, SegmentMetadata
from tieredfs.cache import RemoteIndexCache
from tieredfs.errors import TieredFSWarning
from tieredfs.testing.cache_machine.damage import DAMAGE, folder, put_in_place

SEGMENT = made_segment(0)
CONTENT = content_of(SEGMENT)


@pytest.mark.parametrize("is_open", [True, False], ids=["while open", "while closed"])
@pytest.mark.parametrize("damage", DAMAGE, ids=lambda damage: damage.__name__)
def test_one_damage_costs_one_fetch(
    tmp_path: Path, damage: Callable[[Path], None], is_open: bool
) -> None:
    made, first = open_cache(tmp_path)
    first.get(SEGMENT)
    (file,) = files_in(first.directory)
    first.get(made_segment(1))
    first.close()
    if is_open:
        _, cache = open_cache(tmp_path)
        damage(file)
    else:
        damage(file)
        _, cache = open_cache(tmp_path)
    for _ in range(2):
        assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
        assert made.fetches == 3
    _, again = open_cache(tmp_path)
    assert bytes_of(again.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == 3
    assert file.is_file()


@pytest.mark.parametrize("is_removed", [True, False])
@pytest.mark.parametrize("size", [None, 100_000], ids=["folder", "large file"])
def test_what_takes_the_place_of_an_entry_does_not_make_room(
    tmp_path: Path, size: int | None, is_removed: bool
) -> None:
    limit = 3 * entry_size()
    _, first = open_cache(tmp_path, max_bytes=limit)
    first.get(SEGMENT)
    (file,) = files_in(first.directory)
    for number in (1, 2):
        first.get(made_segment(number))
    _, cache = open_cache(tmp_path, max_bytes=limit)
    if size is None:
        folder(file)
    else:
        put_in_place(file, bytes(size))
    if is_removed:
        cache.remove([SEGMENT])
    cache.get(SEGMENT)
    for number in (3, 4):
        cache.get(made_segment(number))
        assert cache.stats.size <= limit


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_change_of_the_bytes_on_disk_costs_one_fetch(
    tmp_path: Path, data: st.DataObject
) -> None:
    made, first = open_cache(tmp_path)
    first.get(SEGMENT)
    before = made.fetches
    (file,) = files_in(first.directory)
    true = file.read_bytes()
    single = st.builds(
        flipped,
        st.just(true),
        st.integers(0, len(true) - 1),
        st.sampled_from([1 << bit for bit in range(8)]),
    )
    changed = data.draw(single | damaged(true))
    file.unlink()
    file.write_bytes(changed)
    _, cache = open_cache(tmp_path)
    for _ in range(2):
        assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == before + (changed != true)
    assert cache.stats.corruptions == (changed != true)
    assert file.read_bytes() == true


def test_the_entry_of_another_store_is_never_taken(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    (mine,) = files_in(cache.directory)
    there = Made(tmp_path / "asked there", "memory://elsewhere")
    other = RemoteIndexCache(there, cache.directory)
    other.get(SEGMENT)
    (others,) = set(files_in(cache.directory)) - {mine}
    shutil.copy(mine, others)
    again = RemoteIndexCache(there, cache.directory)
    assert bytes_of(again.get(SEGMENT).indexes) == CONTENT
    assert (made.fetches, there.fetches) == (1, 2)


@pytest.mark.parametrize(
    "other",
    [
        replace(SEGMENT, version="2"),
        replace(SEGMENT, start_offset=SEGMENT.start_offset - 1),
        replace(SEGMENT, partition=replace(SEGMENT.partition, topic="bar")),
        replace(SEGMENT, partition=replace(SEGMENT.partition, partition=1)),
        replace(SEGMENT, partition=replace(SEGMENT.partition, topic_id=SEGMENT.id)),
        replace(SEGMENT, id=made_segment(1).id),
    ],
    ids=["version", "start", "topic", "partition", "topic id", "id"],
)
def test_what_differs_in_anything_that_names_it_is_another_entry(
    tmp_path: Path, other: SegmentMetadata
) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    content = content_of(other)
    made.damage.update(content)
    assert bytes_of(cache.get(other).indexes) == content
    assert made.fetches == 2
    assert len(files_in(cache.directory)) == 2
    assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == 2


def test_more_metadata_of_a_segment_is_the_same_entry(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    cache.get(replace(SEGMENT, max_timestamp_ms=5))
    assert made.fetches == 1


def test_a_cache_that_lost_its_directory_makes_it_again(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    shutil.rmtree(cache.directory)
    assert cache.stats.size == 0
    assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT  # it is still mapped
    cache.get(made_segment(1))
    assert cache.stats.size == entry_size()
    shutil.rmtree(cache.directory)
    cache.remove([SEGMENT])
    shutil.rmtree(cache.directory)
    cache.clear()
    shutil.rmtree(cache.directory)
    cache.resize(10 * entry_size())
    assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
    assert len(files_in(cache.directory)) == 1
    assert made.fetches == 3


def test_a_file_where_the_directory_was_leaves_the_answers_right(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    shutil.rmtree(cache.directory)
    cache.directory.write_bytes(b"")
    with pytest.warns(TieredFSWarning, match="cannot be cached"):
        assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == 1


IN_A_CLOSED_DIRECTORY = """
made, cache = open_cache(tmp_path)
check(cache, 0, False)
check(cache, 1, False)
(tmp_path / "cache" / "tieredfs-ledger").chmod(0)
check(cache, 2, False)                     # an unreadable ledger is written again
for file in files_in(directory):
    file.chmod(0)                          # an unreadable entry is replaced
before = made.fetches
made, cache = open_cache(tmp_path)
check(cache, 0, False)
assert made.fetches == before + 1
cache.close()
made, cache = open_cache(tmp_path)
directory.chmod(0o500)                     # read-only under us
check(cache, 0, False)                     # a hit, which cannot be recorded
assert made.fetches == before + 1
check(cache, 3, True)
check(cache, 3, True)
assert made.fetches == before + 3
for call in (lambda: cache.remove([made_segment(0)]), cache.clear,
             lambda: cache.resize(1)):
    try:
        call()
    except PermissionError:
        continue
    raise AssertionError
directory.chmod(0)                         # and not even to be looked into
check(cache, 4, True)
directory.chmod(0o700)
"""


def test_modes_that_forbid_reading_or_writing_leave_the_answers_right(
    tmp_path: Path,
) -> None:
    run_apart(GIVE_UP_PRIVILEGES + IN_A_CLOSED_DIRECTORY, tmp_path)


ON_A_FULL_DISK = """
import resource
made, cache = open_cache(tmp_path)
check(cache, 0, False)
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (600, hard))
check(cache, 1, True)
check(cache, 1, True)
made, cache = open_cache(tmp_path)         # it can still be opened
check(cache, 0, False)
check(cache, 1, True)
assert made.fetches == 4
assert not list(directory.glob("*.tmp"))
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
check(cache, 1, False)
check(cache, 1, False)
assert made.fetches == 5
"""


def test_a_full_disk_leaves_the_answers_right(tmp_path: Path) -> None:
    run_apart(ON_A_FULL_DISK, tmp_path)


def test_a_pipe_in_the_place_of_an_entry_is_replaced(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    (file,) = files_in(cache.directory)
    file.unlink()
    os.mkfifo(file)
    again = RemoteIndexCache(made, cache.directory)
    assert bytes_of(again.get(SEGMENT, timeout=math.inf).indexes) == CONTENT
    assert made.fetches == 2
    assert file.is_file()


def test_what_does_not_fit_is_answered_and_not_kept(tmp_path: Path) -> None:
    made, cache = open_cache(tmp_path, max_bytes=entry_size() - 1)
    for number in (1, 2):
        assert bytes_of(cache.get(SEGMENT).indexes) == CONTENT
        assert made.fetches == number
    assert files_in(cache.directory) == []


def test_an_index_that_became_corrupt_in_the_store_does_not_hide_what_is_kept(
    tmp_path: Path,
) -> None:
    made, cache = open_cache(tmp_path)
    cache.get(SEGMENT)
    made.damage[IndexType.OFFSET] = b"Hello, world"
    again = RemoteIndexCache(made, cache.directory)
    assert bytes_of(again.get(SEGMENT).indexes) == CONTENT
    assert made.fetches == 1
