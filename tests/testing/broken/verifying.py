"""Storages that break one rule of verification and repair each."""

from collections.abc import Mapping

from typing_extensions import override

from testing.broken.plugin import Broken
from tieredfs import (
    IndexType,
    SegmentId,
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


class TakesTheFirstEpoch(SingleObject):
    """Takes the key of every segment for right."""

    @override
    def check_key(self, metadata: SegmentMetadata, epoch: int) -> None:
        del metadata, epoch


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


class CountsTwice(SingleObject):
    """Counts the indexes with the log, and once more."""

    @override
    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        sizes = super().stored_sizes(partition)
        return {name: 2 * size for name, size in sizes.items()}


BROKEN = (
    Broken(rules.check_sound_segments_are_current, DoubtsItsOwnKeys, "returned False"),
    Broken(
        rules.check_key_that_contradicts_the_log_is_found,
        TakesTheFirstEpoch,
        "whose log has epoch 0, returned None",
    ),
    Broken(rules.check_replaced_segment_is_the_new_one, KeepsAnOldIndex, "TRANSACTION"),
    Broken(rules.check_stored_sizes_are_what_is_stored, CountsTwice, "It counts"),
)
