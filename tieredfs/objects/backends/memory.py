"""fsspec's memory filesystem: one store for the whole process.

Traps closed here, seen with fsspec 2026.9: a file and a directory with keys can have
the same name, so only keys are used; ``info`` and ``ls`` walk the whole store, so a
listing is one pass over it; exclusive create is check-then-write, so creates are
serialised; a copy of a folder is an empty folder.
"""

from typing import Any, cast

from fsspec import AbstractFileSystem
from fsspec.implementations.memory import MemoryFile

from tieredfs.objects.backends.base import Backend
from tieredfs.objects.backends.listing import (
    Listing,
    ObjectInfo,
    Page,
    to_modified,
)
from tieredfs.objects.capabilities import StoreCapability
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.objects.content import BufferContent, Content

__all__ = ["MemoryBackend"]

_create = make_lock()  # as global as the store itself


class MemoryBackend(Backend):
    """A folder of the process's memory filesystem."""

    capabilities = frozenset(StoreCapability) - {StoreCapability.PARTS}
    max_gap_bytes = 0
    max_delete_keys = 1000

    def __init__(self, filesystem: AbstractFileSystem, root: str) -> None:
        """Use ``/`` for an empty root: paths begin with a slash."""
        super().__init__(filesystem, root or "/")

    def put(
        self, key: str, content: Content, timeout: float, *, overwrite: bool
    ) -> None:
        """Write a whole object; FileExistsError if it exists and must not."""
        with _create:
            super().put(key, content, timeout, overwrite=overwrite)

    def copy(self, source: str, target: str, timeout: float) -> None:
        """Copy the object ``source`` to ``target``."""
        content = BufferContent(self._file(source).getvalue())
        self.put(target, content, timeout, overwrite=True)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return the size and version of an object."""
        del timeout
        return _entry(key, self._file(key))

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """List everything in one pass."""
        del at, timeout
        prefix, delimiter = listing.prefix, listing.delimiter
        lead = self.path(prefix)
        if not prefix:
            lead = lead.rstrip("/") + "/"
        found: dict[str, ObjectInfo] = {}
        for path, file in list(self._files().items()):
            if not path.startswith(lead):
                continue
            rest = path.removeprefix(lead)
            head, slash, _ = rest.partition("/")
            if delimiter and slash:
                found[prefix + head + slash] = ObjectInfo(prefix + head + slash, None)
            else:
                found[prefix + rest] = _entry(prefix + rest, file)
        return Page([found[key] for key in sorted(found)])

    def _run(
        self,
        verb: str,
        timeout: float,
        *args: object,
        writes: str = "",
        **options: object,
    ) -> Any:  # noqa: ANN401 - whatever the filesystem's method returns
        """Call a method directly: memory needs no timeout."""
        del timeout, writes
        return getattr(self.filesystem, verb)(*args, **options)

    def _file(self, key: str) -> MemoryFile:
        try:
            return self._files()[self.path(key)]
        except KeyError:
            raise FileNotFoundError(key) from None

    def _files(self) -> dict[str, MemoryFile]:
        return cast("dict[str, MemoryFile]", self.filesystem.store)


def _entry(key: str, file: MemoryFile) -> ObjectInfo:
    size = file.getbuffer().nbytes
    version = f"{size}-{file.modified.isoformat()}"
    return ObjectInfo(key, size, version, to_modified(file.modified))
