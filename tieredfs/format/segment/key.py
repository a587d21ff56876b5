"""The key of a segment in the native layout: everything a planner needs.

Source: ``formats.md`` of the project, "The native layout: single-object, version 1".
The fields of a name have fixed widths, because the id may contain the dash that
separates them. The end offset comes first, so that a listing that starts after an
offset begins with the segment that covers it.
"""

import re
from dataclasses import dataclass
from enum import IntFlag
from typing import Final, Self

from tieredfs.errors import InvalidArgumentError, UnsupportedFormatError
from tieredfs.model import SegmentId, TopicIdPartition, Uuid

__all__ = [
    "OWN_FOLDER",
    "SEGMENT_SUFFIX",
    "SegmentFlag",
    "SegmentKey",
    "parse_partition",
    "partition_prefix",
    "topic_folder",
    "topic_of_folder",
]

SEGMENT_SUFFIX: Final = ".segment"

OWN_FOLDER: Final = "@tieredfs/"
"""Folder of the layout's own objects that are not segments. No topic name can contain
the ``@``."""

_STEM: Final = re.compile(
    r"(\d{20})-(\d{20})-(\d{20}|-\d{19})-(\d{10}|-\d{9})-(\d{13})-(\d{10})"
    r"-([0-9a-f]{4})-([A-Za-z0-9_-]{22})",
    re.ASCII,
)
_EPOCH: Final = slice(63, 73)
_MAX_INT64: Final = (1 << 63) - 1
_MAX_INT32: Final = (1 << 31) - 1
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)
_MARK: Final = "="  # not valid in a topic name, so no other topic has this folder


class SegmentFlag(IntFlag):
    """The flags of a segment."""

    TRANSACTIONS = 1
    """The transaction index is not empty."""

    TRANSFORMED = 2
    """The log is stored as chunks."""


# A plain int: the complement of an IntFlag has only known bits and hides the others.
_KNOWN: Final = int(SegmentFlag.TRANSACTIONS | SegmentFlag.TRANSFORMED)


@dataclass(frozen=True, slots=True)
class SegmentKey:
    """The fields in the last part of a segment's key.

    Attributes:
        end_offset: Last offset, inclusive.
        start_offset: First offset.
        max_timestamp_ms: Largest record timestamp; -1 for none.
        epoch: Highest leader epoch; -1 when unknown.
        log_length: Size of the log as stored, in bytes.
        tail_length: Size of the tail after the log, in bytes.
        flags: The segment's flags.
        id: The segment's id.
    """

    end_offset: int
    start_offset: int
    max_timestamp_ms: int
    epoch: int
    log_length: int
    tail_length: int
    flags: SegmentFlag
    id: SegmentId

    @property
    def stem(self) -> str:
        """The key's last part without its suffix: 126 characters."""
        return (
            f"{self.end_offset:020d}-{self.start_offset:020d}-"
            f"{self.max_timestamp_ms:020d}-{self.epoch:010d}-{self.log_length:013d}-"
            f"{self.tail_length:010d}-{self.flags:04x}-{self.id}"
        )

    @property
    def size(self) -> int:
        """Size of the whole object in bytes."""
        return self.log_length + self.tail_length

    @staticmethod
    def epoch_of(stem: str) -> int:
        """Return only the leader epoch of a stem that ``parse`` accepts."""
        return int(stem[_EPOCH])

    @classmethod
    def parse(cls, stem: str) -> Self | None:
        """Parse the last part of a key, without its suffix.

        Returns:
            The key; None when the object is foreign: the name does not have the
            format's widths, or has values that no segment can have.

        Raises:
            UnsupportedFormatError: The key has flags that this release does not know.
        """
        match = _STEM.fullmatch(stem)
        if match is None:
            return None
        end, start, stamp, epoch, log, tail = map(int, match.groups()[:6])
        flags = int(match[7], 16)
        if flags & ~_KNOWN:
            msg = f"{stem}: unknown flags {match[7]}: upgrade tieredfs to read it"
            raise UnsupportedFormatError(msg)
        # No log ends at the largest int64: the offset after its end must fit as well.
        if not start <= end < _MAX_INT64 or not _fits(stamp, epoch):
            return None
        try:
            segment_id = SegmentId(match[8])
        except InvalidArgumentError:
            return None
        key = cls(end, start, stamp, epoch, log, tail, SegmentFlag(flags), segment_id)
        return key if key.stem == stem else None  # a minus zero is not valid


def _fits(timestamp: int, epoch: int) -> bool:
    return -_MAX_INT64 - 1 <= timestamp <= _MAX_INT64 and -1 <= epoch <= _MAX_INT32


def topic_folder(topic: str) -> str:
    """Return the folder of a topic: its name, marked if some disks cannot store it."""
    marked = topic.endswith(".") or topic.lower() in _RESERVED
    return f"{topic}{_MARK}" if marked else topic


def topic_of_folder(folder: str) -> str | None:
    """Return the topic of a folder; None when it is not the folder of a topic."""
    topic = folder.removesuffix(_MARK)
    return topic if topic_folder(topic) == folder else None


def partition_prefix(partition: TopicIdPartition) -> str:
    """Return the common prefix of the keys of a partition's segments."""
    folder = topic_folder(partition.topic)
    return f"{folder}/{partition.topic_id}/{partition.partition}/"


def parse_partition(topic: str, topic_id: str, number: str) -> TopicIdPartition | None:
    """Parse the three folders of a partition; None when they are not a partition's."""
    name = topic_of_folder(topic)
    if name is None or not re.fullmatch(r"0|[1-9]\d{0,9}", number, re.ASCII):
        return None
    try:
        return TopicIdPartition(name, int(number), Uuid(topic_id))
    except InvalidArgumentError:
        return None
