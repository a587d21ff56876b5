"""Plugins that list in a wrong way."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    Capability,
    InvalidArgumentError,
    NotFoundError,
    RemoteStorageManager,
    SegmentIndexes,
    SegmentMetadata,
    TieredFSError,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.storage import SegmentTable
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["BROKEN", "ListsOnePage"]


class InventsAPartition(Native):
    """Lists a partition that nothing was copied to."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return [*super().list_partitions(topic), TopicIdPartition("zzz", 0)]


class ListsPartitionsBackwards(Native):
    """Lists partitions in the order in which a stack gives them back."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return super().list_partitions(topic)[::-1]


class ForgetsAPartition(Native):
    """Takes the first entry of a listing for the folder itself."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return super().list_partitions(topic)[1:]


class ListsEveryTopic(Native):
    """Does not look at the topic that it is asked for."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return super().list_partitions()


class ListsBackwards(Native):
    """Lists the newest segment first."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        return super().list_segments(partition, min_offset)[::-1]


class ListsFirstPageOnly(Native):
    """Asks for one page of a listing, of two segments."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        return super().list_segments(partition, min_offset)[:2]


class ListsOnePage(SingleObject):
    """Asks for one page of a listing, of 1000 objects as S3 has them."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        return super().list_segments(partition, min_offset)[:1000]


class FindsPartitionsOnOnePage(SingleObject):
    """Looks for partitions among the first 1000 objects."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        found = super().list_partitions(topic)
        page = [entry.key for entry in islice(self.store.list(), 1000)]
        folders = [f"{one.topic}/{one.topic_id}/{one.partition}/" for one in found]
        return [
            one
            for one, folder in zip(found, folders, strict=True)
            if any(key.startswith(folder) for key in page)
        ]


class LeavesOutTheLastOffset(Native):
    """Takes an inclusive end offset for an exclusive one."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        return [s for s in found if not min_offset or (s.end_offset or 0) > min_offset]


class FindsEverythingEmpty(Native):
    """Takes a partition that is missing for an empty one."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        try:
            return super().list_segments(partition, min_offset)
        except NotFoundError:
            return []


class ListsByAnyFile(KafkaLocal):
    """Takes any file for a segment, those of an incomplete copy too."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        files, empty = self._files(partition)
        if empty:
            raise NotFoundError(str(partition))
        return [
            SegmentMetadata(
                partition, made, start, size=parts["log"].size if "log" in parts else 0
            )
            for (start, made), parts in sorted(files.items())
        ]


class BeginsBehindTheFirstOffset(SingleObject):
    """Leaves out a segment that ends at offset 0, unless it is asked for."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 1
    ) -> list[SegmentMetadata]:
        return super().list_segments(partition, min_offset)


class SeeksTooFar(Native):
    """Begins after the segment that is sought."""

    @override
    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        found = super().seek(partition, offset)
        return found[1:] if offset else found


class SurveysTheFirst(Native):
    """Ends a survey after one segment."""

    @override
    def survey(
        self, partition: TopicIdPartition
    ) -> Iterator[SegmentMetadata | TieredFSError]:
        yield next(iter(super().survey(partition)))


class TellsNothing(KafkaLocal):
    """Does not read what the listing lacks."""

    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        return metadata


class TellsAnotherEnd(Native):
    """Returns the end offset as an exclusive one."""

    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        told = super().describe(metadata, indexes)
        return replace(told, end_offset=(told.end_offset or 0) + 1)


class TellsLessWithIndexes(Native):
    """Believes that the indexes say all."""

    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        return super().describe(metadata) if indexes is None else metadata


class ClaimsAPlan(KafkaLocal):
    """Claims what its listing does not have."""

    capabilities = KafkaLocal.capabilities | {Capability.PLAN_FROM_LISTING}


class SeeksWhatContainsIt(Native):
    """Finds nothing from an offset on that is in no segment."""

    @override
    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        found = super().seek(partition, 0)
        ends = ((one, one.end_offset or 0) for one in found)
        return [one for one, end in ends if one.start_offset <= offset <= end]


class YieldsItsPartitions(Native):
    """Returns an iterator where the contract has a list."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        return iter(super().list_partitions(topic))  # type: ignore[return-value]  # that is the bug


class SeeksAFixedNumber(Native):
    """Returns 500 segments, whichever are the copies of the last ones."""

    @override
    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        return super().list_segments(partition, offset)[:500]


class LooksIntoEveryTopic(SingleObject):
    """Looks into each topic, whichever it is asked for."""

    @override
    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        for one in self.store.list(delimiter="/"):
            if one.is_prefix:
                next(self.store.list(one.key), None)
        return super().list_partitions(topic)


class RefusesToSeekPastTheEnd(Native):
    """Takes an offset at which nothing ends any more for a mistake."""

    @override
    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        try:
            return super().seek(partition, offset)
        except NotFoundError as error:
            raise InvalidArgumentError(str(error)) from error


