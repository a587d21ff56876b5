"""Folders in which files come or go are reported, whether or not the system does it."""

import os
import queue
import time
from pathlib import Path

import pytest

from tieredfs.log.manager.folder_changes import (
    FolderChanges,
    changed_folders,
    folder_times,
)
from tieredfs.log.manager.partition_folder import PartitionFolder

_PATIENCE = 20.0
SECOND = 1_000_000_000


def watched(root: Path, found: "queue.SimpleQueue[frozenset[str]]") -> FolderChanges:
    return FolderChanges(root, found.put)


def wait_for(found: "queue.SimpleQueue[frozenset[str]]", name: str) -> None:
    """Wait until a folder is reported."""
    deadline = time.monotonic() + _PATIENCE
    while name not in found.get(timeout=max(0.01, deadline - time.monotonic())):
        pass


@pytest.mark.parametrize("is_polling", [False, True], ids=["reported", "looked-at"])
def test_a_new_file_a_new_folder_and_a_deletion_are_reported(
    tmp_path: Path, *, is_polling: bool
) -> None:
    (tmp_path / "orders-0").mkdir()
    found: queue.SimpleQueue[frozenset[str]] = queue.SimpleQueue()
    changes = watched(tmp_path, found)
    changes.is_polling = is_polling
    with changes:
        # The thread may begin to watch after the first of these.
        for number in range(1000):
            (tmp_path / "orders-0" / f"{number}").touch()
            try:
                names = found.get(timeout=0.1)
            except queue.Empty:
                continue
            assert names == {"orders-0"}
            break
        (tmp_path / "orders-1").mkdir()
        wait_for(found, "orders-1")
        (tmp_path / "orders-1").rmdir()
        wait_for(found, "orders-1")


def test_a_log_that_grows_is_not_reported_by_looking(tmp_path: Path) -> None:
    log = tmp_path / "orders-0" / "0.log"
    log.parent.mkdir()
    log.touch()
    os.utime(log.parent, ns=(SECOND, SECOND))
    before = folder_times(tmp_path)
    log.write_bytes(b"more")
    now = folder_times(tmp_path)
    assert changed_folders(before, now, 100 * SECOND) == frozenset()


def test_a_folder_that_has_just_changed_is_reported_once_more() -> None:
    """Its time may be that of two changes, of which one came after the look."""
    times = {"orders-0": 10 * SECOND, "orders-1": 1 * SECOND}
    assert changed_folders(times, times, 11 * SECOND) == {"orders-0"}
    assert changed_folders(times, times, 12 * SECOND) == frozenset()


def test_a_directory_that_is_gone_has_no_folders(tmp_path: Path) -> None:
    assert folder_times(tmp_path / "gone") == {}


def test_the_version_of_a_folder_is_known_when_its_time_is_settled(
    tmp_path: Path,
) -> None:
    folder = PartitionFolder(tmp_path, clock=lambda: 10 * SECOND)
    os.utime(tmp_path, ns=(8 * SECOND, 8 * SECOND))
    assert folder.version() is None
    os.utime(tmp_path, ns=(5 * SECOND, 5 * SECOND))
    assert folder.version() == 5 * SECOND
    assert PartitionFolder(tmp_path / "gone").version() is None
