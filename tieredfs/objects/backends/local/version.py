"""What tells two contents of a file apart, where clocks are coarse.

Seen on ext4 with small inodes, whose times are whole seconds: 99 of 100 overwrites had
the version of what they replaced. An inode's number is given again as soon as it is
free, so it does not help by itself. So what is put has a time of its own: later, as the
disk keeps it, than that of what lay under the name before, deleted or replaced.
"""

import os
import re
import time
from collections import OrderedDict
from contextlib import suppress

__all__ = ["last_changed", "remember_deleted", "stamp", "version_of"]

_STEPS = (1, 100, 1_000, 10_000_000, 1_000_000_000, 2_000_000_000)
"""Nanoseconds that disks count in, from ext4's to FAT's."""

_VERSION = re.compile(r"\d+-(\d+)-(\d+)-\d+", re.ASCII)

_KEPT = 4096
_deleted: OrderedDict[str, int] = OrderedDict()
"""When files were modified that are gone, and that have just been written."""


def version_of(found: os.stat_result) -> str:
    """Return a text that is the same as long as a file is what it is.

    The time of the status sees what keeps the time of the modification, such as a
    restored copy; the inode sees another file of the same name.
    """
    times = f"{found.st_mtime_ns}-{found.st_ctime_ns}"
    return f"{found.st_size}-{times}-{found.st_ino}"


def last_changed(version: str) -> int | None:
    """Return when a file of some version was changed last, in nanoseconds since 1970.

    None where the version is not that of a file on a disk. The time of the status is
    among it, which nothing but the system sets.
    """
    match = _VERSION.fullmatch(version)
    return None if match is None else max(int(match[1]), int(match[2]))


def stamp(descriptor: int, path: str, replaced: os.stat_result | None) -> None:
    """Give a file that is about to appear a time that no earlier content has had.

    A disk on which times cannot be set, as on some mounts, gives its own.

    Args:
        descriptor: Of the file, which is not changed afterwards.
        path: What it is to be called.
        replaced: What has that name now.
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
    """Take note of a file that is deleted, if another could have its time."""
    if found.st_mtime_ns + 2 * _STEPS[-1] < time.time_ns():
        return
    _deleted[path] = max(found.st_mtime_ns, _deleted.pop(path, 0))
    if len(_deleted) > _KEPT:
        _deleted.popitem(last=False)
