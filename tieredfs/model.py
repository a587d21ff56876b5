"""The values everything speaks of: partitions, segments, indexes, ranges.

Words are Kafka's. A segment's ``start_offset`` and ``end_offset`` are both inclusive,
as in Kafka's RemoteLogSegmentMetadata; every other end is exclusive.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Self

from tieredfs.errors import InvalidArgumentError

__all__ = [
    "UNKNOWN_TOPIC_ID",
    "ByteRange",
    "EpochEntry",
    "IndexType",
    "LogSegmentData",
    "OffsetAndTimestamp",
    "SegmentId",
    "SegmentIndexes",
    "SegmentMetadata",
    "TopicIdPartition",
    "Uuid",
    "check_topic_name",
]

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}", re.ASCII)
_UUID = re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII)
_MAX_INT32 = (1 << 31) - 1
_MAX_OFFSET = (1 << 63) - 1
_MAX_SIZE = (1 << 63) - 1
_MAX_CUSTOM_METADATA = 128


def check_topic_name(topic: str) -> str:
    """Return ``topic`` if Kafka accepts it as a name.

    Raises:
        InvalidArgumentError: It is empty, ``.`` or ``..``, longer than 249 characters,
            or has a character other than ASCII letters, digits, ``.``, ``_``, ``-``.
    """
    if not _TOPIC.fullmatch(topic) or topic in {".", ".."}:
        msg = f"not a legal topic name: {topic!r}"
        raise InvalidArgumentError(msg)
    return topic


class Uuid(str):
    """A 16-byte id as Kafka writes it: 22 characters of base64url, no padding."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Check and keep ``text``.

        Raises:
            InvalidArgumentError: ``text`` is not the canonical form of 16 bytes.
        """
        raw = base64.urlsafe_b64decode(text + "==") if _UUID.fullmatch(text) else b""
        # The last character carries two bits: only one of four ways is canonical.
        if not raw or base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
            msg = f"not a Kafka UUID (22 characters of base64url): {text!r}"
            raise InvalidArgumentError(msg)
        return super().__new__(cls, text)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Make the text form of 16 big-endian bytes."""
        return cls(base64.urlsafe_b64encode(raw).rstrip(b"=").decode())


UNKNOWN_TOPIC_ID: Final = Uuid("A" * 22)
"""The id of a topic whose own is not known."""


class SegmentId(Uuid):
    """The id of one copy of a segment; a new attempt to copy has another one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class TopicIdPartition:
    """A partition of one incarnation of a topic.

    Attributes:
        topic: The topic's name.
        partition: The partition's number, from 0.
        topic_id: The id Kafka gave the topic when it was created; all ``A`` when
            unknown. A topic that was deleted and made again has another id.
    """

    topic: str
    partition: int
    topic_id: Uuid = UNKNOWN_TOPIC_ID

    def __post_init__(self) -> None:
        """Refuse what no broker can have."""
        check_topic_name(self.topic)
        if not 0 <= self.partition <= _MAX_INT32:
            msg = f"not a partition number: {self.partition!r} of {self.topic!r}"
            raise InvalidArgumentError(msg)

    def __str__(self) -> str:
        """Name the partition as Kafka's logs do."""
        return f"{self.topic}-{self.partition}"


