"""The keys of a segment's three objects.

``{prefix}{topic}-{topic id}/{partition}/{20-digit start}-{segment id}.{suffix}``: the
prefix is prepended unchanged, without a slash. Topics and ids may contain ``-``, so
names are read from their ends, where the widths are fixed.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from tieredfs import InvalidArgumentError, SegmentId, TopicIdPartition, Uuid

__all__ = [
    "ObjectKey",
    "ObjectName",
    "Suffix",
    "main_path",
    "parse_file",
    "parse_key",
    "parse_partition",
    "partition_folder",
]

_TOPIC = re.compile(r"(.+)-([A-Za-z0-9_-]{22})", re.ASCII)
_PARTITION = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)
_FILE = re.compile(r"(\d{20})-([A-Za-z0-9_-]{22})\.([a-z-]+)", re.ASCII)
_KEY_PARTS = 3
_LAST_OFFSET = (1 << 63) - 2


class Suffix(StrEnum):
    """The kind of a segment's object; the manifest is written last."""

    LOG = "log"
    INDEXES = "indexes"
    MANIFEST = "rsm-manifest"


class ObjectName(NamedTuple):
    """The parsed last part of a key."""

    start_offset: int
    segment_id: SegmentId
    suffix: Suffix


def partition_folder(partition: TopicIdPartition) -> str:
    """Return the folder of a partition, to be appended to the prefix."""
    return f"{partition.topic}-{partition.topic_id}/{partition.partition}/"


def main_path(
    partition: TopicIdPartition, start_offset: int, segment_id: SegmentId
) -> str:
    """Return the common part of a segment's keys, without prefix and suffix."""
    return f"{partition_folder(partition)}{start_offset:020d}-{segment_id}"


def parse_partition(topic_folder: str, number: str) -> TopicIdPartition | None:
    """Return the partition of two folder names; None if they are unrecognised."""
    match = _TOPIC.fullmatch(topic_folder)
    if match is None or not _PARTITION.fullmatch(number):
        return None
    try:
        return TopicIdPartition(match[1], int(number), Uuid(match[2]))
    except InvalidArgumentError:
        return None


def parse_file(name: str) -> ObjectName | None:
    """Parse the last part of a key; return None for a foreign object."""
    match = _FILE.fullmatch(name)
    if match is None or match[3] not in set(Suffix) or int(match[1]) > _LAST_OFFSET:
        return None
    try:
        return ObjectName(int(match[1]), SegmentId(match[2]), Suffix(match[3]))
    except InvalidArgumentError:
        return None


class ObjectKey(NamedTuple):
    """A parsed whole key.

    Attributes:
        prefix: The key prefix. If it does not end in a slash, the part after its last
            slash is read as the beginning of the topic.
        partition: The partition.
        name: The parsed last part.
    """

    prefix: str
    partition: TopicIdPartition
    name: ObjectName


def parse_key(key: str) -> ObjectKey | None:
    """Parse the key of a segment's object; return None for a foreign object."""
    parts = key.rsplit("/", _KEY_PARTS)
    if len(parts) < _KEY_PARTS:
        return None
    partition = parse_partition(*parts[-_KEY_PARTS:-1])
    name = parse_file(parts[-1])
    if partition is None or name is None:
        return None
    return ObjectKey(key[: -len("/".join(parts[-_KEY_PARTS:]))], partition, name)
