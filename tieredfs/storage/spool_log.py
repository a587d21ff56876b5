"""Read a whole log once, so that later changes of the store do not affect it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from tieredfs.model import SegmentMetadata
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.segment_log.source import (
    LogSource,
    log_in_file,
    log_in_place,
    open_log,
)
from tieredfs.storage.segment_log.spool import MAX_MEMORY_BYTES
from tieredfs.storage.segment_log.stream import read_log
from tieredfs.storage.segment_log.temporary_file import open_temporary_file

__all__ = ["last_offset", "spool_log"]


@contextmanager
def spool_log(
    storage: RemoteStorageManager,
    metadata: SegmentMetadata,
    *,
    watch: Callable[[memoryview], object] = lambda _: None,
) -> Iterator[LogSource]:
    """Read a whole log, checked as far as its layout can, and hold it locally.

    A small log is held in memory. A large log on a disk of this machine is read in
    place: if it changes afterwards, that alone is not an error, but reading it then is.
    A large log from elsewhere is fetched once, into a temporary file.

    Args:
        storage: Where it is.
        metadata: The segment, whose size is known.
        watch: Called with each piece of the log, in order.

    Raises:
        NotFoundError: The segment is gone.
        CorruptObjectError: The log is not what was stored.
        StorageUnavailableError: There is no room for it on this machine.
    """
    size, name = metadata.size or 0, storage.name_of(metadata)

    def pieces() -> Iterator[memoryview]:
        for piece in storage.stream_log(metadata):
            watch(piece)
            yield piece

    if size <= MAX_MEMORY_BYTES:
        with open_log(b"".join(pieces()), name) as log:
            yield log
    elif storage.store.is_local:
        fetch = partial(storage.fetch_log_segment, metadata)
        yield log_in_place(fetch, size, name, pieces=pieces())
    else:
        with open_temporary_file() as file:
            file.writelines(pieces())
            file.flush()
            yield log_in_file(file, file.tell(), name, is_steady=True)


def last_offset(segment: SegmentMetadata, log: LogSource) -> int:
    """Return the last offset of a segment's log, from its batch headers.

    Args:
        segment: The segment. If its log has no batch, the offset before its start is
            returned.
        log: Its whole log.

    Raises:
        CorruptBatchError: A batch is malformed, out of order or cut off.
    """
    last = segment.start_offset - 1
    for batches in read_log(log):
        last = int(batches["last_offset"][-1])
    return last
