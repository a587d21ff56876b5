"""Storages that break one rule of the contract each."""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from typing_extensions import override

from testing.layouts import read_only
from tieredfs import (
    Capability,
    CorruptDataError,
    IndexType,
    LogSegmentData,
    NotFoundError,
    ObjectStore,
    RemoteStorageManager,
    RequestPolicy,
    SegmentIndexes,
    SegmentMetadata,
    StorageUnavailableError,
    TieredFSError,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.errors import AlreadyExistsError
from tieredfs.format.index.check import IndexCheck
from tieredfs.storage import Leftover, StorageWrapper
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.testing import Check, MakeStorage
from tieredfs.testing.samples import sample

__all__ = ["BROKEN", "Broken"]


@dataclass(frozen=True, slots=True)
class Broken:
    """A storage that breaks a rule.

    Attributes:
        check: The one that has to find it.
        make: Makes the storage.
        said: Part of the sentence that says what is wrong.
    """

    check: Check
    make: MakeStorage
    said: str

    def __str__(self) -> str:
        """Name it in the list of tests."""
        return f"{self.check.__name__}-{getattr(self.make, '__qualname__', '')}"


class Native(StorageWrapper):
    """The native layout, to be broken."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(SingleObject(store))


class InventsAPartition(Native):
    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return [*super().list_partitions(topic), TopicIdPartition("zzz", 0)]


class ListsPartitionsBackwards(Native):
    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return super().list_partitions(topic)[::-1]


class ForgetsAPartition(Native):
    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return super().list_partitions(topic)[1:]


class ListsEveryTopic(Native):
    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return super().list_partitions()


class ListsBackwards(Native):
    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        return super().list_segments(partition, min_offset)[::-1]


class ListsFirstPageOnly(Native):
    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        return super().list_segments(partition, min_offset)[:2]


class LeavesOutTheLastOffset(Native):
    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        return [s for s in found if not min_offset or (s.end_offset or 0) > min_offset]


class ListsOnce(Native):
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


class FindsEverythingEmpty(Native):
    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        try:
            return super().list_segments(partition, min_offset)
        except NotFoundError:
            return []


class SeeksTooFar(Native):
    @override
    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        found = super().seek(partition, offset)
        return found[1:] if offset else found


class SurveysTheFirst(Native):
    @override
    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        yield next(iter(super().survey(partition)))


class FearsStrangers(Native):
    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        if any(not entry.key.endswith(".segment") for entry in self.store.list()):
            raise CorruptDataError("what is this?")
        return super().list_partitions(topic)


class TellsNothing(KafkaLocal):
    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        return metadata


class TellsAnotherEnd(Native):
    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        told = super().describe(metadata, indexes)
        return replace(told, end_offset=(told.end_offset or 0) + 1)


class TellsLessWithIndexes(Native):
    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        return super().describe(metadata) if indexes is None else metadata


class ClaimsAPlan(KafkaLocal):
    capabilities = KafkaLocal.capabilities | {Capability.PLAN_FROM_LISTING}


class ClaimsEverything(SingleObject):
    @classmethod
    @override
    def recognises(cls, keys: Collection[str]) -> float:
        return 1.0


class ClaimsTooMuch(SingleObject):
    @classmethod
    @override
    def recognises(cls, keys: Collection[str]) -> float:
        return 100.0 * super().recognises(keys)


class Ranges(Native):
    """Its log is read in a wrong way."""

    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        stop = (metadata.size or 0) if end is None else end
        return self.wrong(metadata, start, stop, layout)

    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        raise NotImplementedError


class TakesTheEndAsIncluded(Ranges):
    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        end = min(end + 1, metadata.size or 0)
        return self.inner.fetch_log_segment(metadata, start, end, layout=layout)


class CutsRanges(Ranges):
    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        end = min(end, metadata.size or 0)
        return self.inner.fetch_log_segment(metadata, min(start, end), end)


class CountsFromTheEnd(Ranges):
    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        if start < 0:
            return self.inner.fetch_log_segment(metadata)[start:end]
        return self.inner.fetch_log_segment(metadata, start, end)


class LetsWrite(Ranges):
    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        found = self.inner.fetch_log_segment(metadata, start, end)
        return memoryview(bytearray(found))


class BelievesTheLayout(Ranges):
    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        found = self.inner.fetch_log_segment(metadata, start, end)
        return memoryview(bytes(len(found))) if layout else found


class FindsMissingLogsEmpty(Ranges):
    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        try:
            return self.inner.fetch_log_segment(metadata, start, end)
        except NotFoundError:
            return memoryview(b"")


class ChangesAByte(Ranges):
    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        found = bytes(self.inner.fetch_log_segment(metadata, start, end))
        return memoryview(found.replace(b"key-3", b"key-4"))


class LosesWhatIsAhead(Native):
    @override
    def fetch_log_ahead(
        self, metadata: SegmentMetadata, start: int, end: int, *, layout: bytes = b""
    ) -> memoryview:
        found = super().fetch_log_ahead(metadata, start, end, layout=layout)
        return found[: max(len(found) - 1, 0)]


class StreamsTooLittle(Native):
    @override
    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        for piece in super().stream_log(metadata):
            yield piece[:-1]


class TakesOutagesForNothing(Native):
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
    @override
    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        try:
            return super().fetch_index(metadata, index_type)
        except StorageUnavailableError as error:
            raise NotFoundError(str(error)) from error


class RaisesItsOwn(Native):
    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        try:
            return super().fetch_all_indexes(metadata)
        except CorruptDataError as error:
            raise IndexError("list index out of range") from error


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
    @override
    def wrong(self, found: SegmentIndexes) -> Mapping[IndexType, memoryview]:
        return {k: found[k][:-4] if k is IndexType.OFFSET else found[k] for k in found}


class LosesTheTransactions(Indexes):
    @override
    def wrong(self, found: SegmentIndexes) -> Mapping[IndexType, memoryview]:
        return {k: found[k] for k in found if k is not IndexType.TRANSACTION}


class FindsMissingIndexesEmpty(Indexes):
    @override
    def wrong(self, found: SegmentIndexes) -> Mapping[IndexType, memoryview]:
        return {k: found.get(k, memoryview(b"")) for k in IndexType}


class GivesAllIndexes(Native):
    @override
    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        return super().fetch_all_indexes(metadata)


class ClaimsOneRequest(KafkaLocal):
    capabilities = KafkaLocal.capabilities | {Capability.SINGLE_REQUEST_INDEXES}


class ClaimsOneWrite(KafkaLocal):
    capabilities = KafkaLocal.capabilities | {Capability.ATOMIC_COPY}


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
    kinds = frozenset({IndexType.TIMESTAMP})


class StoresAnySnapshot(StoresAnyIndex):
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


class TakesNoFiles(Native):
    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        if isinstance(data.log, Path):
            data = LogSegmentData(b"", {})
        return super().copy_log_segment(metadata, data)


class SaysTooMuch(Native):
    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        return super().copy_log_segment(metadata, data) + b"..."


class CopiesOnce(Native):
    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        with suppress(NotFoundError):
            listed = self.list_segments(metadata.partition)
            if metadata.id in {segment.id for segment in listed}:
                raise AlreadyExistsError(str(metadata))
        return super().copy_log_segment(metadata, data)


class GuessesTheEnd(Native):
    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        if metadata.end_offset is None:
            metadata = replace(metadata, end_offset=metadata.start_offset + 19)
        return super().copy_log_segment(metadata, data)


class MakesUpMissingLogs(Native):
    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        if isinstance(data.log, Path) and not data.log.exists():
            data = replace(data, log=b"")
        return super().copy_log_segment(metadata, data)


class LetsEverybodyAppend(Native):
    @override
    def append_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        return self.copy_log_segment(metadata, data)


class ListsHalves(KafkaLocal):
    """Takes a log for a segment; writes it first, and deletes it last."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        files, empty = self._files(partition)
        if empty:
            raise NotFoundError(str(partition))
        return [
            SegmentMetadata(partition, made, start, size=parts["log"].size)
            for (start, made), parts in sorted(files.items())
            if "log" in parts
        ]

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        assert not isinstance(data.log, Path)
        self.store.put(self._key(metadata, "log"), data.log, overwrite=True)
        return super().copy_log_segment(metadata, data)

    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        for suffix in ("index", "timeindex", "snapshot", "txnindex"):
            self.store.delete([self._key(metadata, suffix)])
        super().delete_log_segment(metadata)


class SeesNoLeftovers(KafkaLocal):
    @override
    def scrub(self, partition: TopicIdPartition) -> Iterator[Leftover]:
        yield from ()


class CutsWholeSegments(KafkaLocal):
    @override
    def cancel_copying(self, partition: TopicIdPartition) -> None:
        files, _ = self._files(partition)
        self.store.delete([e.key for parts in files.values() for e in parts.values()])


class WritesAllTheSame(StorageWrapper):
    def __init__(self, inner: RemoteStorageManager) -> None:
        super().__init__(inner)
        self.capabilities = inner.capabilities - {Capability.WRITE}

    @classmethod
    def make(cls, store: ObjectStore) -> "WritesAllTheSame":
        """Open what a broker tiered."""
        filled = read_only(store)
        assert isinstance(filled, StorageWrapper)
        return cls(filled.inner)


class MissesWhatIsGone(Native):
    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        if metadata.id not in {s.id for s in self.list_segments(metadata.partition)}:
            raise NotFoundError(str(metadata))
        super().delete_log_segment(metadata)


class DeletesNothing(Native):
    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        pass


class DeletesTheLogOnly(KafkaLocal):
    @override
    def delete_log_segment(self, metadata: SegmentMetadata) -> None:
        self.store.delete([self._key(metadata, "log")])


class DeletesTheTopic(Native):
    @override
    def delete_partition(self, partition: TopicIdPartition) -> None:
        folder = f"{partition.topic}/"
        self.store.delete([entry.key for entry in self.store.list(folder)])


class LeavesLeftovers(KafkaLocal):
    @override
    def delete_partition(self, partition: TopicIdPartition) -> None:
        with suppress(NotFoundError):
            for segment in self.list_segments(partition):
                self.delete_log_segment(segment)


class AsksAtOnce(Native):
    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        list(store.list())


class HoldsALock(Native):
    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.lock = threading.Lock()


class ComesBackAsAnother(Native):
    @override
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return StorageWrapper, (self.inner,)


class BelongsToAThread(Native):
    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.thread = threading.get_ident()

    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        if threading.get_ident() != self.thread:
            raise RuntimeError("this is not my thread")
        return super().fetch_all_indexes(metadata)


class ChangesItsPolicy(Native):
    @override
    def with_policy(self, policy: RequestPolicy) -> Self:
        self.inner = self.inner.with_policy(policy)
        self.store = self.inner.store
        return self


class IgnoresThePolicy(Native):
    @override
    def with_policy(self, policy: RequestPolicy) -> Self:
        return self


class ClosesWithItsView(Native):
    """As one whose views are closed as the storage itself is."""

    @override
    def with_policy(self, policy: RequestPolicy) -> Self:
        view = super().with_policy(policy)
        view._view = None
        return view

    @override
    def close(self) -> None:
        self.store.delete([entry.key for entry in self.store.list()])


class ClosesTheStore(Native):
    @override
    def close(self) -> None:
        self.store.delete([entry.key for entry in self.store.list()])


BROKEN = [
    Broken(rules.check_empty_storage_lists_nothing, InventsAPartition, "zzz"),
    Broken(
        rules.check_partitions_are_sorted_and_complete,
        ListsPartitionsBackwards,
        "is not sorted",
    ),
    Broken(
        rules.check_partitions_are_sorted_and_complete,
        ForgetsAPartition,
        r"\['orders-1', 'orders-1-0'\], not",
    ),
    Broken(
        rules.check_partitions_are_sorted_and_complete,
        ListsEveryTopic,
        r"Of topic '.*' it returned \['.*-0', ",
    ),
    Broken(rules.check_listing_is_sorted_and_complete, ListsBackwards, "is not sorted"),
    Broken(rules.check_listing_is_sorted_and_complete, ListsFirstPageOnly, ", not "),
    Broken(
        rules.check_listing_is_sorted_and_complete,
        LeavesOutTheLastOffset,
        "From offset 19 on",
    ),
    Broken(rules.check_listing_is_never_stale, ListsOnce, "another storage had copied"),
    Broken(
        rules.check_missing_partition_is_not_found,
        FindsEverythingEmpty,
        r"list_segments returned \[\], not NotFoundError",
    ),
    Broken(rules.check_seek_finds_the_first, SeeksTooFar, "From offset"),
    Broken(rules.check_survey_agrees_with_the_listing, SurveysTheFirst, "it yielded"),
    Broken(rules.check_foreign_objects_are_skipped, FearsStrangers, "what is this"),
    Broken(
        rules.check_description_is_complete,
        TellsNothing,
        "leaves end_offset, max_timestamp_ms, leader_epochs",
    ),
    Broken(
        rules.check_description_is_complete,
        TellsAnotherEnd,
        "returns another end_offset",
    ),
    Broken(
        rules.check_description_is_complete,
        TellsLessWithIndexes,
        "with its indexes it returns",
    ),
    Broken(rules.check_plan_is_in_the_listing, ClaimsAPlan, r"\(end, time\) = \(None"),
    Broken(rules.check_recogniser_knows_its_own, ClaimsEverything, r"For \[\]"),
    Broken(rules.check_recogniser_knows_its_own, ClaimsTooMuch, "answered 100"),
    Broken(rules.check_ranges_are_exact, TakesTheEndAsIncluded, "1 came, 0 were"),
    Broken(rules.check_ranges_are_exact, LosesWhatIsAhead, "ahead from 0 on, 0 bytes"),
    Broken(
        rules.check_ranges_outside_the_log_are_errors,
        CutsRanges,
        r"The range \[0, 1285\)",
    ),
    Broken(
        rules.check_ranges_outside_the_log_are_errors,
        CountsFromTheEnd,
        r"The range \[-1",
    ),
    Broken(rules.check_buffers_are_read_only, LetsWrite, "not a read-only memoryview"),
    Broken(rules.check_stream_is_the_log, StreamsTooLittle, "it yielded 1283 bytes"),
    Broken(rules.check_layout_changes_nothing, BelievesTheLayout, "With the layout"),
    Broken(
        rules.check_missing_segment_is_not_found,
        FindsMissingLogsEmpty,
        "is gone, and its log returned",
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
        rules.check_errors_are_typed,
        RaisesItsOwn,
        "fetch_all_indexes raised IndexError",
    ),
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
    ),
    Broken(
        rules.check_indexes_are_what_was_copied,
        CutsIndexes,
        "OFFSET of .* 20 came, 24 were",
    ),
    Broken(
        rules.check_indexes_are_what_was_copied,
        LosesTheTransactions,
        "TRANSACTION of .* is missing",
    ),
    Broken(
        rules.check_fetch_indexes_equals_one_by_one, GivesAllIndexes, r"asked for \[\]"
    ),
    Broken(
        rules.check_missing_index_is_not_found,
        FindsMissingIndexesEmpty,
        "has no TRANSACTION index",
    ),
    Broken(rules.check_indexes_cost_one_request, ClaimsOneRequest, "cost 5"),
    Broken(rules.check_copied_segment_is_read_back, ChangesAByte, "has other bytes"),
    Broken(rules.check_log_may_be_a_file, TakesNoFiles, "Copied was"),
    Broken(rules.check_custom_metadata_is_small, SaysTooMuch, "it returned b'"),
    Broken(rules.check_copy_is_idempotent, CopiesOnce, "AlreadyExistsError"),
    Broken(rules.check_copy_without_an_end_is_refused, GuessesTheEnd, "returned b'"),
    Broken(
        rules.check_copy_of_a_missing_file_is_not_found,
        MakesUpMissingLogs,
        "not NotFoundError",
    ),
    Broken(
        rules.check_copy_is_visible_only_whole,
        ListsHalves,
        "A copy failed at write 2, and then it was listed",
    ),
    Broken(
        rules.check_leftovers_are_found_and_removed,
        SeesNoLeftovers,
        r"failed at write 2 scrub found \[\], there are",
    ),
    Broken(
        rules.check_leftovers_are_found_and_removed,
        CutsWholeSegments,
        "Of whole segments it removed",
    ),
    Broken(rules.check_copy_is_one_write, ClaimsOneWrite, "It took 5"),
    Broken(rules.check_append_has_one_winner, LetsEverybodyAppend, "'won', 'won'"),
    Broken(
        rules.check_read_only_refuses_to_write,
        WritesAllTheSame.make,
        "copy_log_segment returned",
    ),
    Broken(rules.check_delete_is_idempotent, MissesWhatIsGone, "NotFoundError"),
    Broken(rules.check_deleted_segment_is_gone, DeletesNothing, "After one was del"),
    Broken(rules.check_deleted_segment_is_gone, DeletesTheLogOnly, "objects are left"),
    Broken(
        rules.check_delete_is_seen_whole, ListsHalves, "it was listed, but not whole"
    ),
    Broken(
        rules.check_delete_partition_deletes_all_of_it, DeletesTheTopic, "it listed"
    ),
    Broken(
        rules.check_delete_partition_deletes_all_of_it,
        LeavesLeftovers,
        r"returned \[\]",
    ),
    Broken(rules.check_construction_sends_no_request, AsksAtOnce, "It made 1 calls"),
    Broken(rules.check_storage_pickles, HoldsALock, "cannot pickle"),
    Broken(rules.check_storage_pickles, ComesBackAsAnother, "as StorageWrapper"),
    Broken(rules.check_threads_share_it, BelongsToAThread, "not my thread"),
    Broken(rules.check_policy_is_that_of_the_view, ChangesItsPolicy, "storage itself"),
    Broken(
        rules.check_policy_is_that_of_the_view, IgnoresThePolicy, "The view's policy"
    ),
    Broken(
        rules.check_policy_is_that_of_the_view,
        ClosesWithItsView,
        "A call raised NotFound",
    ),
    Broken(
        rules.check_close_leaves_the_store, ClosesTheStore, "A call raised NotFound"
    ),
]
