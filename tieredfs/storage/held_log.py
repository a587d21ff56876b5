"""A log held whole: nothing that happens to its store changes it any more."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tieredfs.model import SegmentMetadata
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.log_source import open_log
from tieredfs.storage.log_stream import read_log
from tieredfs.storage.temporary_file import open_temporary_file

__all__ = ["hold_log", "last_offset"]

_IN_MEMORY: Final = 32 << 20
"""Bytes of a log that are held in memory; a larger one is held in a file."""


@contextmanager
def hold_log(
    storage: RemoteStorageManager, metadata: SegmentMetadata
) -> Iterator[Path | bytes]:
    """Fetch a whole log, checked as far as its layout can, and keep it for a while.

    Args:
        storage: Where it is.
        metadata: The segment, with its size told.

    Raises:
        NotFoundError: The segment is gone.
        CorruptObjectError: The log is not what was stored.
        StorageUnavailableError: There is no room for it on this machine.
    """
    pieces = storage.stream_log(metadata)
    if (metadata.size or 0) <= _IN_MEMORY:
        yield b"".join(pieces)
        return
    with open_temporary_file() as (file, path):
        file.writelines(pieces)
        file.flush()
        yield path


def last_offset(segment: SegmentMetadata, log: Path | bytes) -> int:
    """Return the last offset of a segment's log, by the headers of its batches.

    Args:
        segment: The segment; a log without a batch ends before it.
        log: Its whole log.

    Raises:
        CorruptBatchError: A batch is malformed, out of order or cut off.
    """
    last = segment.start_offset - 1
    with open_log(log, str(segment)) as opened:
        for batches in read_log(opened.fetch, opened.size, name=opened.name):
            last = int(batches["last_offset"][-1])
    return last
