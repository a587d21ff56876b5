"""Local disks.

Traps closed here, seen with fsspec's LocalFileSystem 2026.9: ``pipe_file`` writes to
the final name, so readers see half an object; exclusive create is check-then-write
(51 of 200 races had not one winner) and ``put_file(mode="create")`` overwrites; a
listing is one walk of everything, unsorted. A symbolic link could leave the root, so
none is followed below it.
"""

import math
import os
import shutil
import stat
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from tieredfs.errors import TieredFSWarning
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.content import Content, pieces
from tieredfs.objects.quirks.default import Backend
from tieredfs.objects.quirks.listing import Child, Listing, ObjectInfo, Page, Walk
from tieredfs.objects.quirks.parts import UnfinishedUpload
from tieredfs.objects.reserved import is_temporary, temporary_name

__all__ = ["LocalBackend"]

_PAGE = 1000


class LocalBackend(Backend):
    """A directory of a local disk; a disk is not stopped by a timeout."""

    capabilities = frozenset(StoreCapability) - {StoreCapability.PARTS}
    gap = 0
    delete_limit = 1000
    options = {"auto_mkdir": False}  # noqa: RUF012 - a Mapping in the base class

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole file."""
        del timeout
        with self._open(key) as file:
            return file.read()

    def get_range(self, key: str, start: int, end: int, timeout: float) -> memoryview:
        """Return the bytes ``[start, end)``, or what there is of them."""
        del timeout
        with self._open(key) as file:
            # What is asked for is allocated at once: no more than there is. Arrow's
            # pool has pages that were touched before: four times as fast as new ones.
            size = os.fstat(file.fileno()).st_size
            buffer = pa.allocate_buffer(max(0, min(end, size) - start))
            data = memoryview(buffer).cast("B")
            file.seek(min(start, size))  # a disk refuses what is far beyond
            return data[: file.readinto(data)].toreadonly()

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write beside the final name, sync, then link or rename to it."""
        del timeout

        def write(file: BinaryIO) -> None:
            file.writelines(piece for _, piece in pieces(content))

        self._publish(key, write, overwrite=overwrite)

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy beside the final name, sync, then rename to it."""
        del timeout
        with self._open(source) as content:
            self._publish(
                target, lambda file: shutil.copyfileobj(content, file), overwrite=True
            )

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return size and version of a regular file."""
        del timeout
        found = self._inside(key).lstat()
        if not stat.S_ISREG(found.st_mode):
            raise FileNotFoundError(key)
        return _entry(key, found)

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Walk the directories in the order of their keys."""
        del timeout
        walk = at if isinstance(at, Walk) else Walk(listing)
        return walk.page(self._scan, reads=math.inf, size=_PAGE)

    def delete(self, keys: Sequence[str], timeout: float) -> Mapping[str, Exception]:
        """Remove regular files; anything else is no object, so there is none."""
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
        """List the files beside final names that a killed process has left."""
        del timeout
        found = []
        for path in Path(self.root).rglob(".*"):
            with suppress(FileNotFoundError):  # it is an object by now
                if (
                    is_temporary(path.name)
                    and path.lstat().st_mtime < before.timestamp()
                ):
                    key = path.relative_to(self.root).as_posix()
                    found.append(UnfinishedUpload(key, path.name))
        return found

    def abort_upload(self, key: str, upload: str, timeout: float) -> None:
        """Remove such a file."""
        del upload, timeout
        self._remove(key)

    def _remove(self, key: str) -> None:
        with suppress(FileNotFoundError, NotADirectoryError):
            path = self._inside(key)
            if stat.S_ISREG(path.lstat().st_mode):
                path.unlink()

    def _inside(self, key: str) -> Path:
        """Return the path of a key; FileNotFoundError when it goes through a link."""
        path = Path(self.root)
        for part in key.split("/") if key else ():
            path /= part
            if path.is_symlink():
                raise FileNotFoundError(key)
        return path

    def _open(self, key: str) -> BufferedReader:
        """Open a regular file; nothing else may be read, or waited for."""
        descriptor = os.open(self._inside(key), os.O_RDONLY | os.O_NONBLOCK)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise FileNotFoundError(key)
        return os.fdopen(descriptor, "rb")

    def _scan(self, folder: str) -> Iterator[Child]:
        """Yield what lies in a directory, links and half-written files left out."""
        told = False
        try:
            with os.scandir(self._inside(folder.removesuffix("/"))) as scan:
                for item in scan:
                    key = folder + item.name
                    if item.is_symlink() and not told:
                        told = True
                        msg = f"{self.path(key)}: symbolic links are left out"
                        warnings.warn(msg, TieredFSWarning, stacklevel=2)
                    if item.is_dir(follow_symlinks=False):
                        if self._has_objects(f"{key}/"):
                            yield f"{key}/", None
                    elif item.is_file(follow_symlinks=False) and not is_temporary(
                        item.name
                    ):
                        yield key, partial(_describe, key, item)
        except (FileNotFoundError, NotADirectoryError):
            return

    def _has_objects(self, folder: str) -> bool:
        """Tell whether a directory is one of an object's key: a disk has others too."""
        try:
            return next(self._scan(folder), None) is not None
        except PermissionError:  # which may concern nobody, as that of lost+found
            return True

    def _publish(
        self, key: str, write: Callable[[BinaryIO], object], *, overwrite: bool
    ) -> None:
        folder, _, name = key.rpartition("/")
        parent = self._folder(key, folder)
        final = parent / name
        temporary = parent / temporary_name()
        try:
            with temporary.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                temporary.replace(final)
            else:
                final.hardlink_to(temporary)
        except IsADirectoryError as error:
            raise FileExistsError(str(error)) from None
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(parent)

    def _folder(self, key: str, folder: str) -> Path:
        """Make the directory that a key lies in.

        Raises:
            PermissionError: It lies behind a link.
            FileExistsError: A part of its name is a file.
        """
        try:
            path = self._inside(folder)
        except FileNotFoundError:
            msg = f"{key} lies behind a symbolic link"
            raise PermissionError(msg) from None
        try:
            _make_directory(path)
        except NotADirectoryError as error:
            raise FileExistsError(str(error)) from None
        return path


def _entry(key: str, found: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, found.st_size, f"{found.st_size}-{found.st_mtime_ns}")


def _describe(key: str, item: os.DirEntry[str]) -> ObjectInfo:
    return _entry(key, item.stat(follow_symlinks=False))


def _make_directory(path: Path) -> None:
    """Make a directory and those it lies in; what is new survives a power cut."""
    try:
        path.mkdir()
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    except FileNotFoundError:
        _make_directory(path.parent)
        path.mkdir(exist_ok=True)
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    """Make what was named in a directory survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
