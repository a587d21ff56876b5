"""Give a finished file its name on a local disk, unless the name is taken.

A hard link does this on most disks. It leaves two names for a moment, which changes the
file's ctime; FAT, exFAT and many mounts have no hard links. Linux can rename without
replacing instead, but a file system in user space may ignore that flag. So each disk is
probed once.
"""

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress

from tieredfs.objects.keys import temporary_name

__all__ = ["CANNOT", "can_name_exclusively", "name_exclusively"]

_Name = Callable[[str, str, int], None]
"""A function that gives a file a new name; FileExistsError if the name is taken."""

CANNOT = frozenset(
    {
        errno.EINVAL,
        errno.EISDIR,
        errno.EMLINK,
        errno.ENOSYS,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EXDEV,
    }
)
"""Errors of disks and sandboxes for an operation that they do not support."""

_RENAME_NOREPLACE = 1
_renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
if _renameat2 is not None:
    _text, _number = ctypes.c_char_p, ctypes.c_int
    _renameat2.argtypes = [_number, _text, _number, _text, ctypes.c_uint]


def _rename(source: str, target: str, folder: int) -> None:
    if _renameat2 is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    names = os.fsencode(source), os.fsencode(target)
    if _renameat2(folder, names[0], folder, names[1], _RENAME_NOREPLACE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def _link(source: str, target: str, folder: int) -> None:
    os.link(source, target, src_dir_fd=folder, dst_dir_fd=folder)


_ways: dict[int, _Name | None] = {}
"""The method of each disk, by device number; None if the disk has none."""


def name_exclusively(source: str, target: str, folder: int) -> None:
    """Give a file a new name; of several concurrent calls, exactly one succeeds.

    Args:
        source: The current name, which may remain as well.
        target: The new name.
        folder: The folder of both, as ``dir_fd``.

    Raises:
        FileExistsError: The name is taken.
        NotImplementedError: The disk has no exclusive rename or link.
    """
    way = _way_of(folder)
    if way is None:
        msg = "this disk has no hard links and no rename that does not replace"
        raise NotImplementedError(msg)
    way(source, target, folder)


def can_name_exclusively(folder: int) -> bool:
    """Return whether the disk of a folder, given as ``dir_fd``, supports that."""
    return _way_of(folder) is not None


def _way_of(folder: int) -> _Name | None:
    """Return the method of a folder's disk, after a probe in the folder.

    Raises:
        OSError: The folder does not allow a probe, which does not depend on the disk.
    """
    device = os.fstat(folder).st_dev
    if device not in _ways:
        _ways[device] = next(
            (way for way in (_rename, _link) if _try(way, folder)), None
        )
    return _ways[device]


def _try(way: _Name, folder: int) -> bool:
    """Probe a method with a name that is taken, and with one that is free."""
    source, taken, free = (temporary_name() for _ in range(3))
    try:
        for name in (source, taken):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            os.close(os.open(name, flags, 0o600, dir_fd=folder))
        return _names(way, source, taken, free, folder)
    finally:
        for name in (source, taken, free):
            with suppress(OSError):
                os.unlink(name, dir_fd=folder)


def _names(way: _Name, source: str, taken: str, free: str, folder: int) -> bool:
    try:
        try:
            way(source, taken, folder)
        except FileExistsError:
            way(source, free, folder)
            return True
    except OSError as error:
        if error.errno not in CANNOT:
            raise
    return False  # not supported, or it has replaced the existing file
