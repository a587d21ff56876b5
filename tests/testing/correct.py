"""Two plugins that keep every rule, in ways that no layout of ours does."""

import json
import re
import zlib
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from typing_extensions import override

from tieredfs import (
    ByteRange,
    Capability,
    CorruptIndexError,
    CorruptObjectError,
    EpochEntry,
    IndexType,
    InvalidArgumentError,
    Leftover,
    LogSegmentData,
    NotFoundError,
    PlannedFetch,
    RemoteStorageManager,
    RequestCounts,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
    Uuid,
    inspect_log_segment,
    parse_leader_epochs,
)

__all__ = ["Manifests", "Packed"]

_MANIFEST: Final = re.compile(
    r"m/([0-9A-Za-z_.-]+)@([A-Za-z0-9_-]{22})@(0|[1-9]\d{0,9})/"
    r"([0-9a-f]{16})@([A-Za-z0-9_-]{22})\.json",
    re.ASCII,
)
_PACK: Final = re.compile(
    r"([0-9A-Za-z_.-]+)~([A-Za-z0-9_-]{22})~(0|[1-9]\d{0,9})~"
    r"(\d{19})~([A-Za-z0-9_-]{22})\.pack",
    re.ASCII,
)


def _parsed(match: re.Match[str] | None, base: int) -> SegmentMetadata | None:
    if match is None:
        return None
    try:
        partition = TopicIdPartition(match[1], int(match[3]), Uuid(match[2]))
        return SegmentMetadata(partition, SegmentId(match[5]), int(match[4], base))
    except InvalidArgumentError:  # a foreign object
        return None


def _facts(
    storage: RemoteStorageManager, metadata: SegmentMetadata, data: LogSegmentData
) -> tuple[bytes, dict[str, Any]]:
    """Return the log, and what is known of the segment."""
    pieces: list[memoryview] = []
    found = inspect_log_segment(metadata, data, pieces.append)
    log = b"".join(pieces)
    checkpoint = data.indexes.get(IndexType.LEADER_EPOCH)
    epochs = (
        parse_leader_epochs(checkpoint, name=storage.name_of(metadata)).entries
        if checkpoint
        else ()
    )
    return log, {
        "size": len(log),
        "end": metadata.end_offset,
        "time": found.facts.max_timestamp_ms,
        "epochs": [[one.epoch, one.start_offset] for one in epochs],
    }


def _described(metadata: SegmentMetadata, facts: dict[str, Any]) -> SegmentMetadata:
    return replace(
        metadata,
        end_offset=facts["end"],
        max_timestamp_ms=facts["time"],
        leader_epochs=tuple(EpochEntry(*pair) for pair in facts["epochs"]),
        size=facts["size"],
    )


