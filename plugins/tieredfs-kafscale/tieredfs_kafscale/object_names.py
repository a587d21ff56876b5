"""The keys of a segment's objects.

``{namespace}/{topic}/{partition}/segment-{20-digit base offset}.{suffix}``. A broker
lists names without leading zeros, too, but never finds their records: they are not
segments here.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from tieredfs import InvalidArgumentError, TopicIdPartition

__all__ = [
    "ObjectName",
    "Suffix",
    "object_key",
    "object_prefix",
    "parse_key",
    "parse_name",
    "parse_partition",
    "partition_folder",
    "sidecar_key",
]

_PARTITION = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)
_NAME = re.compile(r"segment-(\d{20})(?:\.([0-9a-f]{8}))?\.([a-z_]+)", re.ASCII)
_KEY_PARTS = 4
_LAST_OFFSET = (1 << 63) - 2


class Suffix(StrEnum):
    """The kind of an object.

    Those after the times are ours, and KafScale ignores them. Three are named as
    Kafka's files: what a segment of a broker with transactions needs besides. Their
    names contain the checksum of their segment's log, for a base offset may be used
    again. A claim has a random number in its place.
    """

    LOG = "kfs"
    INDEX = "index"
    TIMES = "kfst"
    TRANSACTIONS = "txnindex"
    PRODUCERS = "snapshot"
    EPOCHS = "leader_epoch_checkpoint"
    CLAIM = "claim"

    @property
    def is_ours(self) -> bool:
        """Whether KafScale does not know it."""
        return self not in {Suffix.LOG, Suffix.INDEX, Suffix.TIMES}


class ObjectName(NamedTuple):
    """The parsed last part of a key.

    Attributes:
        base_offset: First offset of the segment.
        checksum: CRC-32C of the segment's log; None for KafScale's own objects. Of a
            claim, its number.
        suffix: The kind of the object.
    """

    base_offset: int
    checksum: int | None
    suffix: Suffix


def partition_folder(namespace: str, partition: TopicIdPartition) -> str:
    """Return the folder of a partition, with a slash at its end."""
    return f"{namespace}/{partition.topic}/{partition.partition}/"


def object_key(folder: str, base_offset: int, suffix: Suffix) -> str:
    """Return the key of one of KafScale's own objects."""
    return f"{folder}segment-{base_offset:020d}.{suffix}"


def object_prefix(folder: str, base_offset: int) -> str:
    """Return what the keys of all objects of a base offset begin with."""
    return f"{folder}segment-{base_offset:020d}."


def sidecar_key(folder: str, base_offset: int, checksum: int, suffix: Suffix) -> str:
    """Return the key of an object that KafScale does not know."""
    return f"{folder}segment-{base_offset:020d}.{checksum:08x}.{suffix}"


def parse_partition(topic: str, number: str) -> TopicIdPartition | None:
    """Return the partition of two folder names; None if they are unrecognised."""
    if not _PARTITION.fullmatch(number):
        return None
    try:
        return TopicIdPartition(topic, int(number))
    except InvalidArgumentError:
        return None


def parse_name(name: str) -> ObjectName | None:
    """Parse the last part of a key; return None for a foreign object."""
    match = _NAME.fullmatch(name)
    if match is None or match[3] not in set(Suffix) or int(match[1]) > _LAST_OFFSET:
        return None
    suffix = Suffix(match[3])
    if suffix.is_ours != (match[2] is not None):
        return None
    checksum = int(match[2], 16) if match[2] else None
    return ObjectName(int(match[1]), checksum, suffix)


def parse_key(key: str) -> tuple[str, TopicIdPartition, ObjectName] | None:
    """Parse a whole key into namespace, partition and name; None for a foreign one."""
    parts = key.split("/")
    if len(parts) != _KEY_PARTS:
        return None
    partition, name = parse_partition(parts[1], parts[2]), parse_name(parts[3])
    if partition is None or name is None:
        return None
    return parts[0], partition, name
