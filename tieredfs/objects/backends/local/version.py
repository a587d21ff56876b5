"""Versions of local files, which differ between two contents even on coarse clocks.

Seen on ext4 with small inodes, whose times are whole seconds: 99 of 100 overwrites had
the version of the file they replaced. An inode number is reused as soon as it is free,
so it does not help by itself. So a new file gets a modification time that is later, in
the disk's resolution, than that of the file it replaces or that was deleted before.
"""

import os
import re
import time
from collections import OrderedDict
from contextlib import suppress

__all__ = ["last_changed", "remember_deleted", "stamp", "version_of"]

_STEPS = (1, 100, 1_000, 10_000_000, 1_000_000_000, 2_000_000_000)
"""Nanoseconds of the time resolutions of disks, from ext4's to FAT's."""

_VERSION = re.compile(r"\d+-(\d+)-(\d+)-\d+", re.ASCII)

_MAX_DELETED = 4096
_deleted: OrderedDict[str, int] = OrderedDict()
"""Modification times of deleted files that were written recently, by path."""


def version_of(found: os.stat_result) -> str:
    """Return the version of a file, which stays the same while it is unchanged.

    The ctime detects a change that keeps the modification time, such as a restored
    copy; the inode detects another file of the same name.
    """
    times = f"{found.st_mtime_ns}-{found.st_ctime_ns}"
    return f"{found.st_size}-{times}-{found.st_ino}"


def last_changed(version: str) -> int | None:
    """Return the last change of a file by its version, in nanoseconds since 1970.

    None if the version is not that of a file on a disk. The result takes the ctime into
    account, which only the system sets.
    """
    match = _VERSION.fullmatch(version)
    return None if match is None else max(int(match[1]), int(match[2]))


def stamp(descriptor: int, path: str, replaced: os.stat_result | None) -> None:
    """Give a new file a modification time that no earlier content of its path had.

    If times cannot be set, as on some mounts, the file keeps the disk's own time.

    Args:
        descriptor: The new file, which is not changed afterwards.
        path: Its path to be.
        replaced: The status of the file that has this path now.
    """
    before = _deleted.get(path, 0)
    if replaced is not None:
        before = max(before, replaced.st_mtime_ns)
    if not before:
        return
    now = time.time_ns()
    with suppress(OSError):
        for step in (0, *_STEPS):
            wanted = max(now, before + step)
            os.utime(descriptor, ns=(wanted, wanted))
            if os.fstat(descriptor).st_mtime_ns > before:
                return


def remember_deleted(path: str, found: os.stat_result) -> None:
    """Remember a deleted file if a new file could get the same modification time."""
    if found.st_mtime_ns + 2 * _STEPS[-1] < time.time_ns():
        return
    _deleted[path] = max(found.st_mtime_ns, _deleted.pop(path, 0))
    if len(_deleted) > _MAX_DELETED:
        _deleted.popitem(last=False)
