"""A file that has no name until it is whole: no killed process leaves it behind.

Linux opens one in a folder and links it later. Not every disk has them, and the link
needs ``/proc``; so what a disk can is tried, once for each.
"""

import os
from contextlib import suppress

from tieredfs.objects.backends.local.names import CANNOT
from tieredfs.objects.keys import temporary_name

__all__ = ["name_file", "open_nameless"]

_FLAG = getattr(os, "O_TMPFILE", 0)
_can: dict[int, bool] = {}
"""Whether each disk has such files, by the number of its device."""


def open_nameless(folder: int, mode: int) -> int | None:
    """Open a new file without a name, to be written; None where the disk has none.

    Args:
        folder: Where it is to lie, as ``dir_fd``.
        mode: Of the file.
    """
    device = os.fstat(folder).st_dev
    works = _can.get(device)
    if works is None:
        works = _works(folder)
        if works is not None:
            _can[device] = works
    return _open(folder, mode) if works else None


def name_file(descriptor: int, name: str, folder: int) -> None:
    """Give such a file its name; of several that want it, exactly one succeeds.

    Raises:
        FileExistsError: The name is taken.
    """
    path = f"/proc/self/fd/{descriptor}"
    os.link(path, name, dst_dir_fd=folder, follow_symlinks=True)


def _open(folder: int, mode: int) -> int:
    return os.open(".", _FLAG | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=folder)


def _works(folder: int) -> bool | None:
    """Tell whether such a file can be made, and be given only a name that is free.

    None where nothing can be made in the folder, which says nothing of its disk.
    """
    if not _FLAG:
        return False
    name = temporary_name()
    try:
        descriptor = _open(folder, 0o600)
        try:
            name_file(descriptor, name, folder)
            with suppress(FileExistsError):
                name_file(descriptor, name, folder)
                return False
            return True
        finally:
            os.close(descriptor)
            with suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
    except OSError as error:
        return False if error.errno in CANNOT else None
