"""The values used throughout tieredfs: partitions, segments, indexes, ranges.

The terms are Kafka's. A segment's ``start_offset`` and ``end_offset`` are both
inclusive, as in Kafka's RemoteLogSegmentMetadata; every other end is exclusive.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, Self

from tieredfs.arguments import to_text
from tieredfs.errors import InvalidArgumentError
from tieredfs.integers import MAX_INT32, MAX_INT64

__all__ = [
    "MAX_CUSTOM_METADATA_BYTES",
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
MAX_CUSTOM_METADATA_BYTES = 128


def check_topic_name(topic: str) -> str:
    """Return ``topic`` if Kafka accepts it as a name.

    Raises:
        InvalidArgumentError: It is not a text, is empty, ``.`` or ``..``, longer than
            249 characters, or has a character other than ASCII letters, digits, ``.``,
            ``_``, ``-``.
    """
    name: object = topic
    is_name = isinstance(name, str) and _TOPIC.fullmatch(name)
    if not is_name or topic in {".", ".."}:
        msg = (
            f"invalid topic name {topic!r}: use 1 to 249 ASCII letters, digits, "
            "'.', '_' and '-', but neither '.' nor '..'"
        )
        raise InvalidArgumentError(msg)
    return topic


class Uuid(str):
    """A 16-byte id in Kafka's text form: 22 characters of base64url, no padding."""

    __slots__ = ()

    def __new__(cls, text: str) -> Self:
        """Make an id of its text form.

        Raises:
            InvalidArgumentError: ``text`` is not the canonical form of 16 bytes.
        """
        text = to_text(text, "an id")
        raw = base64.urlsafe_b64decode(text + "==") if _UUID.fullmatch(text) else b""
        # The last character carries two bits: one of its four spellings is canonical.
        if not raw or base64.urlsafe_b64encode(raw).rstrip(b"=").decode() != text:
            msg = f"not a Kafka UUID (22 characters of base64url): {text!r}"
            raise InvalidArgumentError(msg)
        return super().__new__(cls, text)

    @classmethod
    def from_bytes(cls, raw: bytes) -> Self:
        """Make an id of 16 big-endian bytes."""
        return cls(base64.urlsafe_b64encode(raw).rstrip(b"=").decode())


UNKNOWN_TOPIC_ID: Final = Uuid("A" * 22)
"""The id of a topic whose real id is unknown."""


class SegmentId(Uuid):
    """The id of one copy of a segment; each attempt to copy it has a new id."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, order=True)
class TopicIdPartition:
    """A partition of one incarnation of a topic.

    Attributes:
        topic: The topic's name.
        partition: The partition's number, from 0.
        topic_id: The id Kafka gave the topic when it was created; all ``A`` when
            unknown. A topic that was deleted and created again has another id.
    """

    topic: str
    partition: int
    topic_id: Uuid = UNKNOWN_TOPIC_ID

    def __post_init__(self) -> None:
        """Reject names and numbers that Kafka does not allow."""
        check_topic_name(self.topic)
        if not 0 <= self.partition <= MAX_INT32:
            msg = (
                f"invalid partition {self.partition!r} of topic {self.topic!r}: "
                f"must be 0 to {MAX_INT32}"
            )
            raise InvalidArgumentError(msg)

    def __str__(self) -> str:
        """Return the name that Kafka gives the partition's log directory."""
        return f"{self.topic}-{self.partition}"


