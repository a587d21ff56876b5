"""Storages that break one rule of verification and repair each."""

from collections.abc import Mapping
from dataclasses import replace

from typing_extensions import override

from testing.broken.plugin import Broken
from tieredfs import (
    IndexType,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.segment_log.source import LogSource

__all__ = ["BROKEN"]


class DoubtsItsOwnKeys(SingleObject):
    """Takes a segment whose log was read for one that was written anew."""

    @override
    def is_current(
        self, metadata: SegmentMetadata, last_offset: int | None = None
    ) -> bool:
        return last_offset is None


class DoubtsItsOwnLayouts(SingleObject):
    """Takes what it has just returned with the indexes for that of another copy."""

    @override
    def is_layout_current(self, metadata: SegmentMetadata, layout: bytes) -> bool:
        return False


class TrustsItsEnds(KafkaLocal):
    """Describes an exclusive end, and says that it was seen in the log."""

    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        told = super().describe(metadata, indexes)
        return replace(told, end_offset=(told.end_offset or 0) + 1)

    @override
    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        return True


class TakesTheSnapshotOfItsEnd(SingleObject):
    """Takes the snapshot that was taken at a segment's end for that of its start."""

    @override
    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        return self.fetch_index(metadata, IndexType.PRODUCER_SNAPSHOT)


class AsksForItsEnd(SingleObject):
    """Sends a request where the metadata have to tell."""

    @override
    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        return bool(self.list_segments(metadata.partition, metadata.start_offset))


class TakesTheFirstEpoch(SingleObject):
    """Takes the key of every segment for right."""

    @override
    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        del metadata, epoch


class KeepsItsEpochToItself(SingleObject):
    """Has an epoch in its keys, and does not say which."""

    @override
    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        return None


class TakesNoneForAnEpoch(SingleObject):
    """Returns the epoch in a key as it is written there."""

    @override
    def highest_epoch(self, metadata: SegmentMetadata) -> int | None:
        key = self.keys.parse_stem(metadata.custom_metadata.decode())
        return None if key is None else key.epoch


class SeesNoAborts(SingleObject):
    """Takes every transaction index for empty."""

    @override
    def is_txn_index_empty(self, metadata: SegmentMetadata) -> bool:
        return True


class KnowsNoCleaner(SingleObject):
    """Stores a compacted log, and takes it for one that was cut when it is read."""

    @override
    def is_compacted(self, partition: TopicIdPartition) -> bool:
        return False


class KeepsALaterName(SingleObject):
    """Deletes of the objects that a segment had only those whose names are smaller."""

    @override
    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        folder = self.keys.partition_prefix(metadata.partition)
        before = [entry.key for entry in self.store.list(folder)]
        key, _ = self._writer.put(metadata, log, indexes)
        stem = self.keys.stem(key)
        new = self.keys.object_key(metadata.partition, stem)
        self.store.delete(key for key in before if key < new)
        return stem.encode()


class KeepsAnOldIndex(KafkaLocal):
    """Overwrites the files that a new copy has, and leaves the others."""

    @override
    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        return self.copy_open_log(metadata, log, indexes)


class ListsNoSizes(KafkaLocal):
    """Shows what a segment takes by ``stored_sizes`` alone."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        return [replace(one, stored_size=None) for one in found]


class CountsEachOtherOnes(ListsNoSizes):
    """Says of each segment what the next one takes."""

    @override
    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        sizes = super().stored_sizes(partition)
        values = [*sizes.values()]
        return dict(zip(sizes, values[1:] + values[:1], strict=True))


class CountsLogsAlone(ListsNoSizes):
    """Leaves the indexes out of what a segment takes."""

    @override
    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        listed = self.list_segments(partition)
        return {(one.start_offset, one.id): one.size or 0 for one in listed}


class CountsTwice(SingleObject):
    """Counts the indexes with the log, and once more."""

    @override
    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        sizes = super().stored_sizes(partition)
        return {name: 2 * size for name, size in sizes.items()}


class CountsEmptyFiles(KafkaLocal):
    """Takes the size of an empty file for one that is not known, and guesses it."""

    @override
    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        files, _ = self._files(partition)
        return {
            segment: sum(entry.size or 1 for entry in parts.values())
            for segment, parts in files.items()
        }


class ReplacesWhatItSees(KafkaLocal):
    """Takes a segment of the same name for one that need not be replaced any more."""

    @override
    def replace_log_segment(
        self,
        metadata: SegmentMetadata,
        log: LogSource,
        indexes: Mapping[IndexType, bytes],
    ) -> bytes:
        found = self.list_segments(metadata.partition)
        known = [s for s in found if s.id == metadata.id and s.size == log.size]
        if not known:
            return super().replace_log_segment(metadata, log, indexes)
        self.store.delete([self._key(metadata, "log")])
        return self.copy_open_log(metadata, log, indexes) if len(known) > 1 else b""


BROKEN = (
    Broken(rules.check_sound_segments_are_current, DoubtsItsOwnKeys, "returned False"),
    Broken(
        rules.check_sound_segments_are_current,
        DoubtsItsOwnLayouts,
        "is_layout_current.* returned False",
    ),
    Broken(
        rules.check_key_that_contradicts_the_log_is_found,
        TakesTheFirstEpoch,
        "whose log has epoch 0, returned None",
    ),
    Broken(
        rules.check_key_that_contradicts_the_log_is_found,
        KeepsItsEpochToItself,
        "returned None, and its key has an epoch",
    ),
    Broken(
        rules.check_log_without_epochs_has_no_highest,
        TakesNoneForAnEpoch,
        "returned -1",
    ),
    Broken(
        rules.check_compacted_log_is_stated,
        KnowsNoCleaner,
        r"is_compacted\(orders-0\) returned False",
    ),
    Broken(
        rules.check_checked_end_is_that_of_the_log,
        TrustsItsEnds,
        "end offset is 20, and the last one in the log 19",
    ),
    Broken(
        rules.check_empty_transaction_index_has_no_abort,
        SeesNoAborts,
        "its transaction index is not empty",
    ),
    Broken(
        rules.check_producers_before_are_older,
        TakesTheSnapshotOfItsEnd,
        r"it returned \[ProducerState\(producer_id=1",
    ),
    Broken(
        rules.check_answers_from_metadata_send_no_request,
        AsksForItsEnd,
        "is_end_checked of orders-0/.* sent 1 requests",
    ),
    Broken(rules.check_replaced_segment_is_the_new_one, KeepsAnOldIndex, "TRANSACTION"),
    Broken(rules.check_replaced_segment_is_the_new_one, KeepsALaterName, "There are"),
    Broken(rules.check_stored_sizes_are_what_is_stored, CountsTwice, "It counts"),
    Broken(
        rules.check_stored_sizes_are_what_is_stored,
        CountsEachOtherOnes,
        "and deleting it freed",
    ),
    Broken(
        rules.check_stored_sizes_are_what_is_stored,
        CountsLogsAlone,
        r"takes 1284 bytes, and deleting it freed \d+",
    ),
    Broken(
        rules.check_stored_sizes_are_what_is_stored,
        CountsEmptyFiles,
        r"With an empty .* it counts",
    ),
    Broken(
        rules.check_interrupted_replacement_can_be_repeated,
        ReplacesWhatItSees,
        "is not listed",
    ),
)
