"""List a broker's log directory, while the broker may change it, or a copy of one.

A listing is not a snapshot. While the cleaner replaces a segment (``.cleaned`` becomes
``.swap``, the old files ``.deleted``, ``.swap`` the new ones) a listing may contain it
under neither name. If a segment is missed, the one before it seems to extend to the one
after it, or the log to begin later. So two listings in a row have to agree.

In a copy a log may be missing for good. Where an index of it is left, the segment
before ends where that one began, and the offsets up to the next log are a gap; unless
the index of that segment goes on behind.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Final

from tieredfs.errors import (
    CorruptIndexError,
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    StorageUnavailableError,
)
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.padding import without_padding
from tieredfs.model import UNKNOWN_TOPIC_ID, TopicIdPartition, Uuid
from tieredfs.objects import ObjectStore
from tieredfs.objects.concurrency.parallel import run_all
from tieredfs.storage.layouts.kafka_files import LOG_START_CHECKPOINT, is_offset

__all__ = ["CLEANER_SUFFIXES", "ListedLog", "LogDirectory", "is_partition_file"]

_PARTITION = re.compile(r"(.+)-(0|[1-9]\d{0,9})", re.ASCII)
_LOG = re.compile(r"(\d{20})\.log(\.swap)?", re.ASCII)
"""A log, or the file with which the cleaner is about to replace removed logs."""

_OF_A_SEGMENT = re.compile(r"(\d{20})\.(?!snapshot).+", re.ASCII)
"""Any file of a segment, including those that the cleaner has renamed. Snapshots are
excluded, because a snapshot may outlive its segment."""

_OF_A_LOST_LOG = re.compile(
    r"(\d{20})\.(?:index|timeindex|txnindex|log\.(?!swap$|deleted$|cleaned$).+)",
    re.ASCII,
)
"""A file that shows that there was a log: an index, or a log that a tool has not yet
copied whole, which has a suffix of the tool's own."""

_RENAMED_LOG = re.compile(r"(\d{20})\.log\.(?:swap|deleted|cleaned)", re.ASCII)
"""A log that the cleaner or retention has renamed, so that it is not missing."""

CLEANER_SUFFIXES: Final = (".cleaned", ".swap", ".deleted")
"""Suffixes of the files that the cleaner writes, moves into place and removes."""

_MAX_LISTINGS = 6
"""Maximum listings of a folder, until two in a row have the same logs."""

_MAX_SWAP_LISTINGS = 2
"""Maximum of these that wait for the cleaner to rename a ``.swap`` log."""

_MAX_CONCURRENCY = 32
"""Topic ids that are read concurrently: small requests, which cost only latency."""

_FILE = re.compile(
    r"(\d{20}\.(log|index|timeindex|txnindex|snapshot)"
    r"|leader-epoch-checkpoint|partition\.metadata)",
    re.ASCII,
)
_OF_A_REMOVED_FOLDER = re.compile(
    r".+-(0|[1-9]\d{0,9})\.[0-9a-f]{32}-(delete|future|stray)/\d{20}\..+", re.ASCII
)
"""A segment's file in the folder of a partition that the broker deletes, moves or does
not know."""

_TOPIC_ID = re.compile(r"topic_id:\s*(\S+)", re.ASCII)


