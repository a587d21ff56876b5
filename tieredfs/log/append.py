"""Write records as a new segment at the end of a partition."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.format.batch import Codec
from tieredfs.format.batch_writer import BatchOptions, encode_batch
from tieredfs.format.producer_snapshot import ProducerSnapshot
from tieredfs.format.schema import SCHEMA
from tieredfs.log.catalog import SegmentCatalog
from tieredfs.log.plan import last_of, lineage_of, log_end
from tieredfs.log.reader import TieredReader
from tieredfs.model import (
    EpochEntry,
    IndexType,
    LogSegmentData,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.content_id import ContentId
from tieredfs.storage.inspection import Lead, inspect_segment
from tieredfs.storage.log_stream import read_batches

__all__ = ["append_records"]

_BATCH_BYTES: Final = 1 << 20
_BATCH_ROWS: Final = 1 << 16
_WRITTEN: Final = ("key", "value", "headers", "timestamp")
_FIRST: Final = EpochEntry(0, 0)


@dataclass(frozen=True, slots=True)
class _LogEnd:
    """Where a partition ends, and the history that leads there."""

    offset: int
    epochs: LeaderEpochs
    producers: ProducerSnapshot


def append_records(
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    records: pa.Table,
    *,
    codec: Codec,
    now_ms: int,
) -> range:
    """Write records as one segment at the end of a partition.

    Afterwards the segment is there whole, or, also after a crash, none of it. It is
    written under the leader epoch that the partition's end has.

    Args:
        storage: The tier.
        partition: Where to; its first segment makes it.
        records: Any of the columns key, value, headers and timestamp.
        codec: How the records are compressed.
        now_ms: The timestamp of records that have none, ms since 1970 UTC.

    Returns:
        The offsets of the records.

    Raises:
        InvalidArgumentError: A column is another one or has another type, or there is
            no record.
        AlreadyExistsError: Somebody else appended meanwhile; nothing was written.
        UnsupportedOperationError: The layout cannot be appended to.
    """
    rows = _normalised(records, now_ms, name=str(partition))
    end = _log_end(storage, partition)
    epoch = end.epochs.entries[-1].epoch
    log = b"".join(
        encode_batch(batch, BatchOptions(codec=codec, leader_epoch=epoch))
        for batch in _batches(rows, end.offset)
    )
    content = ContentId(partition, end.offset).add(log)
    segment = SegmentMetadata(
        partition,
        content.finish(),
        end.offset,
        end_offset=end.offset + rows.num_rows - 1,
        size=len(log),
    )
    view = memoryview(log)
    batches = read_batches(lambda start, stop: view[start:stop], len(log), name="log")
    lead = Lead(end.producers, end.epochs)
    indexes = inspect_segment(batches, segment, {}, lead).rebuilt
    storage.append_log_segment(segment, LogSegmentData(log, indexes))
    return range(end.offset, end.offset + rows.num_rows)


def _log_end(storage: RemoteStorageManager, partition: TopicIdPartition) -> _LogEnd:
    catalog = SegmentCatalog(storage)
    try:
        segments = TieredReader(storage, catalog, partition).segments()
    except NotFoundError:
        segments = []
    last = last_of(segments)
    if last is None:
        return _LogEnd(0, LeaderEpochs((_FIRST,)), ProducerSnapshot())
    last = catalog.describe(last)
    epochs = lineage_of([last])
    return _LogEnd(
        log_end([last]),
        epochs if epochs.entries else LeaderEpochs((_FIRST,)),
        _producers(storage, last),
    )


def _producers(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> ProducerSnapshot:
    """Return the producers where a segment ends: an open transaction stays open."""
    try:
        data = storage.fetch_index(segment, IndexType.PRODUCER_SNAPSHOT)
    except NotFoundError:
        return ProducerSnapshot()
    name = f"{storage.name_of(segment)}: producer snapshot"
    return ProducerSnapshot.parse(data, name=name)


def _normalised(records: pa.Table, now_ms: int, name: str) -> pa.Table:
    """Return the records with every column that is written, and its type."""
    names = Counter(records.schema.names)
    strangers = sorted(
        n for n, times in names.items() if n not in _WRITTEN or times > 1
    )
    if strangers or not records.num_rows:
        detail = f"column {strangers[0]!r}" if strangers else "no records"
        raise InvalidArgumentError(
            f"{name}: {detail}: to append are records with the columns "
            f"{', '.join(_WRITTEN)}, each once"
        )
    columns = []
    for column in _WRITTEN:
        kind = SCHEMA.field(column).type
        if column in records.schema.names:
            try:
                found = records[column].cast(kind)
            except pa.ArrowException as error:
                msg = f"{name}: column {column!r} is not {kind}: {error}"
                raise InvalidArgumentError(msg) from error
            if column == "timestamp":
                found = found.fill_null(pa.scalar(now_ms, pa.int64()).cast(kind))
        elif column == "timestamp":
            stamp = pa.scalar(now_ms, pa.int64()).cast(kind)
            found = pa.repeat(stamp, records.num_rows)
        else:
            found = pa.nulls(records.num_rows, kind)
        columns.append(found)
    return pa.table(columns, names=list(_WRITTEN))


def _batches(rows: pa.Table, offset: int) -> Iterator[pa.RecordBatch]:
    """Cut records into batches of about 1 MiB, with their offsets."""
    most = max(1, min(_BATCH_ROWS, rows.num_rows * _BATCH_BYTES // (rows.nbytes or 1)))
    for batch in rows.combine_chunks().to_batches(max_chunksize=most):
        offsets = pa.array(np.arange(offset, offset + batch.num_rows, dtype=np.int64))
        offset += batch.num_rows
        yield batch.append_column("offset", offsets)
