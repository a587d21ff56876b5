"""What is seen of a cache's directory from outside, and what is objected to."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.damage import (
    cut,
    empty,
    folder,
    gone,
    link_to_nothing,
    no_directory,
)
from tieredfs.testing.cache_machine.directory import WatchedDirectory
from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.cache_machine.pool import POOL, indexes_of
from tieredfs.testing.cache_machine.stored_segments import StoredSegments

ONE, OTHER = POOL[:2]


@pytest.fixture
def directory(tmp_path: Path) -> WatchedDirectory:
    stored = StoredSegments()
    stored.indexes = {segment: indexes_of(segment) for segment in POOL}
    return WatchedDirectory(tmp_path / "cache", stored)


def content_of(segment: CachedSegment) -> bytes:
    """Return the bytes of a file that has all indexes of a segment."""
    indexes = indexes_of(segment)
    return b"padding".join([*map(bytes, indexes.values()), indexes.layout])


def keep(directory: WatchedDirectory, segment: CachedSegment, name: str) -> Path:
    """Write the entry of a segment, under any name."""
    path = directory.path / f"{name}.indexes"
    path.write_bytes(content_of(segment))
    return path


def test_the_owner_of_an_entry_follows_from_its_bytes(
    directory: WatchedDirectory,
) -> None:
    paths = {ONE: keep(directory, ONE, "a"), OTHER: keep(directory, OTHER, "b")}
    assert directory.files() == paths
    assert directory.entries("get") == Entries(
        {segment: len(content_of(segment)) for segment in paths}
    )


def test_a_file_that_is_not_whole_is_not_an_entry(directory: WatchedDirectory) -> None:
    cut(keep(directory, ONE, "a"))
    assert directory.files() == {}
    with pytest.raises(AssertionError, match=r"whole is kept: after get a.indexes has"):
        directory.entries("get")


def test_a_segment_has_one_entry(directory: WatchedDirectory) -> None:
    keep(directory, ONE, "a")
    keep(directory, ONE, "b")
    with pytest.raises(AssertionError, match=r"whole is kept: after get b.indexes has"):
        directory.entries("get")


@pytest.mark.parametrize("damage", [empty, cut, folder, link_to_nothing])
def test_what_was_damaged_is_an_entry_that_is_not_whole(
    directory: WatchedDirectory, damage: Callable[[Path], None]
) -> None:
    path = keep(directory, ONE, "a")
    keep(directory, OTHER, "b")
    directory.damage(ONE, damage)
    found = directory.entries("get")
    assert found.damaged == {ONE: path.lstat().st_size}
    assert found.whole == {OTHER: len(content_of(OTHER))}
    assert ONE not in directory.files()


def test_what_the_cache_writes_in_place_of_a_damaged_entry_is_whole(
    directory: WatchedDirectory,
) -> None:
    path = keep(directory, ONE, "a")
    directory.damage(ONE, cut)
    keep(directory, ONE, "a")
    assert directory.entries("get") == Entries({ONE: len(content_of(ONE))})
    assert directory.files() == {ONE: path}


def test_what_the_cache_itself_writes_damaged_is_objected_to(
    directory: WatchedDirectory,
) -> None:
    path = keep(directory, ONE, "a")
    directory.damage(ONE, cut)
    cut(path)
    with pytest.raises(AssertionError, match="only what was fetched whole is kept"):
        directory.entries("get")


def test_an_entry_that_is_gone_is_not_damaged(directory: WatchedDirectory) -> None:
    keep(directory, ONE, "a")
    directory.damage(ONE, gone)
    assert directory.entries("get") == Entries()


@pytest.mark.parametrize("name", ["notes", "pushed/one"])
def test_files_of_other_programs_stay(directory: WatchedDirectory, name: str) -> None:
    directory.check_other_files("get")
    (directory.path / name).unlink()
    with pytest.raises(AssertionError, match=r"other programs stay: after get there"):
        directory.check_other_files("get")


def test_a_file_that_is_not_finished_does_not_stay(directory: WatchedDirectory) -> None:
    (directory.path / "1-2.tmp").touch()
    with pytest.raises(AssertionError, match=r"nothing unfinished is left: after get"):
        directory.check_other_files("get")


def test_what_a_crash_has_left_stays_until_a_new_handle_removes_it(
    directory: WatchedDirectory,
) -> None:
    directory.crash()
    directory.check_other_files("get")
    with pytest.raises(AssertionError, match="a new handle removes what a crash has"):
        directory.check_crashes_are_cleaned_up()
    (left,) = directory.path.glob("*.tmp")
    left.unlink()
    directory.check_crashes_are_cleaned_up()
    left.touch()
    with pytest.raises(AssertionError, match="nothing unfinished is left"):
        directory.check_other_files("get")


def test_with_the_directory_all_goes_that_was_in_it(
    directory: WatchedDirectory,
) -> None:
    keep(directory, ONE, "a")
    directory.crash()
    directory.damage(ONE, no_directory)
    assert directory.entries("get") == Entries()
    directory.check_other_files("get")
    directory.check_crashes_are_cleaned_up()


def test_what_another_running_process_writes_stays(directory: WatchedDirectory) -> None:
    directory.begin_elsewhere()
    directory.check_other_files("get")
    (left,) = directory.path.glob("*.tmp")
    left.unlink()
    with pytest.raises(AssertionError, match="another process is writing stays: after"):
        directory.check_other_files("get")
