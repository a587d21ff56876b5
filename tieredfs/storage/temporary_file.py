"""A temporary file for bytes that are too many to be held in memory."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tieredfs.errors import StorageUnavailableError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["TemporaryFileError", "open_temporary_file", "remove_temporary_files"]

_present: set[Path] = set()


class TemporaryFileError(StorageUnavailableError):
    """There is no room for a temporary file on this machine."""


@contextmanager
def open_temporary_file() -> Iterator[tuple[BinaryIO, Path]]:
    """Make a temporary file, and remove it afterwards.

    Yields:
        The file, and its path, to be read after a flush.

    Raises:
        TemporaryFileError: It cannot be made or written, on a full disk say.
    """
    try:
        descriptor, name = tempfile.mkstemp(prefix="tieredfs-")
    except OSError as error:
        raise _unavailable(error) from error
    path = Path(name)
    _present.add(path)
    try:
        with BufferedWriter(_TemporaryFile(descriptor, "wb")) as file:
            yield file, path
    finally:
        path.unlink(missing_ok=True)
        _present.discard(path)


def remove_temporary_files() -> None:
    """Remove all that are open in any thread, for a process that ends at once."""
    for path in tuple(_present):
        with suppress(OSError):
            path.unlink(missing_ok=True)


class _TemporaryFile(FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        """Write some of the bytes; a disk that is full is named."""
        try:
            return super().write(data)
        except OSError as error:
            raise _unavailable(error) from error


def _unavailable(error: OSError) -> TemporaryFileError:
    return TemporaryFileError(
        f"no temporary file can be written: {error.strerror}; set TMPDIR to a "
        "directory with room for a segment"
    )