class Manifests(RemoteStorageManager):
    """The log and each index are objects; a manifest, put last, has their checksums.

    A listing knows where segments begin, and nothing else.
    """

    capabilities = frozenset({Capability.WRITE, Capability.RANGE_READ})

    @override
    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        mine = sum(bool(_MANIFEST.fullmatch(key)) for key in keys)
        return mine / len(keys) if keys else 0.0

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = self._segments("m/" if topic is None else f"m/{topic}@")
        return sorted({segment.partition for segment in found})

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = list(self._segments(f"m/{self._base(partition)}/"))
        if not found:
            raise NotFoundError(f"not found: {partition} in {self.store.url}")
        return sorted(found, key=lambda one: (one.start_offset, one.id))

    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        size = self._manifest(metadata)["size"]
        wanted = ByteRange(start, size if end is None else end)
        if wanted.end > size:
            raise CorruptObjectError(f"{self.name_of(metadata)} has {size} bytes")
        return self.store.get_range(
            self._part(metadata, "log"), wanted.start, wanted.end
        )

    @override
    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        manifest = self.store.head(self._key(metadata)).size or 0
        by_verb = {"get": 1, "get_range": 1 if start < end else 0}
        return PlannedFetch(RequestCounts.of(by_verb, manifest + end - start), end)

    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        return self._index(metadata, self._manifest(metadata), index_type)

    @override
    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        manifest = self._manifest(metadata)
        there = [kind for kind in index_types if kind in manifest["indexes"]]
        return SegmentIndexes({k: self._index(metadata, manifest, k) for k in there})

    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        return _described(metadata, self._manifest(metadata))

    @override
    def is_compacted(self, partition: TopicIdPartition) -> bool:
        return True  # a manifest has the size of the log

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        log, facts = _facts(self, metadata, data)
        facts["indexes"] = {
            kind: [len(index), zlib.crc32(index)]
            for kind, index in data.indexes.items()
        }
        self.store.put(self._part(metadata, "log"), log, overwrite=True)
        for kind in sorted(data.indexes, reverse=True):
            index = data.indexes[kind]
            self.store.put(self._part(metadata, kind), index, overwrite=True)
        body = json.dumps(facts)
        whole = f"{zlib.crc32(body.encode())} {body}".encode()
        self.store.put(self._key(metadata), whole, overwrite=True)
        return b""

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        self.store.delete([self._key(metadata)])
        self.store.delete(self._part(metadata, name) for name in ("log", *IndexType))

    @override
    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        base = self._base(partition)
        whole = {self._stem(one) for one in self._segments(f"m/{base}/")}
        for entry in self.store.list(f"d/{base}/"):
            stem, _, name = entry.key.removeprefix("d/").rpartition("/")
            is_mine = _MANIFEST.fullmatch(f"m/{stem}.json")
            if is_mine and name in {"log", *IndexType} and stem not in whole:
                yield Leftover(entry.key, entry.size or 0, "it has no manifest")

    @override
    def leftover_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        prefix = "d/" if topic is None else f"d/{topic}@"
        stems = (
            entry.key.removeprefix("d/").rpartition("/")[0]
            for entry in self.store.list(prefix)
        )
        parsed = (_parsed(_MANIFEST.fullmatch(f"m/{stem}.json"), 16) for stem in stems)
        found = {segment.partition for segment in parsed if segment is not None}
        return sorted(found.union(self.list_partitions(topic)))

    def _segments(self, prefix: str) -> Iterator[SegmentMetadata]:
        for entry in self.store.list(prefix):
            found = _parsed(_MANIFEST.fullmatch(entry.key), 16)
            if found is not None:
                yield found

    def _manifest(self, metadata: SegmentMetadata) -> dict[str, Any]:
        raw = bytes(self.store.get(self._key(metadata)))
        checksum, _, body = raw.partition(b" ")
        if checksum != str(zlib.crc32(body)).encode():
            raise CorruptObjectError(f"{self.name_of(metadata)}: its manifest is not")
        found: dict[str, Any] = json.loads(body)
        return found

    def _index(
        self, metadata: SegmentMetadata, manifest: dict[str, Any], kind: IndexType
    ) -> memoryview:
        known = manifest["indexes"].get(kind)
        if known is None:
            raise NotFoundError(f"not found: {kind} of {metadata}")
        found = self.store.get(self._part(metadata, kind))
        if [len(found), zlib.crc32(found)] != known:
            raise CorruptIndexError(f"{self.name_of(metadata)}: {kind}")
        return found

    def _base(self, partition: TopicIdPartition) -> str:
        return f"{partition.topic}@{partition.topic_id}@{partition.partition}"

    def _stem(self, metadata: SegmentMetadata) -> str:
        name = f"{metadata.start_offset:016x}@{metadata.id}"
        return f"{self._base(metadata.partition)}/{name}"

    def _key(self, metadata: SegmentMetadata) -> str:
        return f"m/{self._stem(metadata)}.json"

    def _part(self, metadata: SegmentMetadata, name: str) -> str:
        return f"d/{self._stem(metadata)}/{name}"


