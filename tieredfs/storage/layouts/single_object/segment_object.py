"""One segment as one object: how it is assembled, and how its key is checked.

Source: ``formats.md`` of the project, "The native layout: single-object, version 1".
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from tieredfs.errors import CorruptObjectError, InvalidArgumentError
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.format.segment.tail import Manifest, SegmentFacts, build_tail
from tieredfs.model import (
    EpochEntry,
    IndexType,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.storage.layouts.single_object.stored_log import Compression, LogWriter
from tieredfs.storage.segment_log.facts import LogFacts
from tieredfs.storage.segment_log.inspection import inspect_copy
from tieredfs.storage.segment_log.source import LogSource

__all__ = [
    "check_facts",
    "epochs_of",
    "listed_metadata",
    "write_segment",
]


def write_segment(
    metadata: SegmentMetadata,
    source: LogSource,
    indexes: Mapping[IndexType, bytes],
    out: Callable[[Buffer], object],
    compression: Compression | None,
) -> tuple[SegmentKey, bytes]:
    """Write the log of a segment's object, and return its key and its tail.

    The log is read once: the bytes that are checked are the bytes that are written.

    Args:
        metadata: The segment's partition, id, first and last offset.
        source: Its log.
        indexes: The bytes of each index that exists.
        out: Takes the log in its stored form, in order.
        compression: How the log is stored.

    Returns:
        The object's key and its tail.

    Raises:
        InvalidArgumentError: ``metadata`` has no end offset, or contains no offset.
        CorruptBatchError: A batch is malformed or outside the segment.
        CorruptIndexError: An index is malformed or inconsistent with the log.
    """
    end_offset = metadata.end_offset
    if end_offset is None or end_offset < metadata.start_offset:
        msg = f"{metadata}: the segment has no end offset, or no offset at all"
        raise InvalidArgumentError(msg)
    writer = LogWriter(out, compression)
    measured = replace(metadata, size=source.size)
    facts = inspect_copy(source, writer.write, measured, indexes).facts
    log = writer.finish()
    flags = SegmentFlag(0)
    if len(indexes.get(IndexType.TRANSACTION, b"")):
        flags |= SegmentFlag.TRANSACTIONS
    if log.chunks is not None:
        flags |= SegmentFlag.TRANSFORMED
    stated = SegmentFacts(
        topic=metadata.partition.topic,
        topic_id=metadata.partition.topic_id,
        partition=metadata.partition.partition,
        id=metadata.id,
        start_offset=metadata.start_offset,
        end_offset=end_offset,
        record_count=facts.record_count,
        first_timestamp_ms=facts.first_timestamp_ms,
        max_timestamp_ms=facts.max_timestamp_ms,
        broker_id=-1,
        leader_epochs=_written_epochs(metadata, indexes, facts),
    )
    tail = build_tail(stated, log, indexes, flags)
    key = SegmentKey(
        end_offset,
        metadata.start_offset,
        facts.max_timestamp_ms,
        facts.epoch,
        log.length,
        len(tail),
        flags,
        metadata.id,
    )
    return key, tail


def _written_epochs(
    metadata: SegmentMetadata, indexes: Mapping[IndexType, bytes], facts: LogFacts
) -> tuple[EpochEntry, ...]:
    checkpoint = indexes.get(IndexType.LEADER_EPOCH)
    if checkpoint is None:
        return facts.epochs
    return parse_leader_epochs(checkpoint, name=f"{metadata}: leader epochs").entries


def epochs_of(manifest: Manifest) -> tuple[EpochEntry, ...]:
    """Return the epochs that begin at or before the end of a segment."""
    facts = manifest.segment
    return tuple(e for e in facts.leader_epochs if e.start_offset <= facts.end_offset)


def check_facts(
    manifest: Manifest, partition: TopicIdPartition, key: SegmentKey, name: str
) -> None:
    """Compare the manifest with the object's place and key.

    Raises:
        CorruptObjectError: They disagree.
    """
    facts = manifest.segment
    said = (facts.topic, facts.topic_id, facts.partition)
    expected = (partition.topic, partition.topic_id, partition.partition)
    offsets = (facts.start_offset, facts.end_offset, facts.max_timestamp_ms, facts.id)
    keyed = (key.start_offset, key.end_offset, key.max_timestamp_ms, key.id)
    chunked = bool(key.flags & SegmentFlag.TRANSFORMED)
    aborts = manifest.indexes.get(IndexType.TRANSACTION)
    if (
        said != expected
        or offsets != keyed
        or chunked == (manifest.log.chunks is None)
        or bool(key.flags & SegmentFlag.TRANSACTIONS) != bool(aborts and aborts.length)
    ):
        msg = f"{name}: its manifest belongs to another segment"
        raise CorruptObjectError(msg)


def listed_metadata(
    partition: TopicIdPartition, key: SegmentKey, stem: str
) -> SegmentMetadata:
    """Return the metadata of a segment that its key contains."""
    chunked = key.flags & SegmentFlag.TRANSFORMED
    return SegmentMetadata(
        partition,
        key.id,
        key.start_offset,
        key.end_offset,
        key.max_timestamp_ms,
        size=None if chunked else key.log_length,
        custom_metadata=stem.encode(),
        stored_size=key.size,
    )
