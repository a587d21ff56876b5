"""The batches of a stored log: fetch → split, in requests of the store's options."""

from collections.abc import Iterator
from functools import partial
from itertools import chain

from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.model import SegmentMetadata
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.segment_log.stream import (
    LogFetch,
    read_torn_batches,
    split_log,
)

__all__ = ["fetch_batches", "fetch_each_batch"]


def fetch_batches(
    storage: RemoteStorageManager,
    metadata: SegmentMetadata,
    *,
    start: int = 0,
    until: int | None = None,
) -> Iterator[LogBatches]:
    """Yield the batches of a segment's log in order, their headers checked.

    Each request is for ``Options.fetch_bytes`` of the storage's store, and none is sent
    before the batches that it brings are needed.

    Args:
        storage: Where the segment is.
        metadata: The segment, whose size is known.
        start: Position of the first batch.
        until: Position up to which the first requests reach; None for the whole log.

    Raises:
        CorruptBatchError: A batch is malformed, out of order or cut off.
        UnsupportedFormatError: A magic byte or codec is not supported.
        NotFoundError: The segment is gone.
    """
    pieces = LogFetch(
        partial(storage.fetch_log_ahead, metadata),
        metadata.size or 0,
        fetch_size=storage.store.options.fetch_bytes,
        start=start,
        until=until,
    )
    return split_log(pieces, name=storage.name_of(metadata))


def fetch_each_batch(
    storage: RemoteStorageManager,
    metadata: SegmentMetadata,
    *,
    start: int = 0,
    torn_tail: bool,
) -> Iterator[LogBatch]:
    """Yield the batches of a segment's log one by one, their checksums checked.

    Args:
        storage: As in ``fetch_batches``.
        metadata: As in ``fetch_batches``.
        start: As in ``fetch_batches``.
        torn_tail: Whether the log may end in an incomplete batch or in zeros, as the
            segment that a broker is writing may: see ``read_torn_batches``.

    Raises:
        CorruptBatchError: As in ``fetch_batches``.
        UnsupportedFormatError: As in ``fetch_batches``.
        NotFoundError: As in ``fetch_batches``.
    """
    if not torn_tail:
        return chain.from_iterable(fetch_batches(storage, metadata, start=start))
    return read_torn_batches(
        partial(storage.fetch_log_ahead, metadata),
        metadata.size or 0,
        fetch_size=storage.store.options.fetch_bytes,
        name=storage.name_of(metadata),
        start=start,
    )
