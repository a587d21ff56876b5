"""Plugins that delete in a wrong way."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import cycle
from typing import ClassVar, Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    IndexType,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.model import SegmentIndexes
from tieredfs.storage.layouts.kafka_files import SUFFIXES
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.layouts.single_object.stored_log import Compression

__all__ = ["BROKEN", "DeletesByOffset", "DeletesByPrefix", "DeletesTheLogOnly"]


class MissesWhatIsGone(Native):
    """Takes a repeated delete for a mistake."""

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        if metadata.id not in {s.id for s in self.list_segments(metadata.partition)}:
            raise NotFoundError(str(metadata))
        super().delete_log_segment(metadata)


class DeletesNothing(Native):
    """Does not delete."""

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        pass


class DeletesTheLogOnly(KafkaLocal):
    """Leaves the indexes of what it deletes."""

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        self.store.delete([self._key(metadata, "log")])


class DeletesTheTopic(Native):
    """Deletes the topic of a partition."""

    @override
    def delete_partition(self, partition: TopicIdPartition) -> None:
        folder = f"{partition.topic}/"
        self.store.delete([entry.key for entry in self.store.list(folder)])


class DeletesByPrefix(KafkaLocal):
    """Deletes what begins with the partition's name: a-10 with a-1."""

    @override
    def delete_partition(self, partition: TopicIdPartition) -> None:
        prefix = f"{self._find_root()}{partition}"
        self.store.delete([entry.key for entry in self.store.list(prefix)])


class DeletesByOffset(KafkaLocal):
    """Deletes every segment that begins at the same offset."""

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        beginning = f"{self._folder(metadata.partition)}{metadata.start_offset:020d}-"
        self.store.delete([entry.key for entry in self.store.list(beginning)])


class DeletesOneOfTwoObjects(SingleObject):
    """Deletes one object of a segment that two writers stored in one each."""

    compressions: ClassVar[Iterator[Compression | None]] = cycle((None, "zstd"))

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store, compression=next(self.compressions))

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        with suppress(NotFoundError):
            found = self._object(metadata)
            self.store.delete([found.path])
            self._known.forget(replace(metadata, end_offset=found.key.end_offset))


class LeavesLeftovers(KafkaLocal):
    """Leaves what dead copies have left in a deleted partition."""

    @override
    def delete_partition(self, partition: TopicIdPartition) -> None:
        with suppress(NotFoundError):
            for segment in self.list_segments(partition):
                self.delete_log_segment(segment)


class ReadsWhatIsLeft(KafkaLocal):
    """Takes an index that is already deleted for one that there never was."""

    @override
    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        return RemoteStorageManager.fetch_indexes(self, metadata, index_types)


class DeletesAtOnce(KafkaLocal):
    """Deletes a segment's log with its indexes, of which the store may keep any."""

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        suffixes = ("log", *SUFFIXES.values())
        self.store.delete([self._key(metadata, suffix) for suffix in suffixes])


class DeletesAPartitionAtOnce(KafkaLocal):
    """Deletes the logs of a partition with their indexes."""

    @override
    def delete_partition(self, partition: TopicIdPartition) -> None:
        folder = self._folder(partition)
        self.store.delete([entry.key for entry in self.store.list(folder)])


BROKEN: Final = (
    Broken(
        rules.check_delete_is_seen_whole,
        ReadsWhatIsLeft,
        "was cut in write 2.* fetch_all_indexes .* without",
    ),
    Broken(
        rules.check_delete_is_idempotent,
        MissesWhatIsGone,
        "NotFoundError",
        bug="the delete of what is missing raises",
    ),
    Broken(rules.check_deleted_segment_is_gone, DeletesNothing, "After one was del"),
    Broken(rules.check_deleted_segment_is_gone, DeletesTheLogOnly, "objects are left"),
    Broken(
        rules.check_delete_partition_deletes_all_of_it, DeletesTheTopic, "it listed"
    ),
    Broken(
        rules.check_delete_partition_deletes_all_of_it,
        LeavesLeftovers,
        r"returned \[\]",
    ),
    Broken(
        rules.check_delete_spares_similar_names,
        DeletesByPrefix,
        "orders-1 was deleted",
        bug="deletes too much",
    ),
    Broken(rules.check_delete_spares_similar_names, DeletesByOffset, "was deleted"),
    Broken(
        rules.check_delete_removes_every_copy,
        DeletesOneOfTwoObjects,
        "one deleted it, and it listed",
        bug="deletes one of two objects of a segment and says that it is gone",
    ),
    Broken(
        rules.check_delete_is_seen_whole,
        DeletesAtOnce,
        "delete_log_segment was cut in write 1",
    ),
    Broken(
        rules.check_delete_is_seen_whole,
        DeletesAPartitionAtOnce,
        "delete_partition was cut in write 1",
    ),
)
