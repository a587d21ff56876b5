"""Archives: zip and tar files on any filesystem.

Traps closed here, seen with fsspec's archive filesystems 2026.9: ``ls`` scans all
members for each folder, and returns wrong entries for a folder in the middle of a path,
so a listing is one pass over the members; a damaged member is a zlib error, a truncated
one an EOFError, a missing password a RuntimeError; the members of a tar share one file
position, so reads are serialised; an archive that is garbage collected closes the file
below, by a request that may hang, in the thread that runs the collection. An archive is
read-only, whatever filesystem it is on, and stays as it was when it was opened.
"""

import _thread
import tarfile
import threading
import weakref
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Self, cast
from zipfile import BadZipFile

from fsspec import AbstractFileSystem

from tieredfs.objects.backends.listing import Listing, ObjectInfo, Page
from tieredfs.objects.backends.other import OtherBackend

__all__ = ["ArchiveBackend"]

_ENCRYPTED = 1


class ArchiveBackend(OtherBackend):
    """The members of an archive, or those below a folder in it.

    A compressed member is read from its beginning, so RANGE_READ is not a capability.
    """

    capabilities = frozenset()

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Read the directory of an archive once, and keep it in memory."""
        super().__init__(filesystem, root)
        self._turn = threading.Lock()
        weakref.finalize(self, _leave, filesystem).atexit = False
        filesystem._get_dirs()  # noqa: SLF001 - `info` and `find` are incomplete
        self._members: Mapping[str, Mapping[str, Any]] = filesystem.dir_cache

    @classmethod
    def open(cls, url: str, options: Mapping[str, object], timeout: float) -> Self:
        """Open the archive and the filesystem it is on."""
        with _damage_mapped():
            return super().open(url, options, timeout)

    def is_broken_by(self, error: Exception) -> bool:
        """Reopen an archive that cannot be read: it may have been replaced."""
        return super().is_broken_by(error) or isinstance(error, BadZipFile)

    def get(self, key: str, timeout: float) -> bytes:
        """Return a whole member, whose checksum is verified in a zip."""
        return self._read(key, timeout)

    def get_range(self, key: str, start: int, end: int, timeout: float) -> bytes:
        """Return the bytes ``[start, end)``; fewer if the member ends before."""
        return self._read(key, timeout, start=start, end=end)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of a member."""
        del timeout
        return _entry(key, self._file(key))

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """List the archive in one pass."""
        del at, timeout
        prefix, cut = listing.prefix, len(self._root_prefix)
        found: dict[str, ObjectInfo] = {}
        for path, info in self._members.items():
            key = path[cut:]
            if not path.startswith(self._root_prefix) or not key.startswith(prefix):
                continue
            if info["type"] != "file":
                continue
            name, slash, _ = key[len(prefix) :].partition("/")
            if listing.delimiter and slash:
                folded = prefix + name + slash
                found[folded] = ObjectInfo(folded, None)
            else:
                found[key] = _entry(key, info)
        return Page([found[key] for key in sorted(found)])

    def _file(self, key: str) -> Mapping[str, Any]:
        info = self._members.get(self.path(key), {})
        if info.get("type") != "file":
            raise FileNotFoundError(key)
        return info

    def _read(self, key: str, timeout: float, **span: int) -> bytes:
        if self._file(key).get("flag_bits", 0) & _ENCRYPTED:
            raise NotImplementedError(f"{key} is encrypted")

        def read() -> bytes:
            with self._turn, _damage_mapped():
                return cast("bytes", self.filesystem.cat_file(self.path(key), **span))

        return self.calls.run(read, timeout)


def _leave(filesystem: AbstractFileSystem) -> None:
    """Close the file below on a thread of its own."""
    # Not a Thread: this may run at any point, even during another Thread's start.
    with suppress(RuntimeError):  # the process ends
        _thread.start_new_thread(_close, (filesystem,))


def _close(filesystem: AbstractFileSystem) -> None:
    with suppress(Exception):
        filesystem.of.__exit__(None, None, None)


def _entry(key: str, info: Mapping[str, Any]) -> ObjectInfo:
    """Return the entry of a member; a zip's version contains the checksum."""
    size = int(info["size"])
    return ObjectInfo(key, size, f"{size}-{info.get('CRC', info.get('mtime', ''))}")


@contextmanager
def _damage_mapped() -> Iterator[None]:
    """Raise BadZipFile for every error that means a damaged archive."""
    try:
        yield
    except (zlib.error, EOFError, tarfile.ReadError) as error:
        raise BadZipFile(str(error)) from error
