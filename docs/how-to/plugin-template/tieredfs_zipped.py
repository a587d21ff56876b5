"""A layout of tieredfs: each segment, its log and its indexes, in one ZIP file."""

import io
import lzma
import re
import zipfile
import zlib
from dataclasses import replace

from tieredfs import (
    ByteRange,
    Capability,
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    NotFoundError,
    PlannedFetch,
    RemoteStorageManager,
    RequestCounts,
    SegmentId,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
    inspect_log_segment,
    parse_leader_epochs,
)

KEY = re.compile(
    r"(?P<topic>[\w.-]+)/(?P<topic_id>[\w-]{22})/(?P<number>0|[1-9]\d{0,9})/"
    r"(?P<stem>(?P<start>\d{20})-(?P<end>\d{20})-(?P<time>-?\d{1,19})-"
    r"(?P<size>\d{1,19})-(?P<id>[\w-]{22}))\.zip",
    re.ASCII,
)

# What zipfile raises for a damaged file.
DAMAGE = (EOFError, OSError, RuntimeError, ValueError)
DAMAGE += (lzma.LZMAError, zipfile.BadZipFile, zlib.error)


def folder_of(partition):
    return f"{partition.topic}/{partition.topic_id}/{partition.partition}/"


def segment_of(key):
    """Return the segment that a key names; None for a foreign object."""
    name = KEY.fullmatch(key)
    try:
        return name and SegmentMetadata(
            TopicIdPartition(
                name["topic"], int(name["number"]), Uuid(name["topic_id"])
            ),
            SegmentId(name["id"]),
            start_offset=int(name["start"]),
            end_offset=int(name["end"]),
            max_timestamp_ms=int(name["time"]),
            size=int(name["size"]),
            custom_metadata=name["stem"].encode(),
        )
    except InvalidArgumentError:  # such as an id that Kafka cannot have given
        return None


class ZipFiles(RemoteStorageManager):
    """Keep each segment in one ZIP file, whose name is what a listing has to know."""

    capabilities = frozenset(
        {Capability.WRITE, Capability.ATOMIC_COPY, Capability.PLAN_FROM_LISTING}
    )

    def list_partitions(self, topic=None):
        found = self._listed("" if topic is None else f"{topic}/")
        return sorted({segment.partition for segment in found})

    def list_segments(self, partition, min_offset=0):
        found = self._listed(folder_of(partition))
        if not found:
            raise NotFoundError(f"not found: {partition} in {self.store.url}")
        return [segment for segment in found if segment.end_offset >= min_offset]

    def fetch_log_segment(self, metadata, start=0, end=None, *, layout=b""):
        log = memoryview(self._member(metadata, "log"))
        wanted = ByteRange(start, len(log) if end is None else end)
        if wanted.end > len(log):
            raise CorruptObjectError(f"{self.name_of(metadata)} has {len(log)} bytes")
        return log[wanted.start : wanted.end]

    def plan_fetch(self, metadata, start, end, *, layout=b"", after=None):
        size = self.store.head(self._key(metadata)).size
        return PlannedFetch(RequestCounts.of({"get": 1}, size), end)

    def fetch_index(self, metadata, index_type):
        return memoryview(self._member(metadata, index_type.value))

    def describe(self, metadata, indexes=None):
        if metadata.is_described:
            return metadata
        epochs = self._member(metadata, IndexType.LEADER_EPOCH.value)
        found = parse_leader_epochs(epochs, name=self.name_of(metadata))
        return replace(metadata, leader_epochs=found.entries)

    def is_compacted(self, partition):
        return True  # any log is stored, also one whose last records were removed

    def copy_log_segment(self, metadata, data):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            with file.open(zipfile.ZipInfo("log"), "w", force_zip64=True) as log:
                found = inspect_log_segment(metadata, data, log.write)
            for kind, index in data.indexes.items():
                file.writestr(zipfile.ZipInfo(kind.value), bytes(index))
            size = file.getinfo("log").file_size
        stem = (
            f"{metadata.start_offset:020d}-{metadata.end_offset:020d}"
            f"-{found.facts.max_timestamp_ms}-{size}-{metadata.id}"
        )
        key = f"{folder_of(metadata.partition)}{stem}.zip"
        self.store.put(key, packed.getbuffer(), overwrite=True)
        return stem.encode()

    def delete_log_segment(self, metadata):
        self.store.delete([self._key(metadata)])

    @classmethod
    def recognises(cls, keys):
        return sum(map(bool, map(segment_of, keys))) / max(len(keys), 1)

    def _listed(self, prefix):
        found = (segment_of(entry.key) for entry in self.store.list(prefix))
        return [segment for segment in found if segment]

    def _key(self, metadata):
        stem = metadata.custom_metadata.decode()
        return f"{folder_of(metadata.partition)}{stem}.zip"

    def _member(self, metadata, name):
        packed = self.store.get(self._key(metadata))
        try:
            with zipfile.ZipFile(io.BytesIO(packed)) as file:
                return file.read(name)
        except KeyError:
            message = f"not found: {name} of {self.name_of(metadata)}"
            raise NotFoundError(message) from None
        except DAMAGE as error:
            raise CorruptObjectError(f"{self.name_of(metadata)}: {error}") from error
