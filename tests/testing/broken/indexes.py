"""Plugins that store or return indexes in a wrong way."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    Capability,
    CorruptDataError,
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.format.index.check import IndexCheck
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing.samples import sample

__all__ = ["BROKEN", "KeepsIndexesByOffset"]


class Indexes(Native):
    """Its indexes are read in a wrong way."""

    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        found = self.wrong(self.inner.fetch_all_indexes(metadata))
        if index_type not in found:
            raise NotFoundError(str(index_type))
        return found[index_type]

    @override
    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        found = self.fetch_all_indexes(metadata)
        return SegmentIndexes({k: found[k] for k in index_types if k in found})

    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        return SegmentIndexes(self.wrong(self.inner.fetch_all_indexes(metadata)))

    def wrong(self, found: SegmentIndexes) -> Mapping[IndexType, memoryview]:
        raise NotImplementedError


class CutsIndexes(Indexes):
    """Loses the last half of an entry."""

    @override
    def wrong(self, found: SegmentIndexes) -> Mapping[IndexType, memoryview]:
        return {k: found[k][:-4] if k is IndexType.OFFSET else found[k] for k in found}


class LosesTheTransactions(Indexes):
    """Does not store the index that most segments do not have."""

    @override
    def wrong(self, found: SegmentIndexes) -> Mapping[IndexType, memoryview]:
        return {k: found[k] for k in found if k is not IndexType.TRANSACTION}


class FindsMissingIndexesEmpty(Indexes):
    """Takes an index that does not exist for an empty one."""

    @override
    def wrong(self, found: SegmentIndexes) -> Mapping[IndexType, memoryview]:
        return {k: found.get(k, memoryview(b"")) for k in IndexType}


class GivesAllIndexes(Native):
    """Returns all indexes, whichever are asked for."""

    @override
    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        return super().fetch_all_indexes(metadata)


class RaisesWhereOneIsMissing(KafkaLocal):
    """Raises the error of a missing index instead of leaving it out."""

    @override
    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        return SegmentIndexes(
            {kind: self.fetch_index(metadata, kind) for kind in index_types}
        )


class KeepsIndexesByOffset(SingleObject):
    """Caches indexes under the start offset, which a copy under a new id shares."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.cached: dict[tuple[TopicIdPartition, int], SegmentIndexes] = {}

    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        name = metadata.partition, metadata.start_offset
        if name not in self.cached:
            self.cached[name] = super().fetch_all_indexes(metadata)
        return self.cached[name]


class ClaimsOneRequest(KafkaLocal):
    """Claims one request, and sends one for each index."""

    capabilities = KafkaLocal.capabilities | {Capability.SINGLE_REQUEST_INDEXES}


class StoresAnyIndex(Native):
    """Parses no index: the log is all that it looks at."""

    kinds: frozenset[IndexType] = frozenset(IndexType)

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        try:
            return super().copy_log_segment(metadata, data)
        except CorruptDataError:
            own = sample(metadata.partition, 1).data.indexes
            kept = {k: (own if k in self.kinds else data.indexes)[k] for k in own}
            return super().copy_log_segment(metadata, replace(data, indexes=kept))


class StoresAnyTimeIndex(StoresAnyIndex):
    """Does not parse time indexes."""

    kinds = frozenset({IndexType.TIMESTAMP})


class StoresAnySnapshot(StoresAnyIndex):
    """Does not parse producer snapshots."""

    kinds = frozenset({IndexType.PRODUCER_SNAPSHOT})


class ParsesIndexesOnly(Native):
    """Refuses what is malformed, and compares nothing with the log."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        end = metadata.end_offset or 0
        truth = IndexCheck(data.indexes, metadata.start_offset, end, 1 << 30)
        for detail in truth.malformed.values():
            raise CorruptDataError(detail)
        try:
            return super().copy_log_segment(metadata, data)
        except CorruptDataError:
            whole = sample(metadata.partition, 1).data
            return super().copy_log_segment(metadata, whole)


BROKEN: Final = (
    Broken(
        rules.check_inconsistent_indexes_are_refused,
        StoresAnyTimeIndex,
        "TIMESTAMP index malformed returned",
    ),
    Broken(
        rules.check_inconsistent_indexes_are_refused,
        StoresAnySnapshot,
        "SNAPSHOT index malformed returned",
    ),
    Broken(
        rules.check_inconsistent_indexes_are_refused,
        ParsesIndexesOnly,
        "OFFSET index of another segment returned",
        bug="stores an index that is another segment's or points past the log",
    ),
    Broken(
        rules.check_indexes_are_what_was_copied,
        CutsIndexes,
        "OFFSET, returned 20 bytes, expected 24",
    ),
    Broken(
        rules.check_indexes_are_what_was_copied,
        LosesTheTransactions,
        "TRANSACTION of .* is missing",
    ),
    Broken(
        rules.check_fetch_indexes_equals_one_by_one, GivesAllIndexes, r"asked for none"
    ),
    Broken(
        rules.check_missing_index_is_not_found,
        FindsMissingIndexesEmpty,
        "has no TRANSACTION index",
    ),
    Broken(
        rules.check_indexes_cost_one_request, ClaimsOneRequest, "took 5 requests, not 1"
    ),
    Broken(
        rules.check_missing_index_is_left_out,
        RaisesWhereOneIsMissing,
        "fetch_indexes of TRANSACTION raised",
        bug="a missing index raises instead of being left out",
    ),
    Broken(
        rules.check_indexes_are_of_the_id,
        KeepsIndexesByOffset,
        "Both are stored",
        bug="a stale index after a copy under a new id",
    ),
)
