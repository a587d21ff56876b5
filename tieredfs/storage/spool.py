"""Bytes that are put together before they are stored, where no other process writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Final

from tieredfs.objects import ObjectStore
from tieredfs.storage.temporary_file import open_temporary_file

__all__ = ["Spool", "open_spool"]

_IN_MEMORY: Final = 32 << 20
"""Bytes that are held in memory; more are held in a file."""


@dataclass(frozen=True, slots=True)
class Spool:
    """Bytes in memory, or in a temporary file.

    Attributes:
        file: Where they are written to.
        path: Of the file; None in memory.
    """

    file: IO[bytes]
    path: Path | None = None

    def put(self, store: ObjectStore, key: str) -> None:
        """Store what was written as one object."""
        if isinstance(self.file, BytesIO):
            store.put(key, self.file.getbuffer(), overwrite=True)
        elif self.path is not None:
            self.file.flush()
            store.put_file(key, self.path, overwrite=True)


@contextmanager
def open_spool(size: int) -> Iterator[Spool]:
    """Open a spool that is gone at the end.

    Args:
        size: About how many bytes will be written.

    Raises:
        StorageUnavailableError: There is no room for them on this machine.
    """
    if size <= _IN_MEMORY:
        yield Spool(BytesIO())
        return
    with open_temporary_file() as (file, path):
        yield Spool(file, path)
