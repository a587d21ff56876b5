"""The segments of a tier that are to be migrated."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tieredfs.errors import (
    SEGMENT_ERRORS,
    NotFoundError,
    TieredFSError,
)
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.scan_bounds import (
    ParsedPosition,
    Position,
    check_order,
    is_time,
    offset_of,
    parse_position,
)
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = [
    "ChosenSegments",
    "OffsetRange",
    "choose_segments",
    "parse_range",
    "without_expired",
]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The records whose segments are migrated.

    Attributes:
        start: First offset or time; None for the beginning of the log.
        end: End (exclusive); None for the end of the log.
    """

    start: ParsedPosition = None
    end: ParsedPosition = None


@dataclass(frozen=True, slots=True)
class ChosenSegments:
    """The segments of a partition that are to be migrated.

    Attributes:
        segments: As the source lists or describes them, sorted by start offset.
        errors: Why segments, or all of the partition, cannot be listed.
    """

    segments: tuple[SegmentMetadata, ...]
    errors: tuple[TieredFSError, ...] = ()

    @property
    def are_names_reused(self) -> bool:
        """Whether names are reused in the source, as in a broker's log directory."""
        return any(segment.version for segment in self.segments)


def parse_range(
    start: Position, end: Position, partitions: Iterable[TopicIdPartition]
) -> OffsetRange:
    """Return a range, checked.

    Raises:
        InvalidArgumentError: A position is invalid, or ``start`` is after ``end`` where
            both are offsets or both are times.
    """
    numbers = {partition.partition for partition in partitions}
    found = OffsetRange(parse_position(start, numbers), parse_position(end, numbers))
    check_order(found.start, found.end, numbers)
    return found


def choose_segments(
    source: RemoteStorageManager, partition: TopicIdPartition, wanted: OffsetRange
) -> ChosenSegments:
    """List the segments of a partition that contain an offset of a range.

    All of them are returned where several have the same offsets. A segment that cannot
    be described, so that its offsets are not known, is returned as well.

    Args:
        source: Where they are.
        partition: The partition, which may have been removed.
        wanted: The range.

    Raises:
        StorageUnavailableError: The store failed in all attempts of its policy.
    """
    segments: list[SegmentMetadata] = []
    errors: list[TieredFSError] = []
    try:
        for one in source.survey(partition):
            if isinstance(one, SegmentMetadata):
                segments.append(one)
            else:
                errors.append(one)
        segments.sort(key=lambda segment: segment.start_offset)
        chosen = _overlapping(source, partition, segments, wanted)
    except NotFoundError:  # removed since it was listed, or only foreign objects
        return ChosenSegments((), tuple(errors))
    except SEGMENT_ERRORS as error:
        return ChosenSegments((), (*errors, error))
    return ChosenSegments(tuple(chosen), tuple(errors))


def without_expired(
    source: RemoteStorageManager,
    chosen: ChosenSegments,
    log_start: int,
    holds_rest: Callable[[int, SegmentMetadata], bool] = lambda _, __: False,
) -> ChosenSegments:
    """Leave out the segments all of whose offsets are below the earliest one kept.

    Args:
        source: Where they are.
        chosen: The segments.
        log_start: The earliest offset that the target keeps.
        holds_rest: Returns whether the target has what a described segment has from an
            offset on; then that segment is left out, too.
    """
    if not log_start:
        return chosen
    catalog = SegmentCatalog(source)

    def has_expired(segment: SegmentMetadata) -> bool:
        if segment.start_offset >= log_start:
            return False
        end = segment.end_offset
        if end is not None and end < log_start:
            return True
        try:
            described = catalog.describe(segment)
        except (NotFoundError, *SEGMENT_ERRORS):
            return False  # what is wrong is reported when it is copied
        end = described.end_offset
        return end is not None and (end < log_start or holds_rest(log_start, described))

    expired = catalog.calls.map(has_expired, chosen.segments)
    kept = tuple(
        segment
        for segment, is_gone in zip(chosen.segments, expired, strict=True)
        if not is_gone
    )
    return ChosenSegments(kept, chosen.errors)


def _overlapping(
    source: RemoteStorageManager,
    partition: TopicIdPartition,
    segments: Sequence[SegmentMetadata],
    wanted: OffsetRange,
) -> list[SegmentMetadata]:
    if wanted == OffsetRange():
        return list(segments)
    catalog = SegmentCatalog(source)
    reader = TieredReader(source, catalog, partition)
    timed: Sequence[SegmentMetadata] = ()
    if is_time(wanted.start) or is_time(wanted.end):
        reader = reader.keeping_indexes()
        timed = reader.segments(timed=True)
    start, end = (
        offset_of(reader, timed, position, skip_gaps=True)
        for position in (wanted.start, wanted.end)
    )

    def described(segment: SegmentMetadata) -> SegmentMetadata:
        is_known = start is None or segment.start_offset >= start
        if is_known or segment.end_offset is not None:
            return segment
        try:
            return catalog.describe(segment)
        except (NotFoundError, *SEGMENT_ERRORS):
            return segment  # what is wrong is reported when it is copied

    before_end = [one for one in segments if end is None or one.start_offset < end]
    return [
        segment
        for segment in catalog.calls.map(described, before_end)
        if start is None
        or segment.end_offset is None
        or max(segment.end_offset, segment.start_offset) >= start
    ]
