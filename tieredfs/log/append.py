"""Write records as a new segment at the end of a partition, once.

An append whose call failed is in doubt: its segment may be there, may become so when
anyone appends, or never will. The appender keeps it until its records are appended
again, which is the same append, not another one, and ends the doubt:

======================  ==============================  ================================
the append in doubt     the same records again          other records meanwhile
======================  ==============================  ================================
is a segment            are found there: its offsets    are appended behind it
claimed its offset      become a segment: its offsets   make it one; go behind it
claimed nothing         are written, at its offset      are written, at its offset
lost to another writer  are written at the new end      are written at the new end
======================  ==============================  ================================

So other records never push one in doubt into the log that has no claim, and records
that were given up are there once or not at all. After a success they are in doubt no
longer: the same records are appended once more. Another process, or another appender,
knows nothing of this: to it, what is in doubt is another writer's.

Each append has an id of its own, by which it is known again: two writers of the same
bytes have two. The records are the same when they encode to the same log at the offset
and the time of the append in doubt, so of each only a few hundred bytes are kept.
"""

import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    UnsupportedOperationError,
)
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
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects.fork_locks import make_lock
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.content_id import ContentId
from tieredfs.storage.inspection import Lead, inspect_segment
from tieredfs.storage.log_stream import read_batches

__all__ = ["Appender"]

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


@dataclass(frozen=True, slots=True)
class _Append:
    """All but the records of one append.

    Attributes:
        partition: Where to.
        end: Where the log ended when it began.
        codec: How the records are compressed.
        now_ms: The timestamp of records that have none.
        nonce: Tells it from any other append of the same records.
    """

    partition: TopicIdPartition
    end: _LogEnd
    codec: Codec
    now_ms: int
    nonce: bytes

    def encode(self, records: pa.Table) -> tuple[SegmentMetadata, bytes]:
        """Return the segment that it makes of some records, and its log."""
        rows = _with_timestamps(records, self.now_ms)
        options = BatchOptions(
            codec=self.codec, leader_epoch=self.end.epochs.entries[-1].epoch
        )
        start = self.end.offset
        log = b"".join(encode_batch(batch, options) for batch in _batches(rows, start))
        content = ContentId(self.partition, start).add(self.nonce).add(log)
        segment = SegmentMetadata(
            self.partition,
            content.finish(),
            start,
            end_offset=start + rows.num_rows - 1,
            size=len(log),
        )
        return segment, log

    def store(
        self, storage: RemoteStorageManager, segment: SegmentMetadata, log: bytes
    ) -> None:
        """Store what ``encode`` gave, or find it stored.

        Raises:
            AlreadyExistsError: Another writer was first; nothing was written.
        """
        view = memoryview(log)
        batches = read_batches(
            lambda start, stop: view[start:stop], len(log), name="log"
        )
        lead = Lead(self.end.producers, self.end.epochs)
        indexes = inspect_segment(batches, segment, {}, lead).rebuilt
        storage.append_log_segment(segment, LogSegmentData(log, indexes))


