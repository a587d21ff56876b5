"""The manifest of a segment, version 1: JSON that describes the other objects.

The plugin's reader accepts any order, white space, a numeric version and trailing data,
and so does this one. Both reject an unknown field, except in
``remoteLogSegmentMetadata``, which is the broker's and is defined by Kafka.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tieredfs import (
    ByteRange,
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    SegmentId,
    TopicIdPartition,
    UnsupportedFormatError,
    Uuid,
)
from tieredfs_aiven.chunk_index import ChunkIndex
from tieredfs_aiven.encryption import OVERHEAD, WrappedKey
from tieredfs_aiven.fields import MAX_INT64, Fields

__all__ = ["INDEX_FIELDS", "Manifest", "SegmentFacts", "parse_manifest"]

INDEX_FIELDS: Final = {
    IndexType.OFFSET: "offset",
    IndexType.TIMESTAMP: "timestamp",
    IndexType.PRODUCER_SNAPSHOT: "producerSnapshot",
    IndexType.LEADER_EPOCH: "leaderEpoch",
    IndexType.TRANSACTION: "transaction",
}
"""The field of each index, in the order in which they are stored."""


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """The broker's metadata of a segment.

    Attributes:
        partition: The partition.
        id: The id of this copy of the segment.
        start_offset: First offset.
        end_offset: Last offset, inclusive.
        max_timestamp_ms: Largest record timestamp; -1 for none.
    """

    partition: TopicIdPartition
    id: SegmentId
    start_offset: int
    end_offset: int
    max_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """How a segment is stored.

    Attributes:
        chunks: Positions of the chunks of the log.
        indexes: Positions of the segment's indexes in their object.
        is_compressed: Whether the chunks of the log are compressed.
        wrapped_key: The key of the chunks and of the indexes; None where they are not
            encrypted.
        segment: The broker's metadata; None if they are missing.
    """

    chunks: ChunkIndex
    indexes: Mapping[IndexType, ByteRange]
    is_compressed: bool
    wrapped_key: WrappedKey | None
    segment: SegmentFacts | None

    @property
    def is_plain(self) -> bool:
        """Whether the log is stored byte for byte."""
        has_chunks = self.is_compressed or self.wrapped_key is not None
        return not has_chunks and self.chunks.is_plain

    @property
    def indexes_size(self) -> int:
        """Bytes of the object that contains the indexes."""
        return max((place.end for place in self.indexes.values()), default=0)


def parse_manifest(data: bytes | memoryview, name: str) -> Manifest:
    """Parse a manifest.

    Args:
        data: The object.
        name: Manifest name used in error messages.

    Raises:
        CorruptObjectError: It is malformed or inconsistent.
        UnsupportedFormatError: It is of another version, or has an unknown field or
            type of chunk index.
    """
    try:
        text = bytes(data).decode()
        value, _ = json.JSONDecoder().raw_decode(text.lstrip(" \t\r\n"))
    except (ValueError, RecursionError) as error:
        raise CorruptObjectError(f"{name}: invalid JSON: {error}") from error
    fields = Fields(value, name)
    version = fields.get("version")
    if version != "1" and (type(version) is not int or version != 1):
        raise UnsupportedFormatError(f"{name}: its version is {str(version)[:20]!r}")
    chunks = ChunkIndex.parse(fields.fields("chunkIndex"))
    is_compressed = fields.flag("compression")
    encryption = fields.optional("encryption")
    wrapped_key = None if encryption is None else _wrapped_key(encryption)
    indexes = _indexes(fields.fields("segmentIndexes"), wrapped_key is not None)
    facts = fields.optional("remoteLogSegmentMetadata")
    segment = None if facts is None else _segment(facts)
    fields.finish()
    return Manifest(chunks, indexes, is_compressed, wrapped_key, segment)


def _wrapped_key(fields: Fields) -> WrappedKey:
    key_id, colon, wrapped = fields.text("dataKey").partition(":")
    if not key_id.strip() or not colon:
        raise fields.wrong("dataKey")
    aad = fields.text("aad")
    fields.finish()
    try:
        return WrappedKey(
            key_id,
            base64.b64decode(wrapped, validate=True),
            base64.b64decode(aad, validate=True),
        )
    except (binascii.Error, ValueError) as error:
        raise CorruptObjectError(f"{fields}: invalid base64: {error}") from error


def _indexes(fields: Fields, is_encrypted: bool) -> dict[IndexType, ByteRange]:  # noqa: FBT001 - two facts of one manifest
    found: dict[IndexType, ByteRange] = {}
    end = 0
    for kind, field in INDEX_FIELDS.items():
        place = (
            fields.nullable(field)
            if kind is IndexType.TRANSACTION
            else fields.fields(field)
        )
        if place is None:
            continue
        # The indexes are contiguous, so no manifest requests bytes between them.
        start = place.integer("position", end, end)
        size = place.integer("size")
        place.finish()
        if is_encrypted and 0 < size < OVERHEAD:
            raise place.wrong("size")
        end = start + size
        found[kind] = ByteRange(start, end)
    fields.finish()
    return found


def _segment(fields: Fields) -> SegmentFacts:
    """Parse the broker's metadata, ignoring fields that Kafka may add."""
    identity = fields.fields("remoteLogSegmentId")
    topic_id_partition = identity.fields("topicIdPartition")
    topic_partition = topic_id_partition.fields("topicPartition")
    start = fields.integer("startOffset", 0, MAX_INT64 - 1)
    try:
        return SegmentFacts(
            TopicIdPartition(
                topic_partition.text("topic"),
                topic_partition.integer("partition"),
                Uuid(topic_id_partition.text("topicId")),
            ),
            SegmentId(identity.text("id")),
            start,
            fields.integer("endOffset", start, MAX_INT64 - 1),
            fields.integer("maxTimestampMs", -MAX_INT64 - 1, MAX_INT64),
        )
    except InvalidArgumentError as error:
        raise CorruptObjectError(f"{fields}: {error}") from error
