"""fsspec's memory filesystem: one store for the whole process.

Traps closed here, seen with fsspec 2026.9: a file can be made where a directory of the
same name has keys, and the other way round, so only keys are looked at; ``info`` and
``ls`` walk the whole store, so a listing is one pass over it; exclusive create is
check-then-write, so creates take turns.
"""

import threading
from collections.abc import Iterator, Sequence
from typing import cast

from fsspec.implementations.memory import MemoryFile

from tieredfs.objects.quirks.default import Backend, ObjectInfo

__all__ = ["MemoryBackend"]

_create = threading.Lock()  # as global as the store itself


class MemoryBackend(Backend):
    """A folder of the process's memory filesystem."""

    def put(self, key: str, data: bytes, timeout: float, *, overwrite: bool) -> None:
        """Make an object appear whole; FileExistsError if there is one already."""
        with _create:
            super().put(key, data, timeout, overwrite=overwrite)

    def head(self, key: str, timeout: float) -> ObjectInfo:
        """Return size and version of an object."""
        del timeout
        try:
            file = self._files()[self.path(key)]
        except KeyError:
            raise FileNotFoundError(key) from None
        return _entry(key, file)

    def pages(
        self, prefix: str, start_after: str, delimiter: str, timeout: float
    ) -> Iterator[Sequence[ObjectInfo]]:
        """List everything in one pass."""
        del timeout, start_after
        lead = self.path("") + "/"
        found: dict[str, ObjectInfo] = {}
        for path, file in list(self._files().items()):
            key = path[len(lead) :]
            if not path.startswith(lead) or not key.startswith(prefix):
                continue
            head, slash, _ = key[len(prefix) :].partition(delimiter or "\0")
            if delimiter and slash:
                found[prefix + head + slash] = ObjectInfo(prefix + head + slash, None)
            else:
                found[key] = _entry(key, file)
        yield [found[key] for key in sorted(found)]

    def _files(self) -> dict[str, MemoryFile]:
        return cast("dict[str, MemoryFile]", self.filesystem.store)


def _entry(key: str, file: MemoryFile) -> ObjectInfo:
    size = file.getbuffer().nbytes
    return ObjectInfo(key, size, f"{size}-{file.modified.isoformat()}")