class Appender:
    """Append to one partition, and know the appends again that are in doubt.

    It may be shared by threads, whose appends follow one another.
    """

    def __init__(
        self, storage: RemoteStorageManager, partition: TopicIdPartition
    ) -> None:
        """Ask nothing yet; the first segment makes the partition."""
        self._storage = storage
        self._partition = partition
        self._lock = make_lock()
        self._in_doubt: dict[SegmentMetadata, _Append] = {}

    def append(self, records: pa.Table, *, codec: Codec, now_ms: int) -> range:
        """Write records as one segment at the end of the partition.

        Afterwards the segment is there whole. It is written under the leader epoch that
        the partition's end has. After an error that leaves it in doubt whether it is,
        the same records are the same append: they are written if they are not there.

        Args:
            records: Any of the columns key, value, headers and timestamp.
            codec: How the records are compressed.
            now_ms: The timestamp of records that have none, ms since 1970 UTC.

        Returns:
            The offsets of the records.

        Raises:
            InvalidArgumentError: A column is another one or has another type, or there
                is no record.
            AlreadyExistsError: Another writer was first; nothing was written.
            UnsupportedOperationError: The layout cannot be appended to.
            StorageUnavailableError: The store failed; the append is in doubt.
            DeadlineExceededError: It did not answer in time; the append is in doubt.
        """
        rows = _normalised(records, name=str(self._partition))
        with self._lock:
            for known, append in tuple(self._in_doubt.items()):
                if _count(known) != rows.num_rows:
                    continue
                segment, log = append.encode(rows)
                if segment == known:
                    with suppress(AlreadyExistsError):  # it lost: the end is elsewhere
                        return self._store(append, segment, log)
            begun = self._begin(codec, now_ms)
            rival = any(s.start_offset == begun.end.offset for s in self._in_doubt)
            try:
                return self._store(begun, *begun.encode(rows))
            except AlreadyExistsError:
                if not rival:
                    raise
            # The one that was first may be our own, which was in doubt.
            begun = self._begin(codec, now_ms)
            return self._store(begun, *begun.encode(rows))

    def _begin(self, codec: Codec, now_ms: int) -> _Append:
        end, there = _log_end(self._storage, self._partition)
        # One that the log has left behind and that is not in it never will be.
        self._in_doubt = {
            segment: append
            for segment, append in self._in_doubt.items()
            if segment.start_offset >= end.offset or segment.id in there
        }
        nonce = secrets.token_bytes(16)
        return _Append(self._partition, end, codec, now_ms, nonce)

    def _store(self, append: _Append, segment: SegmentMetadata, log: bytes) -> range:
        self._in_doubt[segment] = append
        try:
            append.store(self._storage, segment, log)
        except (AlreadyExistsError, UnsupportedOperationError):
            del self._in_doubt[segment]
            raise
        del self._in_doubt[segment]
        return range(segment.start_offset, segment.start_offset + _count(segment))


def _count(segment: SegmentMetadata) -> int:
    """Return how many records an appended segment has."""
    end = segment.start_offset if segment.end_offset is None else segment.end_offset
    return end - segment.start_offset + 1


def _log_end(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> tuple[_LogEnd, frozenset[SegmentId]]:
    """Return where a partition ends, and the ids of its segments."""
    catalog = SegmentCatalog(storage)
    try:
        segments = TieredReader(storage, catalog, partition).segments()
    except NotFoundError:
        segments = []
    ids = frozenset(segment.id for segment in segments)
    last = last_of(segments)
    if last is None:
        return _LogEnd(0, LeaderEpochs((_FIRST,)), ProducerSnapshot()), ids
    last = catalog.describe(last)
    epochs = lineage_of([last])
    known = epochs if epochs.entries else LeaderEpochs((_FIRST,))
    return _LogEnd(log_end([last]), known, _producers(storage, last)), ids


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


def _normalised(records: pa.Table, name: str) -> pa.Table:
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
        else:
            found = pa.nulls(records.num_rows, kind)
        columns.append(found)
    return pa.table(columns, names=list(_WRITTEN))


def _with_timestamps(rows: pa.Table, now_ms: int) -> pa.Table:
    """Give each record without a timestamp the present one."""
    place = _WRITTEN.index("timestamp")
    stamps = rows["timestamp"]
    filled = stamps.fill_null(pa.scalar(now_ms, pa.int64()).cast(stamps.type))
    return rows.set_column(place, "timestamp", filled)


def _batches(rows: pa.Table, offset: int) -> Iterator[pa.RecordBatch]:
    """Cut records into batches of about 1 MiB, with their offsets."""
    most = max(1, min(_BATCH_ROWS, rows.num_rows * _BATCH_BYTES // (rows.nbytes or 1)))
    for batch in rows.combine_chunks().to_batches(max_chunksize=most):
        offsets = pa.array(np.arange(offset, offset + batch.num_rows, dtype=np.int64))
        offset += batch.num_rows
        yield batch.append_column("offset", offsets)
