"""Bytes assembled before they are stored, where no other process can write."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Final

from tieredfs.objects import ObjectStore
from tieredfs.storage.segment_log.source import LogContent, LogSource, log_in_file
from tieredfs.storage.segment_log.temporary_file import open_temporary_file

__all__ = ["MAX_MEMORY_BYTES", "Spool", "is_put_in_place", "open_spool", "spooled"]

MAX_MEMORY_BYTES: Final = 32 << 20
"""Maximum bytes of a log in memory; a larger log is written to a temporary file."""


def is_put_in_place(log: LogSource) -> bool:
    """Return whether a log is stored without a copy: it is large and steady."""
    return log.is_steady and log.size > MAX_MEMORY_BYTES


@dataclass(frozen=True, slots=True)
class Spool:
    """Bytes in memory, or in a temporary file.

    Attributes:
        file: Where they are written to.
    """

    file: IO[bytes]

    def content(self) -> bytes | LogContent:
        """Return what was written, as the content of an object."""
        if isinstance(self.file, BytesIO):
            # Not a view: with one in a reference cycle Python 3.12 crashes (gh-111049).
            return self.file.getvalue()
        self.file.flush()
        size = os.fstat(self.file.fileno()).st_size
        whole = log_in_file(self.file, size, "a temporary file", is_steady=True)
        return LogContent(whole)

    def put(self, store: ObjectStore, key: str) -> None:
        """Store what was written as one object."""
        content = self.content()
        if isinstance(content, bytes):
            store.put(key, content, overwrite=True)
        else:
            store.put_file(key, content, overwrite=True)


@contextmanager
def open_spool(size: int) -> Iterator[Spool]:
    """Open a spool that is removed at the end.

    Args:
        size: About how many bytes will be written.

    Raises:
        StorageFullError: This machine has no room for them.
    """
    if size <= MAX_MEMORY_BYTES:
        yield Spool(BytesIO())
        return
    with open_temporary_file() as file:
        yield Spool(file)


@contextmanager
def spooled(log: LogSource) -> Iterator[Path | bytes]:
    """Yield a log as bytes, or as a file if it is too large for memory.

    Raises:
        CorruptObjectError: The log no longer exists.
        StorageFullError: There is no room for it on this machine.
    """
    if log.size <= MAX_MEMORY_BYTES:
        yield b"".join(log.pieces())
        return
    with open_temporary_file() as file:
        file.writelines(log.pieces())
        file.flush()
        yield Path(f"/dev/fd/{file.fileno()}")  # it has no other name