class IndexType(StrEnum):
    """What is stored beside a segment's log, in KIP-405's words."""

    OFFSET = "OFFSET"
    TIMESTAMP = "TIMESTAMP"
    PRODUCER_SNAPSHOT = "PRODUCER_SNAPSHOT"
    LEADER_EPOCH = "LEADER_EPOCH"
    TRANSACTION = "TRANSACTION"


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written under it."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, order=True)
class ByteRange:
    """The bytes ``[start, end)`` of an object, whose size has 63 bits at most."""

    start: int
    end: int

    def __post_init__(self) -> None:
        """Refuse a range that runs backwards, or that no object can have."""
        if not 0 <= self.start <= self.end <= _MAX_SIZE:
            msg = f"not a byte range: [{self.start}, {self.end})"
            raise InvalidArgumentError(msg)

    def __len__(self) -> int:
        """Count the bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """One segment, as listed or as written.

    ``None`` means that the listing alone does not say; the plugin's ``describe`` asks.

    Attributes:
        partition: Whose log it is part of.
        id: Which copy of the segment this is.
        start_offset: First offset, inclusive.
        end_offset: Last offset, inclusive; one below ``start_offset`` when there is no
            batch yet, as in the segment a broker has just begun.
        max_timestamp_ms: Largest record timestamp, ms since 1970 UTC; -1 for none.
        leader_epochs: Epochs that begin at or before ``end_offset``, oldest first.
        size: Bytes of the log.
        version: Tells apart two contents under one name (an etag, or size and
            modification time); empty where names are never used again.
        custom_metadata: What the plugin gave when the segment was copied, opaque,
            at most 128 bytes.
        record_count: Records in the log, control records among them; None where the
            layout does not keep it, also when the segment has been described. It does
            not count when two descriptions are compared.
    """

    partition: TopicIdPartition
    id: SegmentId
    start_offset: int
    end_offset: int | None = None
    max_timestamp_ms: int | None = None
    leader_epochs: tuple[EpochEntry, ...] | None = None
    size: int | None = None
    version: str = ""
    custom_metadata: bytes = b""
    record_count: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        """Refuse offsets and sizes that no segment can have."""
        end = self.start_offset if self.end_offset is None else self.end_offset
        if not 0 <= self.start_offset <= end + 1 <= _MAX_OFFSET:
            msg = f"{self}: not a range of offsets: {self.start_offset}..{end}"
            raise InvalidArgumentError(msg)
        if self.size is not None and self.size < 0:
            msg = f"{self}: a log cannot have {self.size} bytes"
            raise InvalidArgumentError(msg)
        if len(self.custom_metadata) > _MAX_CUSTOM_METADATA:
            msg = f"{self}: custom metadata of more than {_MAX_CUSTOM_METADATA} bytes"
            raise InvalidArgumentError(msg)

    @property
    def is_described(self) -> bool:
        """Whether every field is known that ``describe`` has to tell."""
        return None not in (
            self.end_offset,
            self.max_timestamp_ms,
            self.leader_epochs,
            self.size,
        )

    def __str__(self) -> str:
        """Name the segment as Kafka's files do."""
        return f"{self.partition}/{self.start_offset:020d}-{self.id}"


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """What a broker hands over when it tiers a segment.

    Attributes:
        log: A file, or the bytes themselves.
        indexes: The bytes of each index there is.
    """

    log: Path | bytes | memoryview
    indexes: Mapping[IndexType, bytes]


@dataclass(frozen=True, slots=True)
class SegmentIndexes(Mapping[IndexType, memoryview]):
    """The indexes of one segment, read-only.

    Attributes:
        indexes: The bytes of each index there is.
        layout: Bytes the plugin wants to see again when the log is fetched, such as
            its manifest; empty by default.
    """

    indexes: Mapping[IndexType, memoryview] = field(default_factory=dict)
    layout: bytes = b""

    def __getitem__(self, index_type: IndexType) -> memoryview:
        """Return one index; KeyError when the segment has none of that type."""
        return self.indexes[index_type]

    def __iter__(self) -> Iterator[IndexType]:
        """Iterate over the types there are."""
        return iter(self.indexes)

    def __len__(self) -> int:
        """Count the types there are."""
        return len(self.indexes)


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """A record's offset, timestamp (ms) and leader epoch, as in Kafka's consumer.

    Attributes:
        offset: Of the first record whose timestamp is at or after the one asked for.
        timestamp: That record's own, ms since 1970 UTC.
        leader_epoch: Of the batch it is in; None when the batch has none.
    """

    offset: int
    timestamp: int
    leader_epoch: int | None = None
