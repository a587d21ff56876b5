"""The log of one partition as one listing shows it: where a query begins and ends."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tieredfs.errors import InvalidArgumentError
from tieredfs.log.planning.columns import ends_of, starts_of
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.stable_offset import stable_offset
from tieredfs.log.read.reader import Bounds, TieredReader, bounds_of
from tieredfs.log.read.times import find_offset
from tieredfs.model import SegmentMetadata
from tieredfs.spark.options import SourceOptions
from tieredfs.spark.positions import EARLIEST, LATEST, Position
from tieredfs.spark.ranges import OffsetRange
from tieredfs.spark.stream_offset import PartitionName
from tieredfs.topic import Topic

__all__ = ["PartitionLog", "list_log"]


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log of one partition, as it was listed.

    Attributes:
        options: What was asked for.
        topic: The topic.
        reader: The partition.
        segments: All of its segments, or at least those that have ``listed_from - 1``
            and later offsets.
        held: First offset and end (exclusive) of these segments.
        latest: What latest means: the end of the log, or its last stable offset.
        listed_from: First offset that can be read from these segments; 0 if all of the
            log was listed.
    """

    options: SourceOptions
    topic: Topic
    reader: TieredReader
    segments: Sequence[SegmentMetadata]
    held: Bounds
    latest: int
    listed_from: int = 0

    @property
    def name(self) -> PartitionName:
        """The topic's name and the partition's number."""
        return self.topic.name, self.reader.partition.partition

    def covers(self, start: int, end: int) -> bool:
        """Return whether the offsets ``[start, end)`` can be planned without listing.

        They cannot if they begin before the segments that were listed, or end after the
        log ended then.
        """
        return self.listed_from <= start and end <= self.latest

    def offset_at(self, position: Position) -> int:
        """Return the offset at which a query begins, or ends, to read the log.

        A time is looked up. An offset, which may be EARLIEST or LATEST, is returned as
        it was given.

        Raises:
            InvalidArgumentError: All records are older than a start, and that is an
                error.
        """
        offset = position.of(*self.name)
        if not position.is_time:
            return offset
        if offset in {EARLIEST, LATEST}:
            return self.resolve(offset)
        skip_gaps = not self.options.fail_on_data_loss
        found = find_offset(self.reader, self.segments, offset, skip_gaps=skip_gaps)
        if found is not None and found.offset < self.latest:
            return found.offset
        self._check_no_match(position)
        return self.latest

    def resolve(self, offset: int) -> int:
        """Return the offset that EARLIEST or LATEST means; another one is itself."""
        if offset == EARLIEST:
            return self.held.beginning
        return self.latest if offset == LATEST else offset

    def slices(self, start: int, end: int) -> Sequence[SegmentSlice]:
        """Return the segments that have the offsets ``[start, end)``.

        Raises:
            CorruptDataError: No segment has one, and offsets that are gone are an
                error.
        """
        if start >= end:
            return ()
        return self.reader.slices_between(
            self.segments,
            start,
            end,
            skip_gaps=not self.options.fail_on_data_loss,
            located=False,
        )

    def holes(self, start: int, end: int) -> list[OffsetRange]:
        """Return those of the offsets ``[start, end)`` that no segment has."""
        if start >= end:
            return []
        starts, ends = starts_of(self.segments), ends_of(self.segments)
        reached = np.maximum.accumulate(np.concatenate(([start], ends)))
        following = np.minimum(np.concatenate((starts, [end])), end)
        return [
            OffsetRange(*self.name, int(reached[row]), int(following[row]))
            for row in np.flatnonzero(following > reached)
        ]

    def _check_no_match(self, position: Position) -> None:
        """Raise InvalidArgumentError if a start has to be at a record."""
        options = self.options
        if position is options.starting and options.no_match == "error":
            topic, number = self.name
            raise InvalidArgumentError(
                f"option '{position.option}': No offset matched from request of "
                f"topic-partition {topic}-{number} and timestamp "
                f"{position.of(topic, number)}. Set "
                "startingOffsetsByTimestampStrategy to latest to skip this partition."
            )


def list_log(
    options: SourceOptions,
    topic: Topic,
    reader: TieredReader,
    *,
    timed: bool = False,
    start: int = 0,
) -> PartitionLog:
    """List a partition once, so that its bounds and segments are of one moment.

    Args:
        options: What was asked for.
        topic: The topic.
        reader: The partition.
        timed: Whether times are looked up in it.
        start: First offset that will be read. Where the layout can search, segments
            are listed from the one with the offset before ``start`` on: as long as the
            log has that offset, it has not been truncated before ``start``.

    Raises:
        NotFoundError: It was deleted.
        CorruptDataError: A segment is inconsistent with its indexes.
    """
    is_committed = options.isolation == "read_committed"
    if timed or is_committed:
        reader = reader.keeping_indexes()
    listed_from = 0 if timed else start
    if listed_from > 0:
        segments = reader.segments_holding(listed_from - 1)
    else:
        segments = reader.segments(timed=timed)
    held = bounds_of(segments)
    latest = held.end
    if is_committed:
        latest = max(held.beginning, stable_offset(reader.storage, segments))
    return PartitionLog(options, topic, reader, segments, held, latest, listed_from)
