"""A record of the logs that earlier pushes read, with the ids of their segments.

To find a segment in a target, its id is needed, which is a hash of its log. So a push
records, for each log that it has read, the id and the file's version, and the next push
needs to read only logs that have changed.

The record contains nothing about a target, which is listed each time. A wrong or
missing entry only costs reading a log again.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.checksum import crc32c
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.objects import last_changed
from tieredfs.storage import RemoteStorageManager

__all__ = ["PartitionRecord", "PushRecord", "RecordedLog"]

_FOLDER: Final = "pushed"
_FILE: Final = re.compile(r"[0-9a-f]{32}\.(?:json|tmp)", re.ASCII)
_MIN_AGE_NS: Final = 4_000_000_000
"""Least nanoseconds since a file's last change: twice the step of the coarsest clock,
so that a later change gives the file another time."""


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """A log that was read.

    Attributes:
        version: Of its file: size, times and inode.
        end_offset: Of its segment, as it was listed.
        id: The hash of its content.
        last_offset: The last offset in the log.
    """

    version: str
    end_offset: int
    id: SegmentId
    last_offset: int


class PushRecord:
    """A folder with a file for each partition of each log directory."""

    def __init__(
        self,
        folder: Path,
        *,
        min_age_ns: int | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Create a record, without reading or writing.

        Args:
            folder: Where the files are, readable by this user only.
            min_age_ns: How long ago a log must have changed to be recorded; four
                seconds by default.
            clock: Returns the disk's time in nanoseconds since 1970.
        """
        self._folder = folder
        self._min_age_ns = _MIN_AGE_NS if min_age_ns is None else min_age_ns
        self._clock = clock

    @classmethod
    def in_cache(cls, directory: Path) -> Self:
        """Return the record in a cache directory."""
        return cls(directory / _FOLDER)

    def clear(self) -> int:
        """Remove all entries; return the number of their partitions.

        Raises:
            OSError: It cannot be removed.
        """
        try:
            found = list(self._folder.iterdir())
        except FileNotFoundError:
            return 0
        files = [path for path in found if _FILE.fullmatch(path.name)]
        for path in files:
            path.unlink(missing_ok=True)
        with suppress(OSError):  # it contains foreign files
            self._folder.rmdir()
        return sum(path.suffix == ".json" for path in files)

    def of(
        self, source: RemoteStorageManager, partition: TopicIdPartition
    ) -> "PartitionRecord":
        """Read the record of a partition of a log directory."""
        named = f"{source.identity}\n{partition.topic_id}\n{partition}"
        name = hashlib.sha256(os.fsencode(named)).hexdigest()[:32]
        path = self._folder / f"{name}.json"
        begun = self._clock()
        return PartitionRecord(path, before=begun - self._min_age_ns)


class PartitionRecord:
    """The record of one partition."""

    def __init__(self, path: Path, *, before: int) -> None:
        """Read the file, if it exists and is whole.

        Args:
            path: Path of the file.
            before: Logs that have changed since this time, in nanoseconds, are not
                recorded.
        """
        self._path = path
        self._before = before
        self._logs = _read(path)
        self._is_changed = False

    def find(self, listed: SegmentMetadata) -> RecordedLog | None:
        """Return the entry of a segment's log, if the log is unchanged."""
        found = self._logs.get(listed.start_offset)
        if found is None or (found.version, found.end_offset) != (
            listed.version,
            listed.end_offset,
        ):
            return None
        return found

    def add(
        self, listed: SegmentMetadata, segment_id: SegmentId, last_offset: int
    ) -> None:
        """Record a log that was read and has not changed since it was listed.

        Args:
            listed: The segment as it was listed; one without an end is not recorded.
            segment_id: The hash of its content.
            last_offset: The last offset in the log.
        """
        changed = last_changed(listed.version)
        if listed.end_offset is None or changed is None or changed >= self._before:
            return
        log = RecordedLog(listed.version, listed.end_offset, segment_id, last_offset)
        if self._logs.get(listed.start_offset) != log:
            self._logs[listed.start_offset] = log
            self._is_changed = True

    def save(self, listed: Iterable[SegmentMetadata]) -> None:
        """Write the file if there is a new entry; a full disk is not an error.

        Afterwards, also after a crash, the file is the old one, the new one, or ignored
        as invalid.

        Args:
            listed: The segments that exist; others are forgotten.
        """
        starts = {segment.start_offset for segment in listed}
        kept = {start: log for start, log in self._logs.items() if start in starts}
        if not self._is_changed and len(kept) == len(self._logs):
            return
        with suppress(OSError):
            _write(self._path, kept)
            self._logs, self._is_changed = kept, False


def _read(path: Path) -> dict[int, RecordedLog]:
    try:
        crc, _, data = path.read_bytes().partition(b"\n")
        if crc != _sum(data):
            return {}
        return {
            int(start): RecordedLog(version, end_offset, SegmentId(name), last_offset)
            for start, (version, end_offset, name, last_offset) in json.loads(
                data
            ).items()
        }
    except (OSError, ValueError, TypeError, AttributeError, InvalidArgumentError):
        return {}


def _write(path: Path, logs: dict[int, RecordedLog]) -> None:
    content = {
        start: (log.version, log.end_offset, log.id, log.last_offset)
        for start, log in sorted(logs.items())
    }
    data = json.dumps(content).encode()
    for folder in (*reversed(path.parent.parents), path.parent):
        folder.mkdir(mode=0o700, exist_ok=True)  # parents=True makes those for all
    # Always the same name: the next process reuses the file of a killed one. Two
    # concurrent writers may corrupt the file, which its checksum detects.
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb", opener=_open_private) as file:
        file.write(_sum(data) + b"\n" + data)
    temporary.replace(path)


def _sum(data: bytes) -> bytes:
    return b"%08x" % crc32c(data)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
