"""Unnamed files (O_TMPFILE), which a killed process does not leave behind.

Linux opens such a file in a folder, and links it to a name when it is complete. Not
every disk supports them, and the link needs ``/proc``; so each disk is probed once.
"""

import os
from contextlib import suppress

from tieredfs.objects.backends.local.names import CANNOT
from tieredfs.objects.keys import temporary_name

__all__ = ["name_file", "open_nameless"]

_FLAG = getattr(os, "O_TMPFILE", 0)
_can: dict[int, bool] = {}
"""Whether each disk supports unnamed files, by device number."""


def open_nameless(folder: int, mode: int) -> int | None:
    """Open a new unnamed file for writing; return None if the disk has none.

    Args:
        folder: The folder of the file, as ``dir_fd``.
        mode: Permissions of the file.
    """
    device = os.fstat(folder).st_dev
    works = _can.get(device)
    if works is None:
        works = _works(folder)
        if works is not None:
            _can[device] = works
    return _open(folder, mode) if works else None


def name_file(descriptor: int, name: str, folder: int) -> None:
    """Link an unnamed file to a name; of several concurrent calls, one succeeds.

    Raises:
        FileExistsError: The name is taken.
    """
    path = f"/proc/self/fd/{descriptor}"
    os.link(path, name, dst_dir_fd=folder, follow_symlinks=True)


def _open(folder: int, mode: int) -> int:
    return os.open(".", _FLAG | os.O_WRONLY | os.O_CLOEXEC, mode, dir_fd=folder)


def _works(folder: int) -> bool | None:
    """Return whether unnamed files can be created, and linked only to a free name.

    None if no file can be created in the folder, which does not depend on the disk.
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