class IndexType(StrEnum):
    """The indexes stored with a segment's log, named as in KIP-405."""

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
    """The bytes ``[start, end)`` of an object of at most 2**63 - 1 bytes."""

    start: int
    end: int

    def __post_init__(self) -> None:
        """Reject a range whose bounds are reversed or that no object can have."""
        if not 0 <= self.start <= self.end <= MAX_INT64:
            msg = (
                f"invalid byte range [{self.start}, {self.end}): "
                f"must satisfy 0 <= start <= end <= {MAX_INT64}"
            )
            raise InvalidArgumentError(msg)

    def __len__(self) -> int:
        """Return the number of bytes."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """One segment, as listed or as written.

    A field is ``None`` when the listing alone does not give it; the plugin's
    ``describe`` looks it up.

    Attributes:
        partition: The partition that the segment belongs to.
        id: The id of this copy of the segment.
        start_offset: First offset, inclusive.
        end_offset: Last offset, inclusive; one below ``start_offset`` when the segment
            has no batch yet, as when a broker has just created it.
        max_timestamp_ms: Largest record timestamp, ms since 1970 UTC; -1 for none.
        leader_epochs: Epochs that begin at or before ``end_offset``, oldest first.
        size: Size of the log in bytes.
        version: Distinguishes two contents under one name (an etag, or size and
            modification time); empty where names are never reused.
        custom_metadata: Opaque bytes that the plugin returned when the segment was
            copied, at most 128 bytes.
        record_count: Number of records in the log, including control records; None
            where the layout does not store it, even after ``describe``. It is ignored
            when two descriptions are compared.
        index_sizes: Bytes of each index that the segment has, where the listing
            contains them; ignored when two descriptions are compared.
        stored_size: Bytes that the segment takes in the store, with its indexes, where
            the listing contains them; ignored when two descriptions are compared.
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
    index_sizes: Mapping[IndexType, int] | None = field(
        default=None, compare=False, repr=False
    )
    stored_size: int | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Reject offsets and sizes that no segment can have."""
        end = self.start_offset if self.end_offset is None else self.end_offset
        if not 0 <= self.start_offset <= end + 1 <= MAX_INT64:
            msg = f"{self}: invalid offset range: {self.start_offset}..{end}"
            raise InvalidArgumentError(msg)
        if self.size is not None and self.size < 0:
            msg = f"{self}: negative log size: {self.size}"
            raise InvalidArgumentError(msg)
        if len(self.custom_metadata) > MAX_CUSTOM_METADATA_BYTES:
            msg = (
                f"{self}: custom metadata is {len(self.custom_metadata)} bytes, "
                f"limit {MAX_CUSTOM_METADATA_BYTES}"
            )
            raise InvalidArgumentError(msg)

    @property
    def is_described(self) -> bool:
        """Whether every field that ``describe`` fills in is known."""
        return None not in (
            self.end_offset,
            self.max_timestamp_ms,
            self.leader_epochs,
            self.size,
        )

    def __str__(self) -> str:
        """Return the partition, the start offset (20 digits) and the id."""
        return f"{self.partition}/{self.start_offset:020d}-{self.id}"


@dataclass(frozen=True, slots=True)
class LogSegmentData:
    """The log and the indexes of a segment that is copied to remote storage.

    Attributes:
        log: The log, as a file or as bytes.
        indexes: The bytes of each index that exists.
    """

    log: Path | bytes | memoryview
    indexes: Mapping[IndexType, bytes]


@dataclass(frozen=True, slots=True)
class SegmentIndexes(Mapping[IndexType, memoryview]):
    """The indexes of one segment, read-only.

    Attributes:
        indexes: The bytes of each index that exists.
        layout: Bytes that the plugin gets back when the log is fetched, such as its
            manifest; empty by default.
    """

    indexes: Mapping[IndexType, memoryview] = field(default_factory=dict)
    layout: bytes = b""

    def __getitem__(self, index_type: IndexType) -> memoryview:
        """Return one index; KeyError when the segment has none of that type."""
        return self.indexes[index_type]

    def __iter__(self) -> Iterator[IndexType]:
        """Iterate over the types of the existing indexes."""
        return iter(self.indexes)

    def __len__(self) -> int:
        """Return the number of existing indexes."""
        return len(self.indexes)


@dataclass(frozen=True, slots=True)
class OffsetAndTimestamp:
    """A record's offset, timestamp (ms) and leader epoch, as in Kafka's consumer.

    Attributes:
        offset: Offset of the first record whose timestamp is at or after the requested
            one.
        timestamp: Timestamp of that record, ms since 1970 UTC.
        leader_epoch: Leader epoch of its batch; None when the batch has none.
    """

    offset: int
    timestamp: int
    leader_epoch: int | None = None
