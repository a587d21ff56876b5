"""Open files and folders below a local root without following symbolic links.

A path that is checked and then opened by its name may lead elsewhere by then (seen: 58
of 96,000 reads, while a folder and a link alternated under one name). So a key is
traversed folder by folder, each opened relative to the one before, never through a
link; only the root itself may be a link. No path passed to the system is longer than
one name, however deep a key is.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["Trail", "below", "made_folder", "open_file", "synced"]

_FOLDER = os.O_DIRECTORY | os.O_CLOEXEC
# Search permission is enough for a folder on the way.
_STEP = _FOLDER | os.O_NOFOLLOW | getattr(os, "O_PATH", os.O_RDONLY)
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC

_ABSENT = frozenset(
    {
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.EMLINK,  # FreeBSD's for a link
        errno.ENAMETOOLONG,
        errno.ENXIO,  # a socket
    }
)
"""Errors of a disk for a name that is not a file."""


@contextmanager
def below(root: str, key: str) -> Iterator[tuple[int | None, str]]:
    """Yield the folder of a key, as ``dir_fd``, and the name in it.

    Without a folder the name is a path. An absent name is a FileNotFoundError, in the
    block as well; so is a link, and a name that is invalid on the disk.
    """
    first, *others = key.split("/")
    folder, name = None, os.path.join(root, first)  # noqa: PTH118 - half the time
    try:
        for each in others:
            inner = os.open(name, _STEP, dir_fd=folder)
            if folder is not None:
                os.close(folder)
            folder, name = inner, each
        yield folder, name
    except OSError as error:
        if error.errno in _ABSENT:
            raise FileNotFoundError(key) from None
        raise
    finally:
        if folder is not None:
            os.close(folder)


def open_file(root: str, key: str) -> int:
    """Open a regular file for reading; never block on a pipe or device.

    Raises:
        FileNotFoundError: There is no regular file of this key.
    """
    with below(root, key) as (folder, name):
        descriptor = os.open(name, _FILE, dir_fd=folder)
    is_file = False
    try:
        is_file = stat.S_ISREG(os.fstat(descriptor).st_mode)
    finally:
        if not is_file:
            os.close(descriptor)
    if not is_file:
        raise FileNotFoundError(key)
    return descriptor


@contextmanager
def made_folder(root: str, folder: str) -> Iterator[int]:
    """Yield a folder, as ``dir_fd``; created folders survive a power failure.

    Args:
        root: The root, created with its parents if necessary.
        folder: A key; empty for the root.

    Raises:
        PermissionError: The folder is behind a symbolic link.
        FileExistsError: A part of its path is a file.
    """
    here, path = _made_root(root), root.rstrip("/")
    try:
        for name in folder.split("/") if folder else ():
            path = f"{path}/{name}"
            inner = _made_step(here, name, path)
            os.close(here)
            here = inner
        yield here
    finally:
        os.close(here)


@contextmanager
def synced(folder: int) -> Iterator[None]:
    """Sync a folder after the block, so that new names survive a power failure.

    Raises:
        PermissionError: The folder is not readable, so it cannot be synced. Raised
            before the block runs.
    """
    try:
        descriptor = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=folder)
    except PermissionError as error:
        msg = "the folder is not readable, so writes to it cannot be synced"
        raise PermissionError(error.errno, msg) from None
    try:
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Trail:
    """Keep the last folder of a walk open, because the next one is in or near it.

    So a walk opens each folder once, rather than every part of each folder's path.
    """

    def __init__(self, root: str) -> None:
        """Create a trail with no open folder."""
        self._root = root
        self._folder = ""
        self._descriptor: int | None = None

    def enter(self, folder: str) -> int:
        """Return a folder's descriptor, which is valid until the next call.

        Args:
            folder: A key that ends in ``/``, or empty for the root.

        Raises:
            FileNotFoundError: The folder does not exist, or is a link.
        """
        if self._descriptor is None or not folder.startswith(self._folder):
            self.leave()
            self._descriptor = os.open(self._root, os.O_RDONLY | _FOLDER)
        names = folder[len(self._folder) :].split("/")[:-1]
        for name in names:
            # Only the last is read.
            last = len(self._folder) + len(name) + 1 == len(folder)
            how = os.O_RDONLY | _FOLDER | os.O_NOFOLLOW if last else _STEP
            try:
                inner = os.open(name, how, dir_fd=self._descriptor)
            except OSError as error:
                self.leave()
                if error.errno in _ABSENT:
                    raise FileNotFoundError(folder) from None
                raise
            os.close(self._descriptor)
            self._descriptor = inner
            self._folder += f"{name}/"
        return self._descriptor

    def leave(self) -> None:
        """Close the folder; the next one is reached from the root."""
        descriptor, self._descriptor, self._folder = self._descriptor, None, ""
        if descriptor is not None:
            os.close(descriptor)


def _made_root(root: str) -> int:
    way = _FOLDER | getattr(os, "O_PATH", os.O_RDONLY)
    try:
        return os.open(root, way)
    except NotADirectoryError:
        raise _in_the_way(_first_file(root)) from None
    except FileNotFoundError:
        path = Path(root)
    try:
        missing = [each for each in (path, *path.parents) if not each.exists()]
        for each in reversed(missing):
            parent = os.open(each.parent, way)
            try:
                with synced(parent), suppress(FileExistsError):
                    each.mkdir()
            finally:
                os.close(parent)
        return os.open(root, way)
    except NotADirectoryError:
        raise _in_the_way(_first_file(root)) from None


def _made_step(here: int, name: str, path: str) -> int:
    try:
        try:
            return os.open(name, _STEP, dir_fd=here)
        except FileNotFoundError:
            with synced(here), suppress(FileExistsError):
                os.mkdir(name, dir_fd=here)
            return os.open(name, _STEP, dir_fd=here)
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP, errno.EMLINK}:
            raise
        found = os.stat(name, dir_fd=here, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            msg = f"{path} is behind a symbolic link"
            raise PermissionError(msg) from None
        raise _in_the_way(path) from None


def _in_the_way(path: str) -> FileExistsError:
    """Return the error for a folder that cannot be created: a file has its name."""
    return FileExistsError(
        f"{path} is not a directory: remove it, or write to another place"
    )


def _first_file(path: str) -> str:
    """Return the first part of a path that is not a directory."""
    ways = (*reversed(Path(path).parents), Path(path))
    return str(next((way for way in ways if not way.is_dir()), path))