class SeeksTheFirstAndTheLast(Native):
    """Seeks where to begin and where to end, and returns nothing between."""

    @override
    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        found = super().seek(partition, offset)
        return [found[0], found[-1]] if len(found) > 2 else found


class ForgetsTheLastLazily(Native):
    """Leaves out the last segment of a listing in columns."""

    @override
    def list_segments_lazily(
        self, partition: TopicIdPartition
    ) -> Sequence[SegmentMetadata]:
        return super().list_segments_lazily(partition)[:-1]


class _Later(Sequence[SegmentMetadata]):
    """Lists a partition whenever it is looked into."""

    def __init__(
        self, storage: RemoteStorageManager, partition: TopicIdPartition
    ) -> None:
        self.storage = storage
        self.partition = partition

    def __len__(self) -> int:
        return len(self.storage.list_segments(self.partition))

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 - as a list has it
        return self.storage.list_segments(self.partition)[index]


class ListsTooLazily(KafkaLocal):
    """Lists nothing until it is looked into."""

    @override
    def list_segments_lazily(
        self, partition: TopicIdPartition
    ) -> Sequence[SegmentMetadata]:
        return _Later(self, partition)


class TakesEndsForExclusive(SingleObject):
    """Has in a column the offsets after the segments' last ones."""

    @override
    def list_segments_lazily(
        self, partition: TopicIdPartition
    ) -> Sequence[SegmentMetadata]:
        found = super().list_segments_lazily(partition)
        assert isinstance(found, SegmentTable)
        return replace(found, end_offsets=found.end_offsets + 1)


class TakesOffsetsForFloats(Native):
    """Reads offsets as JSON's numbers, which are exact up to 2**53."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        return [replace(s, start_offset=int(float(s.start_offset))) for s in found]


class ReadsFourteenDigits(Native):
    """Reads names whose offsets have up to 14 digits."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        found = super().list_segments(partition, min_offset)
        return [one for one in found if one.start_offset < 10**14]


BROKEN: Final = (
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
    Broken(
        rules.check_listing_is_sorted_and_complete,
        ListsBackwards,
        "is not sorted",
        bug="an unsorted listing",
    ),
    Broken(rules.check_listing_is_sorted_and_complete, ListsFirstPageOnly, ", not "),
    Broken(
        rules.check_listing_is_sorted_and_complete,
        LeavesOutTheLastOffset,
        "From offset 19 on",
    ),
    Broken(
        rules.check_listing_is_sorted_and_complete,
        BeginsBehindTheFirstOffset,
        r", not \[\(0, ",
    ),
    Broken(
        rules.check_missing_partition_is_not_found,
        FindsEverythingEmpty,
        r"list_segments returned \[\], not NotFoundError",
    ),
    Broken(rules.check_seek_finds_the_first, SeeksTooFar, "From offset"),
    Broken(
        rules.check_partitions_are_sorted_and_complete,
        LooksIntoEveryTopic,
        r"'nowhere' may not be read, and list_partitions\('orders'\) raised",
    ),
    Broken(
        rules.check_seek_finds_the_first,
        RefusesToSeekPastTheEnd,
        "A call raised InvalidArgumentError",
    ),
    Broken(
        rules.check_seek_finds_the_first,
        SeeksTheFirstAndTheLast,
        r"up to offset 59, without \[\(20, ",
    ),
    Broken(rules.check_lazy_listing_is_the_list, ForgetsTheLastLazily, "it returned"),
    Broken(
        rules.check_lazy_listing_is_the_list,
        TakesEndsForExclusive,
        "its columns are",
    ),
    Broken(rules.check_lazy_listing_is_the_list, ListsTooLazily, r"returned \d+ more"),
    Broken(rules.check_survey_agrees_with_the_listing, SurveysTheFirst, "it yielded"),
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
    Broken(
        rules.check_listing_has_every_page,
        ListsOnePage,
        "Of 1001 segments list_segments returned 1000",
        bug="a listing that is incomplete beyond one page",
    ),
    Broken(
        rules.check_listing_has_every_page,
        FindsPartitionsOnOnePage,
        r"list_partitions returned \['orders-0', 'orders-1-0'\], not",
    ),
    Broken(
        rules.check_partitions_are_sorted_and_complete,
        YieldsItsPartitions,
        "list_partitions returned <list_iterator .*, not a list",
    ),
    Broken(
        rules.check_listing_has_every_page,
        SeeksAFixedNumber,
        "seek from 0 on returned 500, up to 166, without",
    ),
    Broken(
        rules.check_dead_copy_is_not_listed,
        ListsByAnyFile,
        "A copy died at write 2",
        bug="a listing that includes incomplete segments",
    ),
    Broken(rules.check_seek_finds_the_first, SeeksWhatContainsIt, r"returned \[\]"),
    Broken(
        rules.check_listing_is_sorted_and_complete,
        TakesOffsetsForFloats,
        "9223372036854775808",
    ),
    Broken(
        rules.check_listing_is_sorted_and_complete,
        ReadsFourteenDigits,
        ", not .*1000000000000000",
    ),
)
