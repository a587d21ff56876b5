"""The names of segments in the native layout.

Source: ``formats.md`` of the project, "The native layout: single-object, version 1".
The fields of a stem and their widths are in ``native_fields``.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, Final

from tieredfs.errors import InvalidArgumentError, UnsupportedFormatError
from tieredfs.format.segment.key import KNOWN_FLAGS, SegmentFlag, SegmentKey
from tieredfs.format.segment.key_scheme import KeyScheme
from tieredfs.format.segment.key_table import KeyTable, RowMask
from tieredfs.format.segment.native_fields import FIELDS, PLACES
from tieredfs.format.segment.native_stems import parse_stems
from tieredfs.integers import MAX_INT32, MAX_INT64
from tieredfs.model import UNKNOWN_TOPIC_ID, SegmentId, TopicIdPartition, Uuid

__all__ = ["NativeKeys"]

_STEM: Final = re.compile(
    "-".join(f"({field.pattern})" for field in FIELDS.values()), re.ASCII
)
_TEMPLATE: Final = "-".join(field.template for field in FIELDS.values())
_NUMBER: Final = re.compile(r"0|[1-9]\d{0,9}", re.ASCII)
_RESERVED: Final = frozenset(
    {"con", "prn", "aux", "nul"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in range(10)}
)
_MARK: Final = "="  # not valid in a topic name, so no other topic has this folder


class NativeKeys(KeyScheme):
    """Name a segment ``<topic>/<topic id>/<partition>/<fields>.segment``.

    A topic's folder is marked if some disks cannot store its name.
    """

    depth: ClassVar[int] = 3

    def topic_prefix(self, topic: str) -> str:
        """Return the folder of a topic, with a slash at its end."""
        return f"{_topic_folder(topic)}/"

    def partition_prefix(self, partition: TopicIdPartition) -> str:
        """Return the folder of a partition, with a slash at its end."""
        folder = _topic_folder(partition.topic)
        return f"{folder}/{partition.topic_id}/{partition.partition}/"

    def parse_partition(self, folders: Sequence[str]) -> TopicIdPartition | None:
        """Parse the folders of a partition; None when they are not a partition's."""
        if len(folders) != self.depth:
            return None
        folder, topic_id, number = folders
        topic = folder.removesuffix(_MARK)
        if _topic_folder(topic) != folder or not _NUMBER.fullmatch(number):
            return None
        try:
            return TopicIdPartition(topic, int(number), Uuid(topic_id))
        except InvalidArgumentError:
            return None

    def may_lead_to_partitions(self, folders: Sequence[str]) -> bool:
        """Return whether folders are a topic's, or those of a topic and a topic id."""
        rest = (UNKNOWN_TOPIC_ID, "0")[len(folders) - 1 :]
        return self.parse_partition([*folders, *rest]) is not None

    def stem(self, key: SegmentKey) -> str:
        """Return the last part of a key without its suffix: 126 characters."""
        return _TEMPLATE.format(
            key.end_offset,
            key.start_offset,
            key.max_timestamp_ms,
            key.epoch,
            key.log_length,
            key.tail_length,
            key.flags,
            key.id,
        )

    def parse_stem(self, stem: str) -> SegmentKey | None:
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
        if flags & ~KNOWN_FLAGS:
            msg = f"{stem}: unknown flags {match[7]}: upgrade tieredfs to read it"
            raise UnsupportedFormatError(msg)
        # No log ends at the largest int64: the offset after its end must fit as well.
        if not start <= end < MAX_INT64 or not _fits(stamp, epoch):
            return None
        try:
            segment_id = SegmentId(match[8])
        except InvalidArgumentError:
            return None
        key = SegmentKey(
            end, start, stamp, epoch, log, tail, SegmentFlag(flags), segment_id
        )
        return key if self.stem(key) == stem else None  # a minus zero is not valid

    def parse_stems(self, stems: Sequence[str]) -> tuple[KeyTable, RowMask]:
        """Parse all valid stems together; the others are left to ``parse_stem``."""
        if type(self).parse_stem is not NativeKeys.parse_stem:  # which decides
            return super().parse_stems(stems)
        return parse_stems(stems)

    def stem_beginning(self, end_offset: int, start_offset: int | None = None) -> str:
        """Return how the stems of segments begin that end at an offset."""
        end = FIELDS["end_offset"].template.format(end_offset)
        if start_offset is None:
            return f"{end}-"
        return f"{end}-{FIELDS['start_offset'].template.format(start_offset)}-"

    def epoch_of(self, stem: str) -> int:
        """Return only the leader epoch of a stem, without parsing the rest."""
        return int(stem[PLACES["epoch"]])


def _topic_folder(topic: str) -> str:
    """Return the folder of a topic: its name, marked if some disks cannot store it."""
    marked = topic.endswith(".") or topic.lower() in _RESERVED
    return f"{topic}{_MARK}" if marked else topic


def _fits(timestamp: int, epoch: int) -> bool:
    return -MAX_INT64 - 1 <= timestamp <= MAX_INT64 and -1 <= epoch <= MAX_INT32
