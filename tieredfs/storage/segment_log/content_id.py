"""A segment's id from its content: the same log always has the same id."""

import hashlib
from typing import Self

from tieredfs.format.buffers import Buffer
from tieredfs.model import UNKNOWN_TOPIC_ID, SegmentId, TopicIdPartition

__all__ = ["ContentId"]


class ContentId:
    """Compute a segment's id from its log.

    The id is the first 16 bytes of SHA-256 over the topic's id, the partition, the base
    offset and the log's bytes, so every replica of the partition has the same id. If
    the topic's id is not known, the topic's name is included: such topics share one
    placeholder id, and their logs may be equal.
    """

    def __init__(self, partition: TopicIdPartition, start_offset: int) -> None:
        """Start with no byte of the log."""
        topic: str = partition.topic_id
        if partition.topic_id == UNKNOWN_TOPIC_ID:
            topic = f"{topic}/{partition.topic}"  # no id holds a slash
        begins = f"{topic}/{partition.partition}/{start_offset}"
        self._hash = hashlib.sha256(begins.encode())

    def add(self, data: Buffer) -> Self:
        """Add the next bytes of the log."""
        self._hash.update(data)
        return self

    def finish(self) -> SegmentId:
        """Return the id of the bytes so far."""
        return SegmentId.from_bytes(self._hash.digest()[:16])
