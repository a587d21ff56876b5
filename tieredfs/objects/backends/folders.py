"""What servers have in common that keep real folders, such as SFTP's and HDFS's.

Traps closed here, seen with fsspec's filesystems for them: a folder stays when its last
object goes, and is listed for ever; an object is written where readers look for it; the
half-written file of a process that died is an object like any other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import NamedTuple

from tieredfs.objects.backends.base import Backend
from tieredfs.objects.backends.listing import Child, Listing, ObjectInfo, Page, Walk
from tieredfs.objects.backends.parts import UnfinishedUpload
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.keys import is_temporary, temporary_name
from tieredfs.objects.policy import Deadline

__all__ = ["FoldersBackend", "Item"]


class Item(NamedTuple):
    """What lies in a folder.

    Attributes:
        name: Without the folder's.
        size: Bytes; None for a folder.
        modified: Seconds since 1970.
        number: Tells the file apart from others under its name, if the server says so.
    """

    name: str
    size: int | None
    modified: float
    number: int = 0

    def entry(self, key: str) -> ObjectInfo:
        """Return the entry of a file."""
        return ObjectInfo(key, self.size, f"{self.size}-{self.modified}-{self.number}")


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
        """Return the files and folders of a folder; nothing if it is not there.

        Args:
            folder: A key that ends in ``/``, or nothing for the root.
            timeout: Seconds.
        """
        raise NotImplementedError(folder)

    def beside(self, key: str) -> str:
        """Return the path of a file that nobody else writes, next to a key's."""
        folder, slash, _ = key.rpartition("/")
        return self.path(f"{folder}{slash}{temporary_name()}")

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Read one folder, and see whether there is anything in those below it."""
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
        """List the files beside final names that a process which died has left."""
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
        """Remove such a file."""
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
