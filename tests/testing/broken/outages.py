"""Plugins that take an error of the store for an answer."""

from collections.abc import Mapping
from typing import Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    IndexType,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    SegmentId,
    SegmentMetadata,
    StorageUnavailableError,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.storage.layouts.kafka_local import KafkaLocal

__all__ = ["BROKEN", "TakesOutagesForAMissingIndex", "TakesOutagesForNothing"]


class TakesOutagesForNothing(Native):
    """Takes a store that cannot be reached for an empty one."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        try:
            return super().list_partitions(topic)
        except StorageUnavailableError:
            return []


class TakesOutagesForNothingBehindAView(TakesOutagesForNothing):
    """As one whose store has a policy of the plugin's own."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store.with_policy(RequestPolicy(attempts=1)))


class TakesOutagesForAMissingIndex(KafkaLocal):
    """Takes an index that could not be fetched for one that does not exist."""

    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        try:
            return super().fetch_index(metadata, index_type)
        except StorageUnavailableError as error:
            raise NotFoundError(str(error)) from error


class TakesLateForMissing(KafkaLocal):
    """Takes an index that did not come in time for one that does not exist."""

    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        try:
            return super().fetch_index(metadata, index_type)
        except TimeoutError as error:
            raise NotFoundError(str(error)) from error


class TakesForbiddenForMissing(Native):
    """Takes an index that it may not read for a missing one, as S3 does."""

    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        try:
            return super().fetch_index(metadata, index_type)
        except PermissionDeniedError as error:
            raise NotFoundError(str(error)) from error


class TakesOutagesForNoSnapshot(KafkaLocal):
    """Takes an outage for a segment before which no producer has written."""

    @override
    def fetch_producers_before(self, metadata: SegmentMetadata) -> memoryview:
        try:
            self.list_segments(metadata.partition)
        except StorageUnavailableError as error:
            raise NotFoundError(str(error)) from error
        return super().fetch_producers_before(metadata)


class ReadsNothingAhead(KafkaLocal):
    """Takes what could not be read ahead for nothing."""

    @override
    def fetch_log_ahead(
        self, metadata: SegmentMetadata, start: int, end: int, *, layout: bytes = b""
    ) -> memoryview:
        try:
            return super().fetch_log_ahead(metadata, start, end, layout=layout)
        except StorageUnavailableError:
            return memoryview(b"")


class FindsNoSuchTopic(KafkaLocal):
    """Takes an outage for a topic without partitions."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        try:
            return super().list_partitions(topic)
        except StorageUnavailableError:
            if topic is None:
                raise
            return []


class KnowsNoSizes(KafkaLocal):
    """Takes an outage for sizes that are unknown."""

    @override
    def stored_sizes(
        self, partition: TopicIdPartition
    ) -> Mapping[tuple[int, SegmentId], int]:
        try:
            return super().stored_sizes(partition)
        except StorageUnavailableError:
            return {}


BROKEN: Final = (
    Broken(
        rules.check_transient_errors_are_raised, TakesForbiddenForMissing, r"\(denied\)"
    ),
    Broken(rules.check_transient_errors_are_raised, TakesLateForMissing, r"\(late\)"),
    Broken(
        rules.check_store_errors_pass_through,
        TakesOutagesForNothing,
        r"list_partitions returned \[\]",
    ),
    Broken(
        rules.check_store_errors_pass_through,
        TakesOutagesForNothingBehindAView,
        r"list_partitions returned \[\]",
    ),
    Broken(
        rules.check_store_errors_pass_through,
        TakesOutagesForAMissingIndex,
        "NotFoundError|fetch_indexes returned",
    ),
    Broken(
        rules.check_transient_errors_are_raised,
        TakesOutagesForAMissingIndex,
        r"of describe failed \(error\), and it ended with",
        bug='takes a transient error for "not found"',
    ),
    Broken(
        rules.check_store_errors_pass_through,
        TakesOutagesForNoSnapshot,
        "fetch_producers_before returned",
    ),
    Broken(
        rules.check_store_errors_pass_through,
        ReadsNothingAhead,
        "fetch_log_ahead returned",
    ),
    Broken(
        rules.check_store_errors_pass_through,
        FindsNoSuchTopic,
        "list_partitions of a topic returned",
    ),
    Broken(
        rules.check_transient_errors_are_raised,
        KnowsNoSizes,
        "stored_sizes failed",
    ),
)
