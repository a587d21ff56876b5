"""Local disks.

Traps closed here, seen with fsspec's LocalFileSystem 2026.9: ``pipe_file`` writes to
the final name, so readers see half an object; exclusive create is check-then-write
(51 of 200 races did not have exactly one winner) and ``put_file(mode="create")``
overwrites; a listing is one unsorted walk of everything. A symbolic link could lead out
of the root, so none is followed below it. Seen with our own first versions: a path that
was checked and then opened by its name led out of the root in a race; a file that
replaced another had the mode of a new file and, on coarse clocks, the version of the
old one; a listing opened every parent of each folder again.
"""

import errno
import math
import os
import shutil
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from io import BufferedReader
from typing import BinaryIO, NamedTuple

import pyarrow as pa

from tieredfs.errors import InvalidArgumentError, TieredFSWarning
from tieredfs.objects.backends.base import Backend
from tieredfs.objects.backends.listing import Child, Listing, ObjectInfo, Page, Walk
from tieredfs.objects.backends.local.nameless import name_file, open_nameless
from tieredfs.objects.backends.local.names import can_name_exclusively, name_exclusively
from tieredfs.objects.backends.local.paths import (
    Trail,
    below,
    made_folder,
    open_file,
    synced,
)
from tieredfs.objects.backends.local.version import remember_deleted, stamp, version_of
from tieredfs.objects.backends.multipart import UnfinishedUpload
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.content import Content, pieces
from tieredfs.objects.keys import is_temporary, temporary_name

__all__ = ["LocalBackend"]

_MAX_PAGE_KEYS = 1000
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class _Position(NamedTuple):
    """The position of a listing."""

    walk: Walk
    trail: Trail
    links: list[str]


