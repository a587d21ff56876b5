"""A temporary file for data that is too large for memory."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO
from typing import TYPE_CHECKING, BinaryIO

from tieredfs.errors import StorageFullError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["open_temporary_file"]


@contextmanager
def open_temporary_file() -> Iterator[BinaryIO]:
    """Create a temporary file without a name, so that it can never be left behind.

    Its space is freed however the process ends.

    Yields:
        The file, to be read by its descriptor after a flush.

    Raises:
        StorageFullError: It cannot be created or written, for example on a full disk.
    """
    try:
        with tempfile.TemporaryFile(prefix="tieredfs-", buffering=0) as nameless:
            descriptor = os.dup(nameless.fileno())
    except OSError as error:
        raise _no_room(error) from error
    with BufferedWriter(_TemporaryFile(descriptor, "wb")) as file:
        yield file


class _TemporaryFile(FileIO):
    def write(self, data: "ReadableBuffer", /) -> int:
        """Write some of the bytes; an error of a full disk names its directory."""
        try:
            return super().write(data)
        except OSError as error:
            raise _no_room(error) from error


def _no_room(error: OSError) -> StorageFullError:
    return StorageFullError(
        f"no temporary file can be written in {_directory()}: {error.strerror}; set "
        "TMPDIR to a directory with room for a segment"
    )


def _directory() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:  # none can be written
        return "the directory of temporary files"
