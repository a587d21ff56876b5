"""What a partition is made of: its segments, gaps, overlaps and leader epochs."""

from dataclasses import dataclass
from typing import NamedTuple

from tieredfs.errors import TieredFSError
from tieredfs.log.report.record_profile import RecordProfile
from tieredfs.log.report.sums import known_sum
from tieredfs.model import SegmentMetadata, TopicIdPartition

__all__ = [
    "EpochRange",
    "OffsetRange",
    "Overlap",
    "PartitionReport",
    "SegmentReport",
]

_NO_TIMESTAMP = -1


class OffsetRange(NamedTuple):
    """The offsets ``[start, end)``."""

    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.end - self.start


class EpochRange(NamedTuple):
    """The offsets ``[start, end)`` that were written under one leader epoch.

    Attributes:
        epoch: The leader epoch; -1 where it is not known.
        start: First offset.
        end: End (exclusive).
    """

    epoch: int
    start: int
    end: int


class Overlap(NamedTuple):
    """Offsets ``[start, end)`` that several segments have.

    Attributes:
        start: First offset.
        end: End (exclusive).
        copies: Number of segments that have them.
        served_by: The segment that serves them; None if none does.
    """

    start: int
    end: int
    copies: int
    served_by: SegmentMetadata | None


@dataclass(frozen=True, slots=True)
class SegmentReport:
    """A segment, and its part in the log.

    Attributes:
        segment: The segment, whose end offset is known.
        served: The offsets that readers get from it, in order.
        epochs: The leader epochs of its offsets, in order.
        lane: Its lane: segments that share an offset are in different lanes, and where
            several begin at one offset, one that is served has the first.
        stored_size: Bytes that it takes in the store with its indexes, if known.
        profile: How its records are spread over its offsets, if its log was read.
    """

    segment: SegmentMetadata
    served: tuple[OffsetRange, ...]
    epochs: tuple[EpochRange, ...]
    lane: int
    stored_size: int | None = None
    profile: RecordProfile | None = None

    @property
    def start(self) -> int:
        """First offset."""
        return self.segment.start_offset

    @property
    def end(self) -> int:
        """End (exclusive) of its offsets."""
        last = self.segment.end_offset
        return self.start if last is None else last + 1

    @property
    def records(self) -> int | None:
        """Number of its records; None if it is not known."""
        return self.segment.record_count if self.profile is None else self.profile.total

    @property
    def timestamp(self) -> int | None:
        """Its largest timestamp, ms since 1970 UTC; None if it has none."""
        found = self.segment.max_timestamp_ms
        return None if found == _NO_TIMESTAMP else found

    def records_within(self, start: int, end: int) -> float | None:
        """Return about how many records it has at ``[start, end)``; None if not known.

        Args:
            start: First offset, one of the segment's.
            end: End (exclusive).
        """
        if self.profile is not None:
            return self.profile.within(start, end)
        offsets = self.end - self.start
        if self.records is None or not offsets:
            return None
        return self.records * ((end - start) / offsets)


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What one partition is made of, as far as it can be read.

    Attributes:
        partition: The partition.
        segments: Its segments, sorted by start offset.
        gaps: Offsets inside the log that no readable segment serves.
        overlaps: Offsets that several segments have.
        epochs: The leader epochs of what is served.
        first_timestamp: Timestamp of the first record, ms since 1970 UTC, if known.
        errors: Why some of it is missing or cannot be read.
        unreadable: Number of segments that are not among ``segments``, for they cannot
            be read. Their offsets, as far as they are known, are gaps.
    """

    partition: TopicIdPartition
    segments: tuple[SegmentReport, ...] = ()
    gaps: tuple[OffsetRange, ...] = ()
    overlaps: tuple[Overlap, ...] = ()
    epochs: tuple[EpochRange, ...] = ()
    first_timestamp: int | None = None
    errors: tuple[TieredFSError, ...] = ()
    unreadable: int = 0

    @property
    def start(self) -> int:
        """First offset, also where it is missing; 0 without segments."""
        segments = (one.start for one in self.segments[:1])
        return min((*segments, *(gap.start for gap in self.gaps[:1])), default=0)

    @property
    def end(self) -> int:
        """End (exclusive) of the log, also where its last offsets are missing."""
        served = (part.end for one in self.segments for part in one.served)
        return max((*served, *(gap.end for gap in self.gaps)), default=self.start)

    @property
    def reach(self) -> int:
        """End (exclusive) of all offsets, also of segments that are not served."""
        return max((self.end, *(one.end for one in self.segments)))

    @property
    def max_timestamp(self) -> int | None:
        """The largest timestamp of what is served, ms since 1970 UTC, if there is."""
        stamps = (one.timestamp for one in self.segments if one.served)
        return max((stamp for stamp in stamps if stamp is not None), default=None)

    @property
    def size(self) -> int | None:
        """Bytes of the logs; None if that of a segment is not known."""
        return known_sum(one.segment.size for one in self.segments)

    @property
    def stored_size(self) -> int | None:
        """Bytes that the segments take in the store; None if it is not known."""
        return known_sum(one.stored_size for one in self.segments)

    @property
    def lanes(self) -> int:
        """Number of lanes."""
        return 1 + max((one.lane for one in self.segments), default=-1)

    @property
    def emptied(self) -> int | None:
        """Number of offsets that are served, and have no record any more.

        None if it is not known of a segment how many records it has.
        """
        total = 0.0
        for one in self.segments:
            for part in one.served:
                records = one.records_within(*part)
                if records is None:
                    return None
                total += part.size - records
        return max(0, round(total))
