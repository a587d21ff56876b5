"""Plugins that miss what another process has done."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import ClassVar, Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    Capability,
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    SegmentMetadata,
    TieredFSError,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.source import LogSource

__all__ = ["BROKEN", "RemembersThatItWasEmpty"]


class ListsOnce(Native):
    """Keeps its first listing of a partition."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.listed: dict[TopicIdPartition, list[SegmentMetadata]] = {}

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        if partition not in self.listed:
            self.listed[partition] = super().list_segments(partition)
        return self.listed[partition]


class SurveysOnce(SingleObject):
    """Keeps its first survey of a partition."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.found: dict[TopicIdPartition, list[SegmentMetadata | TieredFSError]] = {}

    @override
    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        if partition not in self.found:
            self.found[partition] = [*super().survey(partition)]
        yield from self.found[partition]


class ListsLazilyOnce(SingleObject):
    """Keeps its first listing in columns of a partition."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.columns: dict[TopicIdPartition, Sequence[SegmentMetadata]] = {}

    @override
    def list_segments_lazily(
        self, partition: TopicIdPartition
    ) -> Sequence[SegmentMetadata]:
        if partition not in self.columns:
            self.columns[partition] = super().list_segments_lazily(partition)
        return self.columns[partition]


class SeeksInItsFirstListing(SingleObject):
    """Seeks in a listing that it keeps."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.listed: dict[TopicIdPartition, list[SegmentMetadata]] = {}

    @override
    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        if partition not in self.listed:
            self.listed[partition] = super().list_segments(partition)
        return [s for s in self.listed[partition] if (s.end_offset or 0) >= offset]


class KnowsItsPartitions(SingleObject):
    """Keeps the partitions of a topic, once it has any."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.known: dict[str | None, list[TopicIdPartition]] = {}

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        if not self.known.get(topic):
            self.known[topic] = super().list_partitions(topic)
        return self.known[topic]


class RemembersThatItWasEmpty(SingleObject):
    """Lists a partition no more that it once found missing."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.missing: set[TopicIdPartition] = set()

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        if partition in self.missing:
            raise NotFoundError(str(partition))
        try:
            return super().list_segments(partition, min_offset)
        except NotFoundError:
            self.missing.add(partition)
            raise


class KeepsAManifest(SingleObject):
    """Lists what an object names, which each copy reads, changes and writes."""

    capabilities = SingleObject.capabilities - {Capability.ATOMIC_COPY}

    def _ids(self) -> set[str]:
        with suppress(NotFoundError):
            return set(bytes(self.store.get("manifest")).decode().split())
        return set()

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        ids = self._ids()
        return [s for s in super().list_segments(partition, min_offset) if s.id in ids]

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        custom = super().copy_log_segment(metadata, data)
        text = " ".join({*self._ids(), metadata.id})
        self.store.put("manifest", text.encode(), overwrite=True)
        return custom


class RemembersInItsClass(SingleObject):
    """Keeps listings where every storage of a process finds them, and no other."""

    known: ClassVar[dict[str, list[SegmentMetadata]]] = {}

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        name = f"{self.store.url} {partition!r}"
        if name not in self.known:
            self.known[name] = super().list_segments(partition)
        return [s for s in self.known[name] if (s.end_offset or 0) >= min_offset]

    @override
    def copy_open_log(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        self.known.clear()
        return super().copy_open_log(metadata, log, indexes)

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        self.known.clear()
        super().delete_log_segment(metadata)


class LooksAtEachOfThem(SingleObject):
    """Asks for the object of each segment that is listed."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        for segment in found:
            self.store.head(self._object(segment).path)
        return found


BROKEN: Final = (
    Broken(rules.check_listing_is_never_stale, ListsOnce, "another storage had copied"),
    Broken(
        rules.check_listing_is_never_stale, SurveysOnce, "copied .* survey returned"
    ),
    Broken(
        rules.check_listing_is_never_stale,
        ListsLazilyOnce,
        "copied .* list_segments_lazily returned",
    ),
    Broken(
        rules.check_listing_is_never_stale,
        SeeksInItsFirstListing,
        "copied .* seek found",
    ),
    Broken(
        rules.check_listing_is_never_stale,
        KnowsItsPartitions,
        r"list_partitions\(None\) returned",
    ),
    Broken(
        rules.check_emptiness_is_not_remembered,
        RemembersThatItWasEmpty,
        "had copied it, list_segments raised",
        bug="remembers for ever that a store was empty",
    ),
    Broken(
        rules.check_copies_of_two_processes_stay, KeepsAManifest, "both returned, and"
    ),
    Broken(
        rules.check_other_processes_are_seen,
        RemembersInItsClass,
        "Another process has changed what is stored, and it listed",
    ),
    Broken(
        rules.check_listing_goes_on_beside_a_delete,
        LooksAtEachOfThem,
        r"Before request \d of list_segments another segment was deleted",
    ),
)
