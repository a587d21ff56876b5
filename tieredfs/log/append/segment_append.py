"""One append: the segment that it makes at the end of a log, and how it is stored."""

from dataclasses import dataclass
from functools import partial
from typing import Final

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.format.compression.codec import Codec
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.records.writer import BatchOptions, encode_batch
from tieredfs.log.append.rows import AppendRows
from tieredfs.log.journal.journal import read_state
from tieredfs.log.partitions import holds_segments, topic_partitions
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.tiles import last_of, lineage_of, log_end
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.replan import plan_despite_deletes
from tieredfs.model import (
    EpochEntry,
    IndexType,
    LogSegmentData,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
)
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.content_id import ContentId
from tieredfs.storage.segment_log.inspection import PriorState, inspect_segment
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.storage.segment_log.stream import read_batches

__all__ = [
    "AppendOptions",
    "LogEnd",
    "SegmentAppend",
    "begun_elsewhere",
    "find_end",
    "topic_ids",
]

_FIRST: Final = EpochEntry(0, 0)


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of a partition, and the history up to it."""

    offset: int
    epochs: LeaderEpochs
    producers: ProducerSnapshot


@dataclass(frozen=True, slots=True)
class AppendOptions:
    """How records become segments.

    Attributes:
        codec: How the records are compressed.
        now_ms: The timestamp of records that have none.
        segment_bytes: Maximum bytes of a segment's log, unless a single batch is
            larger.
    """

    codec: Codec
    now_ms: int
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class SegmentAppend:
    """One append, without its records.

    Attributes:
        partition: The partition.
        end: The end of the log when the append began.
        options: How the records become a segment.
        nonce: Distinguishes it from other appends of the same records.
        begins_topic: Whether there was no topic of the name.
    """

    partition: TopicIdPartition
    end: LogEnd
    options: AppendOptions
    nonce: bytes
    begins_topic: bool

    def encode(self, rows: AppendRows) -> tuple[SegmentMetadata, memoryview]:
        """Return a segment with as many of the rows as fit, and its log."""
        options = BatchOptions(
            codec=self.options.codec, leader_epoch=self.end.epochs.entries[-1].epoch
        )
        start = following = self.end.offset
        content = ContentId(self.partition, start).add(self.nonce)
        log = bytearray()
        for batch in rows.batches(start, self.options.now_ms):
            encoded = encode_batch(batch, options)
            if log and len(log) + len(encoded) > self.options.segment_bytes:
                break
            content.add(encoded)
            log += encoded
            following += batch.num_rows
        segment = SegmentMetadata(
            self.partition,
            content.finish(),
            start,
            end_offset=following - 1,
            size=len(log),
        )
        return segment, memoryview(log).toreadonly()

    def store(
        self, storage: RemoteStorageManager, segment: SegmentMetadata, log: memoryview
    ) -> None:
        """Store the result of ``encode``, unless it is already stored.

        Raises:
            AlreadyExistsError: Another writer was first; nothing was written.
            InvalidArgumentError: Another writer has begun a topic of the same name;
                nothing is left of this one.
        """
        batches = read_batches(log_in_memory(log, "log"))
        lead = PriorState(self.end.producers, self.end.epochs)
        indexes = inspect_segment(batches, segment, {}, lead).rebuilt
        storage.append_log_segment(segment, LogSegmentData(log, indexes))
        # Two writers that each create a topic give it two ids; readers see one of them.
        if self.begins_topic and len(topic_ids(storage, self.partition)) > 1:
            storage.delete_log_segment(segment)
            raise begun_elsewhere(self.partition)


def topic_ids(storage: RemoteStorageManager, partition: TopicIdPartition) -> set[Uuid]:
    """Return the ids of the topics of a partition's name that were not deleted."""
    found = topic_partitions(storage, partition.topic)
    ids = {one.topic_id for one in found}
    is_there = partition.topic_id in ids or holds_segments(storage, found)
    return ids if is_there else set()


def begun_elsewhere(partition: TopicIdPartition) -> InvalidArgumentError:
    """Return the error for a topic that another writer has begun under the name."""
    return InvalidArgumentError(
        f"{partition}: another writer has begun a topic of this name; nothing was "
        "written: open the topic by its name, and append to that; if there is none, "
        "both were refused: create it again"
    )


def find_end(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> tuple[LogEnd, frozenset[SegmentId]]:
    """Return the end of a partition, and the ids of its segments.

    Raises:
        CorruptDataError: A segment is inconsistent with its indexes.
        InvalidTransitionError: The partition is being deleted, and has no segment.
    """
    catalog = SegmentCatalog(storage)
    catalog.begin([partition])
    reader, plan = TieredReader(storage, catalog, partition), partial(_end_of, catalog)
    try:
        return plan_despite_deletes(plan, reader)
    except NotFoundError:  # all of it has expired since it was listed
        return plan(reader)


def _end_of(
    catalog: SegmentCatalog, reader: TieredReader
) -> tuple[LogEnd, frozenset[SegmentId]]:
    """Return what ``find_end`` does.

    Raises:
        NotFoundError: A segment was deleted since it was listed.
    """
    storage, segments = reader.storage, reader.segments()
    ids = frozenset(segment.id for segment in segments)
    last = last_of(segments)
    if last is None:  # it is new, or all of it has expired
        state = read_state(storage.store, reader.partition)
        state.check_copied()
        end = LogEnd(state.log_start, LeaderEpochs((_FIRST,)), ProducerSnapshot())
        return end, ids
    indexes = storage.fetch_all_indexes(last)
    last = catalog.describe(last, indexes)
    epochs = lineage_of([last])
    known = epochs if epochs.entries else LeaderEpochs((_FIRST,))
    return LogEnd(log_end([last]), known, _producers(storage, last, indexes)), ids


def _producers(
    storage: RemoteStorageManager, segment: SegmentMetadata, indexes: SegmentIndexes
) -> ProducerSnapshot:
    """Return the producers at a segment's end: an open transaction stays open."""
    data = indexes.get(IndexType.PRODUCER_SNAPSHOT)
    if data is None:
        return ProducerSnapshot()
    name = f"{storage.name_of(segment)}: producer snapshot"
    return ProducerSnapshot.parse(data, name=name)
