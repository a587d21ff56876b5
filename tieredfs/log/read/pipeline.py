"""The path of a read, from a plan to Arrow batches.

| Stage | takes | and yields | is in |
|---|---|---|---|
| fetch | a slice of a segment | pieces of its log | ``storage/segment_log/stream`` |
| split | pieces | whole batches, their headers checked | the same |
| filter | batches | those of the slice, checked | ``log/read/slice_batches`` |
| decompress | batches | the same, uncompressed | ``format/batch/decompress`` |
| decode | batches | Arrow batches | ``format/records/decode`` |

``slice_batches.read_slice`` is the first three stages alone, for lookups and checks.
Which slices there are is planned before: see ``reader`` and the modules in
``log/planning``. How far they have been read is noted in ``partition_read``.
"""

from collections.abc import Iterable, Iterator
from contextlib import closing

import pyarrow as pa

from tieredfs.format.batch.decompress import decompress_batches
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log.planning.tiles import SegmentSlice
from tieredfs.log.read.partition_read import PartitionRead
from tieredfs.log.read.slice_batches import filter_slice
from tieredfs.storage.segment_log.stream import split_log

__all__ = ["read_records"]


def read_records(
    read: PartitionRead, slices: Iterable[SegmentSlice], decoder: RecordDecoder
) -> Iterator[pa.RecordBatch]:
    """Yield the records of slices: fetch, split, filter, decompress and decode them.

    Nothing is fetched before the first batch is taken, and no more than about one fetch
    and one decompressed group are held.

    Args:
        read: The partition: it fetches the slices, and notes how far they are read.
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
            pieces = read.fetch(part)
            name = read.storage.name_of(part.segment)
            batches = split_log(pieces, name=name, after=part.previous_offset)
            for kept in read.follow(filter_slice(batches, part, read.storage)):
                yield kept.without_control()

    # Closed explicitly: a reference to an error would keep its thread alive.
    with closing(
        decompress_batches(filtered(), decoder.max_decompressed_bytes)
    ) as plain:
        yield from decoder.decode_uncompressed(plain)
