"""Plugins that take an error of the store for an answer."""

from typing import Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    IndexType,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
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


BROKEN: Final = (
    Broken(
        rules.check_transient_errors_are_raised, TakesForbiddenForMissing, r"\(denied\)"
    ),
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
)
