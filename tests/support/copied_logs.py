"""Copies of recorded log directories, as tools leave them that were interrupted."""

import struct
import tempfile
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from support.distant import distant
from support.golden import rows_of
from support.log_directories import recorded, topic_of
from support.stores import files_of, fill
from tieredfs import ObjectStore, Topic
from tieredfs.storage.layouts.kafka_log import KafkaLog

__all__ = ["CopiedLog", "Fate", "batch_ends", "recorded_log"]

_LENGTH = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a file.

    Attributes:
        share: How much of it was copied; None if nothing was, not even its name.
        room: Bytes of zeros after that, as where a tool or a broker has preallocated
            the file; None for as many as make up its size.
    """

    share: float | None
    room: int | None = 0

    @property
    def has_zeros(self) -> bool:
        """Whether zeros follow what was copied."""
        return self.share is not None and self.room != 0

    def of(self, content: bytes) -> bytes | None:
        """Return what is there of a file."""
        if self.share is None:
            return None
        copied = content[: round(self.share * len(content))]
        room = len(content) - len(copied) if self.room is None else self.room
        return copied + bytes(room)


@dataclass(frozen=True)
class CopiedLog:
    """A log directory that a broker wrote, with one partition.

    Attributes:
        name: The topic.
        files: Its files.
        rows: Its records by their offsets.
    """

    name: str
    files: Mapping[str, bytes]
    rows: Mapping[int, Mapping[str, Any]]

    @property
    def logs(self) -> list[str]:
        """The keys of the logs, in order."""
        return sorted(key for key in self.files if key.endswith(".log"))

    def last_indexed(self, key: str) -> int:
        """Return the position of the last batch in the offset index of a log."""
        index = self.files[f"{key.removesuffix('log')}index"].rstrip(b"\0")
        entry = -(-len(index) // 8) * 8
        return int.from_bytes(index[entry - 4 : entry]) if entry else 0

    def copied(self, fates: Mapping[str, Fate]) -> dict[str, bytes]:
        """Return the files as they were copied; whole where no fate is given."""
        whole = Fate(1.0)
        made = {key: fates.get(key, whole).of(f) for key, f in self.files.items()}
        return {key: content for key, content in made.items() if content is not None}

    def put(self, files: Mapping[str, bytes], *, is_distant: bool) -> Topic:
        """Put files where nothing else is, and open the topic there."""
        url = f"memory://{uuid.uuid4().hex}"
        fill(ObjectStore(url), files)
        store = ObjectStore(distant(url) if is_distant else url)
        return topic_of(KafkaLog(store), self.name)


@lru_cache
def recorded_log(name: str) -> CopiedLog:
    """Return a topic's log directory as a broker wrote it."""
    with tempfile.TemporaryDirectory() as folder:
        files = files_of(recorded(name, Path(folder) / "logs"))
    log = CopiedLog(name, files, {})
    rows = rows_of(log.put(files, is_distant=False).scan().to_table())
    return CopiedLog(name, files, {row["offset"]: row for row in rows})


def batch_ends(log: bytes) -> list[tuple[int, int]]:
    """Return the end of each batch of a log, in bytes, and its first offset."""
    found, at = [], 0
    while at < len(log):
        (base,) = struct.unpack_from(">q", log, at)
        at += 12 + _LENGTH.unpack_from(log, at + 8)[0]
        found.append((at, base))
    return found