class LocalBackend(Backend):
    """A directory of a local disk; timeouts do not apply to a disk."""

    capabilities = frozenset(StoreCapability) - {StoreCapability.PARTS}
    conditional_put_known = False
    max_gap_bytes = 0
    max_delete_keys = 1000
    sends_in_pieces = True
    options = {"auto_mkdir": False}  # noqa: RUF012 - a Mapping in the base class

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole file."""
        del timeout
        with self._open(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, end: int, timeout: float) -> memoryview:
        """Return the bytes ``[start, end)``; fewer if the file ends before."""
        del timeout
        with self._open(key) as file:
            # Allocate no more than the file has. Arrow's pool reuses pages that were
            # touched before: four times as fast as new ones.
            size = os.fstat(file.fileno()).st_size
            buffer = pa.allocate_buffer(max(0, min(end, size) - start))
            data = memoryview(buffer).cast("B")
            file.seek(min(start, size))  # a disk refuses what is far beyond
            return data[: file.readinto(data)].toreadonly()

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write an unnamed or temporary file, sync it, then link or rename it."""
        del timeout

        def write(file: BinaryIO) -> None:
            file.writelines(piece for _, piece in pieces(content))

        self._publish(key, write, overwrite=overwrite)

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy to an unnamed or temporary file, sync it, then link or rename it."""
        del timeout
        with self._open(source) as content:
            self._publish(
                target, lambda file: shutil.copyfileobj(content, file), overwrite=True
            )

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of a regular file."""
        del timeout
        with below(self.root, key) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(key)
        return _entry(key, found)

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Walk the directories in key order."""
        del timeout
        here = at if isinstance(at, _Position) else None
        walk, trail, links = here or _Position(Walk(listing), Trail(self.root), [])
        try:
            found = walk.page(
                partial(self._scan, trail, links),
                max_folders=math.inf,
                max_entries=_MAX_PAGE_KEYS,
            )
            entries = [
                entry
                for entry in found.entries
                if not entry.is_prefix or self._has_objects(trail, entry.key)
            ]
        finally:
            trail.leave()
        return Page(entries, found.following and _Position(walk, trail, links))

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Remove regular files; anything else is not an object, and stays."""
        del timeout
        failures: dict[str, Exception] = {}
        for key in keys:
            try:
                self._remove(key)
            except OSError as error:
                failures[key] = error
        return failures

    def unfinished(
        self, before: datetime, timeout: float
    ) -> Sequence[UnfinishedUpload]:
        """List temporary files, left by killed processes, older than a time."""
        del timeout
        found, folders, trail = [], [""], Trail(self.root)
        try:
            while folders:
                folder = folders.pop()
                with suppress(PermissionError):  # as that of lost+found
                    for item in self._items(trail, folder):
                        key = folder + item.name
                        if item.is_dir(follow_symlinks=False):
                            folders.append(f"{key}/")
                        elif is_temporary(item.name) and _is_older(item, before):
                            found.append(UnfinishedUpload(key, item.name))
        finally:
            trail.leave()
        return found

    def abort_upload(self, key: str, upload: str, timeout: float) -> None:
        """Remove a temporary file."""
        del upload, timeout
        self._remove(key)

    def conditional_put_works(self) -> bool:
        """Probe the disk; if that is not possible now, assume so until a put fails."""
        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return True
        try:
            return can_name_exclusively(root)
        except OSError:
            return True
        finally:
            os.close(root)

    def _remove(self, key: str) -> None:
        with suppress(FileNotFoundError), below(self.root, key) as (folder, name):
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                remember_deleted(self.path(key), found)
                os.unlink(name, dir_fd=folder)

    def _open(self, key: str) -> BufferedReader:
        return os.fdopen(open_file(self.root, key), "rb")

    def _items(self, trail: Trail, folder: str) -> Iterator[os.DirEntry[str]]:
        """Yield the items of a directory; nothing if it does not exist."""
        try:
            scan = os.scandir(trail.enter(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        with scan as items:
            yield from items

    def _scan(self, trail: Trail, links: list[str], folder: str) -> Iterable[Child]:
        """Return the children of a directory, without links and temporary files.

        Args:
            trail: Opens the directory.
            links: The link that this listing has warned about: the first one found.
            folder: The directory.
        """
        children: list[Child] = []
        linked = ""
        for item in self._items(trail, folder):
            key = folder + item.name
            if item.is_symlink():
                linked = linked or key
            elif item.is_dir(follow_symlinks=False):
                children.append((f"{key}/", None))
            elif _is_object(item):
                children.append((key, partial(_describe, trail, folder, item.name)))
        if linked and not links:
            links.append(linked)
            msg = f"{self.path(linked)}: symbolic links are ignored"
            warnings.warn(msg, TieredFSWarning, stacklevel=2)
        return children

    def _has_objects(self, trail: Trail, folder: str) -> bool:
        """Return whether a directory contains objects, at any depth."""
        folders = [folder]
        while folders:
            folder = folders.pop()
            try:
                for item in self._items(trail, folder):
                    if item.is_dir(follow_symlinks=False):
                        folders.append(f"{folder}{item.name}/")
                    elif _is_object(item):
                        return True
            except PermissionError:  # it may contain objects, or be lost+found
                return True
        return False

    def _publish(
        self, key: str, write: Callable[[BinaryIO], object], *, overwrite: bool
    ) -> None:
        parent, _, name = key.rpartition("/")
        temporary = temporary_name()
        with (
            self._errors_named(key),
            made_folder(self.root, parent) as folder,
            synced(folder),
        ):
            replaced = _replaced(name, folder)
            try:
                mode = 0o666 if replaced is None else 0o600  # until it gets the old one
                nameless = open_nameless(folder, mode)
                descriptor = nameless
                if descriptor is None:
                    descriptor = os.open(temporary, _NEW, mode, dir_fd=folder)
                with os.fdopen(descriptor, "wb") as file:
                    write(file)
                    file.flush()
                    if replaced is not None:
                        _keep_owner(descriptor, replaced)
                    stamp(descriptor, self.path(key), replaced)
                    os.fsync(descriptor)
                    if nameless is not None and _is_named(
                        nameless, name, temporary, folder, overwrite=overwrite
                    ):
                        return
                if overwrite:
                    os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
                else:
                    self._create(temporary, name, folder)
            except (FileExistsError, IsADirectoryError) as error:
                if not _is_folder(name, folder):
                    raise
                msg = f"{self.path(key)} is a directory: remove it, or write to another"
                raise FileExistsError(f"{msg} place") from error
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(temporary, dir_fd=folder)

    def _create(self, temporary: str, name: str, folder: int) -> None:
        try:
            name_exclusively(temporary, name, folder)
        except NotImplementedError:
            self.capabilities -= {StoreCapability.EXCLUSIVE_CREATE}
            raise

    @contextmanager
    def _errors_named(self, key: str) -> Iterator[None]:
        """Raise clear errors for a removed folder, and for a name that is too long."""
        try:
            yield
        except FileNotFoundError as error:  # an empty folder, by a broker for example
            msg = "its folder was removed while it was written"
            raise OSError(msg) from error
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            longest = max(len(os.fsencode(name)) for name in key.split("/"))
            msg = f"invalid key for this disk: {self.path(key)}: a name of {longest} "
            raise InvalidArgumentError(f"{msg}bytes is too long") from error


def _entry(key: str, found: os.stat_result) -> ObjectInfo:
    modified = found.st_mtime_ns // 1_000_000
    return ObjectInfo(key, found.st_size, version_of(found), modified)


def _describe(trail: Trail, folder: str, name: str) -> ObjectInfo:
    found = os.stat(name, dir_fd=trail.enter(folder), follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):  # replaced meanwhile
        raise FileNotFoundError(name)
    return _entry(folder + name, found)


def _is_object(item: os.DirEntry[str]) -> bool:
    return item.is_file(follow_symlinks=False) and not is_temporary(item.name)


def _is_older(item: os.DirEntry[str], moment: datetime) -> bool:
    try:
        return item.stat(follow_symlinks=False).st_mtime < moment.timestamp()
    except FileNotFoundError:  # it is an object by now
        return False


def _replaced(name: str, folder: int) -> os.stat_result | None:
    """Return the status of the regular file to be replaced, if there is one."""
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _is_folder(name: str, folder: int) -> bool:
    try:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode)


def _is_named(
    nameless: int, name: str, temporary: str, folder: int, *, overwrite: bool
) -> bool:
    """Link an unnamed file; return False if only its temporary name was free.

    The caller then renames the temporary name over the existing file.
    """
    try:
        name_file(nameless, name, folder)
    except FileExistsError:
        if not overwrite:
            raise
        name_file(nameless, temporary, folder)
        return False
    return True


def _keep_owner(descriptor: int, replaced: os.stat_result) -> None:
    """Give a file the owner and mode of the file it replaces, as far as permitted.

    Only root may change an owner; other users may keep a group that they are in.
    """
    own = os.fstat(descriptor)
    owner, group = replaced.st_uid, replaced.st_gid
    if (own.st_uid, own.st_gid) != (owner, group):
        try:
            os.fchown(descriptor, owner, group)
        except OSError:  # even root, if the owner is unknown in a container
            with suppress(OSError):
                os.fchown(descriptor, -1, group)
    with suppress(OSError):  # a disk without modes
        os.fchmod(descriptor, replaced.st_mode & 0o777)
