"""Plugins that read logs in a wrong way."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    NotFoundError,
    ObjectStore,
    PlannedFetch,
    RequestCounts,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
)
from tieredfs import testing as rules
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.layouts.single_object.object_reader import ObjectReader

__all__ = [
    "BROKEN",
    "LosesTheLastByte",
    "TakesTheEndAsIncluded",
]

_BLOCK_BYTES: Final = 512


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
    """Includes the end of a range, as HTTP does."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        end = min(end + 1, metadata.size or 0)
        return self.inner.fetch_log_segment(metadata, start, end, layout=layout)


class ReturnsWholeBlocks(Ranges):
    """Reads whole blocks, more than it was asked for, and returns what came."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        if start < end < (metadata.size or 0):
            end = min(end - end % -_BLOCK_BYTES, metadata.size or 0)
        return self.inner.fetch_log_segment(metadata, start, end, layout=layout)


class CutsRanges(Ranges):
    """Cuts a range that goes past the end of the log, as a slice does."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        end = min(end, metadata.size or 0)
        return self.inner.fetch_log_segment(metadata, min(start, end), end)


class ReadsIntoTheIndexes(SingleObject):
    """Reads on into the indexes, which follow the log in its object."""

    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        if end is None:
            return super().fetch_log_segment(metadata, start, layout=layout)
        return self.store.get_range(self._object(metadata).path, start, end)


class CountsFromTheEnd(Ranges):
    """Counts a negative start from the end, as a slice does."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        if start < 0:
            return self.inner.fetch_log_segment(metadata)[start:end]
        return self.inner.fetch_log_segment(metadata, start, end)


class LetsWrite(Ranges):
    """Returns bytes that its caller can change."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        found = self.inner.fetch_log_segment(metadata, start, end)
        return memoryview(bytearray(found))


class LetsWriteAhead(SingleObject):
    """Returns bytes that its caller can change where it reads ahead."""

    @override
    def fetch_log_ahead(
        self, metadata: SegmentMetadata, start: int, end: int, *, layout: bytes = b""
    ) -> memoryview:
        found = super().fetch_log_ahead(metadata, start, end, layout=layout)
        return memoryview(bytearray(found))


class StreamsBytes(SingleObject):
    """Streams a log as bytes."""

    @override
    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        yield from map(bytes, super().stream_log(metadata))


class FindsNothingPastTheEnd(Ranges):
    """Takes the rest of a log behind its end for empty."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        if start > end == metadata.size:
            return memoryview(b"")
        return self.inner.fetch_log_segment(metadata, start, end)


class KeepsIndexesForGood(SingleObject):
    """Keeps the indexes that it has read, though their segment may be deleted."""

    def __init__(self, store: ObjectStore) -> None:
        super().__init__(store)
        self.read: dict[SegmentId, SegmentIndexes] = {}

    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        if metadata.id not in self.read:
            self.read[metadata.id] = super().fetch_all_indexes(metadata)
        return self.read[metadata.id]


class DescribesWhatIsGone(KafkaLocal):
    """Takes a segment that is gone for one without an epoch, and without an end."""

    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        try:
            return super().describe(metadata, indexes)
        except NotFoundError:
            end = metadata.start_offset
            return replace(
                metadata, end_offset=end, max_timestamp_ms=-1, leader_epochs=(), size=0
            )


class BelievesTheLayout(Ranges):
    """Reads by a layout that is not the segment's."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        found = self.inner.fetch_log_segment(metadata, start, end)
        return memoryview(bytes(len(found))) if layout else found


