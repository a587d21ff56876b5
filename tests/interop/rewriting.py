"""The segments of a tier, written anew: log and indexes, under the same ids."""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.batch.table import LogBatch, LogBatches
from tieredfs.format.compression.codec import Codec
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.writer import BatchOptions, encode_batch
from tieredfs.model import (
    IndexType,
    LogSegmentData,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.segment_log.inspection import PriorState, inspect_segment
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.storage.segment_log.stream import read_batches

__all__ = ["rewrite", "timestamps_of"]


def timestamps_of(storage: KafkaLocal, partition: TopicIdPartition) -> list[int]:
    """Return the timestamp of every record of a partition, ms, markers among them."""
    decoder = RecordDecoder(partition.topic, partition.partition, ("timestamp",))
    return [
        timestamp
        for segment in storage.list_segments(partition)
        for records in decoder.decode(map(LogBatches.of, _batches(storage, segment)))
        for timestamp in records["timestamp"].cast(pa.int64()).to_pylist()
    ]


def rewrite(storage: KafkaLocal, partition: TopicIdPartition, codec: Codec) -> None:
    """Write every segment of a partition anew, and each of its indexes.

    The batches keep their offsets, producers and flags; nothing of what the broker
    wrote beside the logs is used.

    Args:
        storage: The tier.
        partition: Which one; its segments follow each other without a gap.
        codec: How the records are compressed afterwards; markers never are.
    """
    lead = PriorState(ProducerSnapshot())
    for listed in storage.list_segments(partition):
        batches = _batches(storage, listed)
        log = b"".join(_written(batch, codec) for batch in batches)
        last = batches[-1].header.last_offset
        segment = replace(listed, end_offset=last, size=len(log))
        indexes = inspect_segment(_scan(log), segment, {}, lead).rebuilt
        storage.copy_log_segment(segment, LogSegmentData(log, indexes))
        lead = PriorState(
            ProducerSnapshot.parse(indexes[IndexType.PRODUCER_SNAPSHOT]),
            parse_leader_epochs(indexes[IndexType.LEADER_EPOCH]),
        )


def _batches(storage: KafkaLocal, segment: SegmentMetadata) -> list[LogBatch]:
    return list(_scan(storage.fetch_log_segment(segment)))


def _scan(log: bytes | memoryview) -> Iterator[LogBatch]:
    return read_batches(log_in_memory(log, "log"))


def _written(batch: LogBatch, codec: Codec) -> bytes:
    header = batch.header
    columns = ("offset", "timestamp", "key", "value", "headers")
    (records,) = RecordDecoder("", 0, columns).decode([LogBatches.of(batch)])
    return encode_batch(
        records,
        _options(header, Codec.NONE if header.is_control else codec),
        base_offset=header.base_offset,
        last_offset=header.last_offset,
    )


def _options(header: BatchHeader, codec: Codec) -> BatchOptions:
    return BatchOptions(
        codec=codec,
        leader_epoch=header.leader_epoch,
        timestamp_type=header.timestamp_type,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        delete_horizon_ms=header.delete_horizon_ms,
    )
