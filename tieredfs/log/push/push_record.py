"""What earlier pushes read: the ids of logs that have not changed since.

To know whether a target has a segment, its id is needed, which sums up its log. So a
push notes, for each log that it has read, what tells the file from any other content of
it, and the next one needs to read only logs that have changed.

The record says nothing of any target: that is looked up there each time. What is wrong
with the record, or missing from it, costs reading a log again.
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
_SETTLED_NS: Final = 4_000_000_000
"""How long ago a file must have changed: twice the step of the coarsest clock, so that
a later change gives it another time."""


@dataclass(frozen=True, slots=True)
class RecordedLog:
    """A log that was read.

    Attributes:
        version: Of its file: size, times and inode.
        end_offset: Of its segment, as it was listed.
        id: What sums up its content.
        last_offset: The last offset that it holds.
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
        settled_ns: int | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Name the folder; nothing is read or written yet.

        Args:
            folder: Where the files are, for this user alone.
            settled_ns: How long ago a log must have changed to be noted; four seconds
                when left out.
            clock: Nanoseconds since 1970, as the disk counts them.
        """
        self._folder = folder
        self._settled_ns = _SETTLED_NS if settled_ns is None else settled_ns
        self._clock = clock

    @classmethod
    def in_cache(cls, directory: Path) -> Self:
        """Return the record that is kept in a cache directory."""
        return cls(directory / _FOLDER)

    def clear(self) -> int:
        """Remove what is noted; return of how many partitions it was.

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
        with suppress(OSError):  # foreign files are in it
            self._folder.rmdir()
        return sum(path.suffix == ".json" for path in files)

    def of(
        self, source: RemoteStorageManager, partition: TopicIdPartition
    ) -> "PartitionRecord":
        """Read what is noted of a partition of a log directory."""
        named = f"{source.identity}\n{partition.topic_id}\n{partition}"
        name = hashlib.sha256(os.fsencode(named)).hexdigest()[:32]
        path = self._folder / f"{name}.json"
        begun = self._clock()
        return PartitionRecord(path, before=begun - self._settled_ns)


class PartitionRecord:
    """What is noted of one partition."""

    def __init__(self, path: Path, *, before: int) -> None:
        """Read the file, if there is one that is whole.

        Args:
            path: Of the file.
            before: Logs that have changed since this time, in nanoseconds, are not
                noted.
        """
        self._path = path
        self._before = before
        self._logs = _read(path)
        self._is_changed = False

    def find(self, listed: SegmentMetadata) -> RecordedLog | None:
        """Return what is noted of a segment's log, if it is the one that was read."""
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
        """Note a log that was read, and is still the one that was listed.

        Args:
            listed: The segment as it was listed; one without an end is not noted.
            segment_id: What sums up its content.
            last_offset: The last offset that it holds.
        """
        changed = last_changed(listed.version)
        if listed.end_offset is None or changed is None or changed >= self._before:
            return
        log = RecordedLog(listed.version, listed.end_offset, segment_id, last_offset)
        if self._logs.get(listed.start_offset) != log:
            self._logs[listed.start_offset] = log
            self._is_changed = True

    def save(self, listed: Iterable[SegmentMetadata]) -> None:
        """Write the file, if there is something new; a disk that is full is no error.

        Afterwards, also after a crash, the file is the old or the new one, or not taken
        for one.

        Args:
            listed: The segments that there are; others are forgotten.
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
    told = {
        start: (log.version, log.end_offset, log.id, log.last_offset)
        for start, log in sorted(logs.items())
    }
    data = json.dumps(told).encode()
    for folder in (*reversed(path.parent.parents), path.parent):
        folder.mkdir(mode=0o700, exist_ok=True)  # parents=True makes those for all
    # Always the same name: a process that is killed leaves one, the next uses it. Two
    # that write at the same time may spoil the file, which its checksum shows.
    temporary = path.with_suffix(".tmp")
    with open(temporary, "wb", opener=_open_private) as file:
        file.write(_sum(data) + b"\n" + data)
    temporary.replace(path)


def _sum(data: bytes) -> bytes:
    return b"%08x" % crc32c(data)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
