"""The base of backends for servers with real folders, such as SFTP and HDFS.

Traps closed here, seen with fsspec's filesystems for them: a folder remains when its
last object is deleted, and is listed forever; an object is written under its final
name, where readers see it; the half-written file of a dead process is listed like any
object.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from tieredfs.objects.backends.base import Backend
from tieredfs.objects.backends.listing import (
    Child,
    Listing,
    ObjectInfo,
    Page,
    Walk,
    to_modified,
)
from tieredfs.objects.backends.multipart import UnfinishedUpload
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.keys import is_temporary, temporary_name
from tieredfs.objects.policy import Deadline

__all__ = ["FoldersBackend", "Item"]


class Item(NamedTuple):
    """A file or folder in a folder.

    Attributes:
        name: Name without the path.
        size: Bytes; None for a folder.
        modified: Modification time in seconds since 1970.
        number: The server's number of the file, which another file of the same name
            does not have; 0 if the server has none.
    """

    name: str
    size: int | None
    modified: float
    number: int = 0

    def entry(self, key: str) -> ObjectInfo:
        """Return the listing entry of a file."""
        version = f"{self.size}-{self.modified}-{self.number}"
        return ObjectInfo(key, self.size, version, to_modified(self.modified or None))


class FoldersBackend(Backend):
    """A folder on a server; objects are written beside their final name."""

    capabilities = frozenset(
        {
            StoreCapability.WRITE,
            StoreCapability.WHOLE_OBJECTS,
            StoreCapability.EXCLUSIVE_CREATE,
            StoreCapability.RANGE_READ,
        }
    )

    def items(self, folder: str, timeout: float) -> Iterable[Item]:
        """Return the files and folders in a folder; empty if it does not exist.

        Args:
            folder: A key that ends in ``/``, or empty for the root.
            timeout: Seconds.
        """
        raise NotImplementedError(folder)

    def beside(self, key: str) -> str:
        """Return the path of a unique temporary file in the folder of a key."""
        folder, slash, _ = key.rpartition("/")
        return self.path(f"{folder}{slash}{temporary_name()}")

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """List one folder, and check whether the folders in it contain objects."""
        end = Deadline(timeout)

        def items(folder: str) -> Iterable[Item]:
            return self.items(folder, end.check())

        walk = at if isinstance(at, Walk) else Walk(listing)
        page = walk.page(lambda folder: _children(folder, items(folder)))
        if not listing.delimiter:
            return page
        kept = [
            entry
            for entry in page.entries
            if not entry.is_prefix or _has_objects(entry.key, items)
        ]
        return Page(kept, page.following)

    def unfinished(
        self, before: datetime, timeout: float
    ) -> Sequence[UnfinishedUpload]:
        """List temporary files, left by dead processes, that are older than a time."""
        end = Deadline(timeout)
        found, folders = [], [""]
        while folders:
            folder = folders.pop()
            for item in self.items(folder, end.check()):
                key = folder + item.name
                if item.size is None:
                    folders.append(f"{key}/")
                elif is_temporary(item.name) and item.modified < before.timestamp():
                    found.append(UnfinishedUpload(key, item.name))
        return found

    def abort_upload(self, key: str, upload: str, timeout: float) -> None:
        """Remove a temporary file."""
        del upload
        self.delete([key], timeout)


def _children(folder: str, items: Iterable[Item]) -> Iterator[Child]:
    for item in items:
        key = folder + item.name
        if item.size is None:
            yield f"{key}/", None
        elif not is_temporary(item.name):
            yield key, partial(item.entry, key)


def _has_objects(folder: str, items: Callable[[str], Iterable[Item]]) -> bool:
    folders = [folder]
    while folders:
        folder = folders.pop()
        for item in items(folder):
            if item.size is None:
                folders.append(f"{folder}{item.name}/")
            elif not is_temporary(item.name):
                return True
    return False
