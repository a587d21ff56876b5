"""The path of a read, from slices of segments to Arrow batches.

| Stage | takes | and yields | is in |
|---|---|---|---|
| fetch | a slice of a segment | pieces of its log | ``storage/segment_log/stream``, |
| | | from a distant store ahead | ``fetch/fetcher`` |
| split | pieces | whole batches, headers checked | ``storage/segment_log/stream`` |
| filter | batches | those of the slice, checked | ``log/read/slice_batches`` |
| | | without hidden ones | ``log/read/partition_read``, ``log/read/aborts`` |
| decompress | batches | the same, uncompressed | ``format/batch/decompress`` |
| | | where records are needed | ``format/records/decode`` |
| decode | batches | Arrow batches | ``format/records/decode`` |

``read_records`` is all of them, for ``Scan`` and ``Topic.read``; ``read_slice`` is the
first three, for lookups and checks. Which slices there are is planned before: see
``reader`` and the modules in ``log/planning``. How far they are read is up to the two
kinds of ``RecordRead``: ``partition_read`` and ``fetch``.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain, islice
from typing import Protocol

import pyarrow as pa

from tieredfs.format.batch.table import LogBatches
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.slice_batches import check_current, fetch_slice, filter_slice
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.stream import LogFetch, split_log

__all__ = ["RecordRead", "read_records", "read_slice"]


class RecordRead(Protocol):
    """A read in progress: it fetches its slices, and ends where it wants to.

    Attributes:
        storage: Where the segments are.
        is_begun_small: Whether the first request was for few bytes, so that the first
            records come soon.
    """

    storage: RemoteStorageManager
    is_begun_small: bool

    def fetch(self, part: SegmentSlice) -> LogFetch:
        """Fetch the log of a slice."""

    def follow(self, batches: Iterable[LogBatches]) -> Iterator[LogBatches]:
        """Yield the batches of a slice up to where the read ends.

        Hidden ones are left out: control batches, and, of a read of committed records,
        those of aborted transactions.
        """


def read_records(
    read: RecordRead, slices: Iterable[SegmentSlice], decoder: RecordDecoder
) -> Iterator[pa.RecordBatch]:
    """Yield the records of slices: fetch, split, filter, decompress and decode them.

    Nothing is fetched before the first batch is taken, and no more than about one piece
    and one decompressed group are held, and what the read has downloaded ahead. A read
    whose first request is for few bytes yields their records before it waits for more.

    Args:
        read: Fetches the slices, and follows how far they are read.
        slices: The slices to read, as ``read`` yields them.
        decoder: The columns to build.

    Raises:
        NotFoundError: A segment is gone and deleted segments are not skipped; or every
            segment is gone: this may not be the store that was planned.
        CorruptDataError: The stored data is corrupt. The records before it have been
            yielded.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """

    def filtered() -> Iterator[LogBatches]:
        for part in slices:
            batches = _split_and_filter(read.fetch(part), part, read.storage)
            yield from read.follow(batches)

    # Closed explicitly: a reference to an error would keep its thread alive.
    with closing(decoder.decompress(filtered())) as plain:
        first = list(islice(plain, 1))
        if read.is_begun_small:
            yield from decoder.decode_uncompressed(first)
            first.clear()
        yield from decoder.decode_uncompressed(chain(first, plain))


def read_slice(
    storage: RemoteStorageManager, part: SegmentSlice
) -> Iterator[LogBatches]:
    """Yield the checked batches of a slice: fetch, split and filter them.

    Each request is for ``Options.fetch_bytes`` of the storage's store.

    Args:
        storage: Where the segment is.
        part: The slice.

    Raises:
        CorruptDataError: As in ``filter_slice``.
        NotFoundError: The segment is gone.
        StorageUnavailableError: As in ``filter_slice``, or the store failed in all
            attempts of its policy.
    """
    pieces = fetch_slice(storage, part, storage.store.options.fetch_bytes)
    return _split_and_filter(pieces, part, storage)


def _split_and_filter(
    pieces: LogFetch, part: SegmentSlice, storage: RemoteStorageManager
) -> Iterator[LogBatches]:
    name = storage.name_of(part.segment)
    current = partial(check_current, storage, part.segment)
    batches = split_log(
        pieces,
        name=name,
        after=part.previous_offset,
        at_border=current,
        is_continued=part.previous_offset >= 0 and not pieces.is_begun,
    )
    return filter_slice(batches, part, storage)
