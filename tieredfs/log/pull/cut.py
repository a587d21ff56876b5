"""Cut a range of offsets out of a segment, as a broker could have written it.

Replicas roll their segments between batches, so a cut nearly always falls between two
batches, and every batch stays unchanged. A batch with offsets on both sides is
rewritten with the wanted ones, as the cleaner does it.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pyarrow as pa

from tieredfs.errors import UnsupportedOperationError
from tieredfs.format.batch.header import MAGIC
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.compression.codec import Codec
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.writer import BatchOptions, encode_batch
from tieredfs.log.planning.positions import read_offsets
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.inspection import PriorState, inspect_segment
from tieredfs.storage.segment_log.source import LogSource, log_in_file
from tieredfs.storage.segment_log.stream import read_batches
from tieredfs.storage.segment_log.temporary_file import open_temporary_file

__all__ = ["CutSegment", "cut_segment"]

_COLUMNS: Final = ("offset", "timestamp", "key", "value", "headers")
_SEQUENCES: Final = 1 << 31


@dataclass(frozen=True, slots=True)
class CutSegment:
    """A part of a segment.

    Attributes:
        metadata: Its offsets and size; the other fields are those of the whole segment.
        log: Its batches.
        indexes: Its indexes, built from the batches.
    """

    metadata: SegmentMetadata
    log: LogSource
    indexes: Mapping[IndexType, bytes]


@contextmanager
def cut_segment(
    storage: RemoteStorageManager,
    segment: SegmentMetadata,
    start: int,
    end: int,
    lead: PriorState,
) -> Iterator[CutSegment]:
    """Cut the offsets ``[start, end)`` out of a segment, for a with block.

    Args:
        storage: Where the segment is.
        segment: The segment, described.
        start: First offset.
        end: End (exclusive) of the offsets.
        lead: What is known of the partition at ``start``.

    Raises:
        UnsupportedOperationError: A batch of an old message format would have to be
            cut.
        CorruptDataError: The log is corrupt.
    """
    with open_temporary_file() as file:
        for batch in chain.from_iterable(read_offsets(storage, segment, start, end)):
            file.write(_within(batch, start, end))
        file.flush()
        metadata = replace(
            segment,
            start_offset=start,
            end_offset=end - 1,
            size=file.tell(),
            record_count=None,
        )
        log = log_in_file(file, file.tell(), str(metadata), is_steady=True)
        batches = read_batches(log)
        indexes = inspect_segment(batches, metadata, {}, lead).rebuilt
        yield CutSegment(metadata, log, indexes)


def _within(batch: LogBatch, start: int, end: int) -> memoryview | bytes:
    """Return the bytes of a batch, cut to the offsets ``[start, end)``."""
    header = batch.header
    first, last = max(header.base_offset, start), min(header.last_offset, end - 1)
    if (first, last) == (header.base_offset, header.last_offset):
        return batch.buffer[batch.start : batch.start + header.size]
    if header.magic != MAGIC:
        raise UnsupportedOperationError(
            f"{batch.where}: a batch of message format v{header.magic} cannot be cut "
            f"to the offsets {first} to {last}"
        )
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = (sequence + first - header.base_offset) % _SEQUENCES
    options = BatchOptions(
        codec=Codec(header.codec),
        leader_epoch=header.leader_epoch,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms,
    )
    decoder = RecordDecoder("", 0, _COLUMNS)
    wanted = LogBatches.of(batch).within(first, last + 1)
    table = pa.Table.from_batches(decoder.decode([wanted]), schema=decoder.schema)
    (records,) = table.combine_chunks().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=decoder.schema)
    ]
    return encode_batch(records, options, base_offset=first, last_offset=last)
