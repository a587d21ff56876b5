"""Give a finished file its name on a local disk, unless the name is taken.

A link does so on most disks, and leaves two names for a moment, which changes the time
of the file's status; on FAT, exFAT and many mounts there are none. Linux can rename
without replacing instead, but a file system in user space may pass over that wish. So
what a disk can is tried, once for each.
"""

import ctypes
import errno
import os
from collections.abc import Callable
from contextlib import suppress

from tieredfs.objects.keys import temporary_name

__all__ = ["CANNOT", "can_name_exclusively", "name_exclusively"]

_Name = Callable[[str, str, int], None]
"""Gives a file another name in a folder; FileExistsError when it is taken."""

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
"""What disks, and sandboxes, say of what they cannot do."""

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
"""How each disk does it, by the number of its device."""


def name_exclusively(source: str, target: str, folder: int) -> None:
    """Give a file its name; of several that want it, exactly one succeeds.

    Args:
        source: Its name until now, which may be left to it as well.
        target: Its name to be.
        folder: Where it lies, as ``dir_fd``.

    Raises:
        FileExistsError: The name is taken.
        NotImplementedError: The disk cannot tell who is first.
    """
    way = _way_of(folder)
    if way is None:
        msg = "this disk has no hard links and no rename that replaces nothing"
        raise NotImplementedError(msg)
    way(source, target, folder)


def can_name_exclusively(folder: int) -> bool:
    """Tell whether the disk of a folder, given as ``dir_fd``, can do so."""
    return _way_of(folder) is not None


def _way_of(folder: int) -> _Name | None:
    """Return how the disk of a folder does it, which is tried in the folder.

    Raises:
        OSError: Nothing can be tried there, which says nothing of the disk.
    """
    device = os.fstat(folder).st_dev
    if device not in _ways:
        _ways[device] = next(
            (way for way in (_rename, _link) if _try(way, folder)), None
        )
    return _ways[device]


def _try(way: _Name, folder: int) -> bool:
    """Give a file a name that is taken, and one that is not."""
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
    return False  # it cannot, or has replaced what was there