class Packed(RemoteStorageManager):
    """A segment is one object without folders: its parts compressed, then a directory.

    With the indexes it returns a layout that it has no use for.
    """

    capabilities = frozenset({Capability.WRITE, Capability.ATOMIC_COPY})

    @override
    @classmethod
    def recognises(cls, keys: Collection[str]) -> float:
        mine = sum(bool(_PACK.fullmatch(key)) for key in keys)
        return mine / len(keys) if keys else 0.0

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = self._segments("" if topic is None else f"{topic}~")
        return sorted({segment.partition for segment in found})

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = list(self._segments(self._base(partition)))
        if not found:
            raise NotFoundError(f"not found: {partition} in {self.store.url}")
        return sorted(found, key=lambda one: (one.start_offset, one.id))

    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        log = self._part(metadata, "log")
        wanted = ByteRange(start, len(log) if end is None else end)
        if wanted.end > len(log):
            raise CorruptObjectError(f"{self.name_of(metadata)} has {len(log)} bytes")
        return log[wanted.start : wanted.end]

    @override
    def plan_fetch(
        self,
        metadata: SegmentMetadata,
        start: int,
        end: int,
        *,
        layout: bytes = b"",
        after: PlannedFetch | None = None,
    ) -> PlannedFetch:
        size = self.store.head(self._key(metadata)).size or 0
        return PlannedFetch(RequestCounts.of({"get": 1}, size), end)

    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        return self._part(metadata, index_type)

    @override
    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        found = {kind: self._part(metadata, kind) for kind in self._kinds(metadata)}
        return SegmentIndexes(
            {kind: found[kind] for kind in index_types if kind in found}, b"of no use"
        )

    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        return _described(metadata, self._opened(metadata)[0])

    @override
    def is_compacted(self, partition: TopicIdPartition) -> bool:
        return True  # the directory has the size of the log

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        log, facts = _facts(self, metadata, data)
        parts: list[tuple[str, bytes]] = [("log", log), *data.indexes.items()]
        written, places = b"", {}
        for name, part in parts:
            packed = zlib.compress(part)
            places[name] = [len(written), len(written) + len(packed)]
            written += packed
        directory = json.dumps(facts | {"places": places}).encode()
        written += directory + len(directory).to_bytes(4)
        written += zlib.crc32(written).to_bytes(4)
        self.store.put(self._key(metadata), written, overwrite=True)
        return b""

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        self.store.delete([self._key(metadata)])

    def _segments(self, prefix: str) -> Iterator[SegmentMetadata]:
        for entry in self.store.list(prefix):
            found = _parsed(_PACK.fullmatch(entry.key), 10)
            if found is not None:
                yield found

    def _kinds(self, metadata: SegmentMetadata) -> list[IndexType]:
        places = self._opened(metadata)[0]["places"]
        return [kind for kind in IndexType if kind in places]

    def _part(self, metadata: SegmentMetadata, name: str) -> memoryview:
        facts, raw = self._opened(metadata)
        if name not in facts["places"]:
            raise NotFoundError(f"not found: {name} of {self.name_of(metadata)}")
        return memoryview(zlib.decompress(raw[slice(*facts["places"][name])]))

    def _opened(self, metadata: SegmentMetadata) -> tuple[dict[str, Any], bytes]:
        """Return the directory of an object, and all of its bytes."""
        raw = bytes(self.store.get(self._key(metadata)))
        if zlib.crc32(raw[:-4]) != int.from_bytes(raw[-4:]) or not raw:
            raise CorruptObjectError(f"{self.name_of(metadata)}: it was changed")
        size = int.from_bytes(raw[-8:-4])
        found: dict[str, Any] = json.loads(raw[-8 - size : -8])
        return found, raw

    def _base(self, partition: TopicIdPartition) -> str:
        return f"{partition.topic}~{partition.topic_id}~{partition.partition}~"

    def _key(self, metadata: SegmentMetadata) -> str:
        base = self._base(metadata.partition)
        return f"{base}{metadata.start_offset:019d}~{metadata.id}.pack"