@dataclass(frozen=True, slots=True)
class ListedLog:
    """A log as it is listed.

    Attributes:
        start: First offset of its segment.
        size: Bytes.
        version: Of the file.
        is_swap: Whether the cleaner has yet to rename it.
        end: Where the next segment begins, whether or not its log is there; None for
            the last log.
    """

    start: int
    size: int | None
    version: str
    is_swap: bool
    end: int | None = None


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A log directory, as it is listed.

    Attributes:
        store: Where it is.
    """

    store: ObjectStore

    def partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder with a valid name, sorted.

        Args:
            topic: Its name; None for all topics.
        """
        listed = (e.key for e in self.store.list(delimiter="/") if e.is_prefix)
        folders = [
            (match[1], int(match[2]))
            for match in (_PARTITION.fullmatch(key[:-1]) for key in listed)
            if match is not None and topic in {None, match[1]}
        ]
        ids = run_all(
            [partial(self._known_topic_id, f"{t}-{number}/") for t, number in folders],
            concurrency=1 if self.store.is_local else _MAX_CONCURRENCY,
        )
        found = [(t, n, one) for (t, n), one in zip(folders, ids, strict=True)]
        return sorted(_partitions(found))

    def stable_logs(self, partition: TopicIdPartition) -> list[ListedLog]:
        """List the logs of a partition until two listings in a row agree.

        A ``.swap`` log is renamed soon, unless a crashed broker has left it.

        Raises:
            NotFoundError: There is no such partition, or the topic was recreated.
            CorruptObjectError: Its partition.metadata contains no topic id.
            StorageUnavailableError: The broker changes it faster than it is listed.
        """
        logs = self.logs(partition)
        for number in range(1, _MAX_LISTINGS):
            before, logs = logs, self.logs(partition)
            is_soon = number < _MAX_SWAP_LISTINGS and any(log.is_swap for log in logs)
            if _bounds(before) == _bounds(logs) and not is_soon:
                self.check_topic(partition)  # after the listing that counts
                return logs
        msg = f"{self.store.url}/{partition}: the broker is replacing segments"
        raise StorageUnavailableError(f"{msg}: read again")

    def logs(self, partition: TopicIdPartition) -> list[ListedLog]:
        """List the logs of a partition once, in order, one for each start offset.

        Raises:
            NotFoundError: There is no such partition.
        """
        folder = f"{partition}/"
        found: dict[int, ListedLog] = {}
        indexed: set[int] = set()
        renamed: set[int] = set()
        is_empty = True
        for entry in self.store.list(folder, delimiter="/"):
            is_empty = False
            name = entry.key[len(folder) :]
            if match := _LOG.fullmatch(name):
                start, is_swap = int(match[1]), match[2] is not None
                if is_offset(start) and (start not in found or not is_swap):
                    found[start] = ListedLog(start, entry.size, entry.version, is_swap)
            if match := _OF_A_LOST_LOG.fullmatch(name):
                indexed.add(int(match[1]))
            if match := _RENAMED_LOG.fullmatch(name):
                renamed.add(int(match[1]))
        if is_empty:
            raise NotFoundError(f"not found: {partition} in {self.store.url}")
        lost = sorted(indexed - renamed - found.keys())
        lost = [start for start in lost if not self._reaches(folder, found, start)]
        starts = sorted({*found, *lost})
        ends = dict(pairwise(starts))
        last = max(found, default=None)
        return [
            log if start == last else replace(log, end=ends[start])
            for start, log in sorted(found.items())
        ]

    def _reaches(self, folder: str, found: Collection[int], offset: int) -> bool:
        """Return whether the log before an offset goes on behind it, by its index.

        A file of a segment that was merged into another one may have been left.

        Args:
            folder: The partition's folder.
            found: Where the logs begin that are there.
            offset: The offset.
        """
        start = max((one for one in found if one < offset), default=None)
        if start is None:
            return False
        key = f"{folder}{start:020d}.index"
        try:
            data = without_padding(self.store.get(key), OffsetIndex.ENTRY_SIZE)
            index = OffsetIndex.parse(data, start)
        except (NotFoundError, CorruptIndexError):
            return False
        return len(index) > 0 and index.entry(-1).offset >= offset

    def check_topic(self, partition: TopicIdPartition) -> None:
        """Check that a partition's folder is that of its topic, not of a later one.

        Raises:
            NotFoundError: The topic was recreated.
            CorruptObjectError: Its partition.metadata contains no topic id.
        """
        topic_id = self._topic_id(f"{partition}/")
        if partition.topic_id not in {UNKNOWN_TOPIC_ID, topic_id}:
            msg = f"not found: {partition} of topic {partition.topic_id}"
            raise NotFoundError(f"{msg} in {self.store.url}: it was recreated")

    def log_start(self, partition: TopicIdPartition) -> int:
        """Return the offset at which the broker's log begins; 0 if it noted none.

        It notes one where the log begins behind the start of its first segment, as
        after ``DeleteRecords``.
        """
        try:
            data = self.store.get(LOG_START_CHECKPOINT)
        except NotFoundError:
            return 0
        mine = [partition.topic, str(partition.partition)]
        for line in bytes(data).decode("ascii", "replace").splitlines():
            words = line.split()
            if words[:2] == mine and len(words) == 3 and words[2].isdigit():  # noqa: PLR2004
                return int(words[2])
        return 0

    def segment_files(self, partition: TopicIdPartition) -> list[tuple[int, str]]:
        """Return the files of all segments: the segment's first offset, and the name.

        Files that the cleaner has renamed are among them. Snapshots are not, because a
        snapshot may outlive its segment.
        """
        folder = f"{partition}/"
        listed = self.store.list(folder, delimiter="/")
        names = [entry.key[len(folder) :] for entry in listed]
        matches = [m for m in map(_OF_A_SEGMENT.fullmatch, names) if m is not None]
        return [(int(match[1]), match[0]) for match in matches]

    def _known_topic_id(self, folder: str) -> Uuid | None:
        """Return the topic's id; None if it cannot be read."""
        try:
            return self._topic_id(folder)
        except (PermissionDeniedError, CorruptObjectError):
            return None  # reported when its segments are listed

    def _topic_id(self, folder: str) -> Uuid:
        key = f"{folder}partition.metadata"
        try:
            data = self.store.get(key)
        except NotFoundError:  # written since Kafka 2.8
            return UNKNOWN_TOPIC_ID
        match = _TOPIC_ID.search(bytes(data).decode("ascii", "replace"))
        with suppress(InvalidArgumentError):
            if match is not None:
                return Uuid(match[1])
        msg = f"{self.store.url}/{key}: no topic id in it: remove it if there is none"
        raise CorruptObjectError(msg)


def is_partition_file(key: str) -> bool:
    """Return whether a key is a file of the broker in a partition's folder.

    The folder may be one that the broker is about to remove.
    """
    folder, _, name = key.partition("/")
    return bool(
        (_PARTITION.fullmatch(folder) and _FILE.fullmatch(name))
        or _OF_A_REMOVED_FOLDER.fullmatch(key)
    )


def _bounds(logs: Sequence[ListedLog]) -> list[tuple[int, int | None]]:
    return [(log.start, log.end) for log in logs]


def _partitions(
    found: Sequence[tuple[str, int, Uuid | None]],
) -> Iterator[TopicIdPartition]:
    """Build partitions from folders; an unreadable id is replaced by the topic's."""
    for topic, number, topic_id in found:
        others = {each for name, _, each in found if name == topic and each is not None}
        known = topic_id or (others.pop() if len(others) == 1 else UNKNOWN_TOPIC_ID)
        try:
            yield TopicIdPartition(topic, number, known)
        except InvalidArgumentError:  # a foreign folder
            continue