class FindsMissingLogsEmpty(Ranges):
    """Takes a log that is gone for an empty one."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        try:
            return self.inner.fetch_log_segment(metadata, start, end)
        except NotFoundError:
            return memoryview(b"")


class ChangesAByte(Ranges):
    """Returns another byte than was stored."""

    @override
    def wrong(
        self, metadata: SegmentMetadata, start: int, end: int, layout: bytes
    ) -> memoryview:
        found = bytes(self.inner.fetch_log_segment(metadata, start, end))
        return memoryview(found.replace(b"key-3", b"key-4"))


class LosesTheLastByte(SingleObject):
    """Loses the last byte of a large segment."""

    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        found = super().fetch_log_segment(metadata, start, end, layout=layout)
        return found[:-1] if len(found) > 1 << 20 else found


class ClaimsRanges(KafkaLocal):
    """Claims that a part of a log costs that part, and reads all of it."""

    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        super().fetch_log_segment(metadata)
        return super().fetch_log_segment(metadata, start, end)


class LosesWhatIsAhead(Native):
    """Returns less than was asked for, where more is allowed."""

    @override
    def fetch_log_ahead(
        self, metadata: SegmentMetadata, start: int, end: int, *, layout: bytes = b""
    ) -> memoryview:
        found = super().fetch_log_ahead(metadata, start, end, layout=layout)
        return found[: max(len(found) - 1, 0)]


class StreamsTooLittle(Native):
    """Loses the last byte of each piece."""

    @override
    def stream_log(self, metadata: SegmentMetadata) -> Iterator[memoryview]:
        for piece in super().stream_log(metadata):
            yield piece[:-1]


class ReadsAheadOfTheEnd(Native):
    """Cuts what is read ahead behind the end, instead of refusing it."""

    @override
    def fetch_log_ahead(
        self, metadata: SegmentMetadata, start: int, end: int, *, layout: bytes = b""
    ) -> memoryview:
        return self.fetch_log_segment(metadata)[start:end]


class PlansNoRequest(Native):
    """Leaves what it fetches out of its plan."""

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
        return PlannedFetch(RequestCounts(), end)


class FindsTheNextBest(SingleObject):
    """Takes the first segment from an offset on for the one that begins there."""

    @override
    def _object(self, metadata: SegmentMetadata) -> ObjectReader:
        if not metadata.custom_metadata:
            metadata = self.list_segments(metadata.partition, metadata.start_offset)[0]
        return super()._object(metadata)


class FindsTheLastAlone(SingleObject):
    """Looks for a segment whose custom metadata are lost at the end of the listing."""

    @override
    def _object(self, metadata: SegmentMetadata) -> ObjectReader:
        if not metadata.custom_metadata:
            found = self.list_segments(metadata.partition)[-1]
            if found.id != metadata.id:
                raise NotFoundError("not found")
            metadata = found
        return super()._object(metadata)


BROKEN: Final = (
    Broken(
        rules.check_custom_metadata_is_needed_for_all_or_none,
        FindsTheNextBest,
        "Without custom metadata, fetch_log_segment of",
    ),
    Broken(
        rules.check_custom_metadata_is_needed_for_all_or_none,
        FindsTheLastAlone,
        "and did not find",
    ),
    Broken(
        rules.check_ranges_are_exact,
        TakesTheEndAsIncluded,
        "returned 1 bytes, expected 0",
        bug="an off-by-one range end",
    ),
    Broken(
        rules.check_ranges_are_exact,
        LosesWhatIsAhead,
        "returned 0 bytes that are not the log",
    ),
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
    Broken(
        rules.check_buffers_are_read_only, LetsWriteAhead, "fetch_log_ahead returned"
    ),
    Broken(rules.check_buffers_are_read_only, StreamsBytes, "stream_log returned b'"),
    Broken(
        rules.check_ranges_outside_the_log_are_errors,
        FindsNothingPastTheEnd,
        r"\[1285, None\) .* returned",
    ),
    Broken(
        rules.check_missing_segment_is_not_found,
        DescribesWhatIsGone,
        "is gone, and describe returned",
    ),
    Broken(
        rules.check_missing_segment_is_not_found,
        KeepsIndexesForGood,
        "is gone, and its offset index returned",
    ),
    Broken(
        rules.check_stream_is_the_log,
        StreamsTooLittle,
        "returned 1283 bytes, expected 1284",
    ),
    Broken(rules.check_layout_changes_nothing, BelievesTheLayout, "With the layout"),
    Broken(
        rules.check_missing_segment_is_not_found,
        FindsMissingLogsEmpty,
        "is gone, and its log returned",
    ),
    Broken(
        rules.check_copied_segment_is_read_back,
        ChangesAByte,
        "first difference is at byte",
    ),
    Broken(
        rules.check_ranges_are_exact,
        ReturnsWholeBlocks,
        "returned 512 bytes, expected 1",
    ),
    Broken(
        rules.check_ranges_outside_the_log_are_errors,
        ReadsIntoTheIndexes,
        "returned <memory",
        bug="a range past the end gives garbage",
    ),
    Broken(
        rules.check_large_log_is_whole,
        LosesTheLastByte,
        "returned 9000647 bytes, expected 9000648",
        bug="loses the last byte of large segments",
    ),
    Broken(rules.check_range_costs_no_more, ClaimsRanges, "For byte 0 of"),
    Broken(
        rules.check_ranges_outside_the_log_are_errors,
        ReadsAheadOfTheEnd,
        r"Reading ahead, the range \[0, 1285\)",
    ),
    Broken(
        rules.check_plan_is_what_is_fetched,
        PlansNoRequest,
        r"Planned were RequestCounts\(verbs=\(\), size=0\)",
    ),
)
