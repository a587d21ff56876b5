"""Verify that a tier is whole: its objects, its indexes, its offsets.

Nothing is repaired or changed. All problems are reported, and never raised.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tieredfs.errors import (
    SEGMENT_ERRORS,
    ErrorKind,
    NotFoundError,
    TieredFSError,
)
from tieredfs.log.planning.columns import may_diverge, overlaps
from tieredfs.log.planning.copies import CopyComparison
from tieredfs.log.planning.errors import (
    describe_dispute,
    describe_gap,
    describe_mixed_states,
)
from tieredfs.log.planning.overlap import Tile, stale_pairs
from tieredfs.log.planning.same_log import LogCopy, are_of_one_log
from tieredfs.log.planning.tiles import (
    disputes,
    gaps,
    lineage_of,
    log_end,
    tile,
)
from tieredfs.log.verify.segment_check import SegmentCheck
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import RemoteStorageManager

__all__ = [
    "Depth",
    "PartitionReport",
    "Problem",
    "Superseded",
    "verify",
    "verify_history",
]

_MAX_CONCURRENCY: Final = 4


class Depth(IntEnum):
    """How much of a tier is read."""

    LISTING = 1
    """Names and sizes, and whether the offsets have gaps."""

    INDEXES = 2
    """Indexes and manifests as well."""

    EVERYTHING = 3
    """Every byte of every log as well, and whether its indexes agree with it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a tier.

    Attributes:
        partition: The partition.
        kind: The kind of error that a reader would get.
        detail: Description, with the name of the object or the offsets.
    """

    partition: TopicIdPartition
    kind: ErrorKind
    detail: str


@dataclass(frozen=True, slots=True)
class Superseded:
    """A segment that serves no offset, because other segments have all of its offsets.

    It is whole, and could be deleted: another copy has its records, is their later
    state, or is of the history with which a new leader has replaced this one.

    Attributes:
        segment: The segment.
        by: The first segment that serves its offsets.
    """

    segment: SegmentMetadata
    by: SegmentMetadata


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """The result of verifying one partition.

    Attributes:
        partition: The partition.
        segments: Number of segments that were checked.
        size: Bytes of their logs, as far as they are known.
        problems: The problems; empty if all is well.
        superseded: Segments from which no reader gets any record, which is not a
            problem.
    """

    partition: TopicIdPartition
    segments: int
    size: int
    problems: tuple[Problem, ...]
    superseded: tuple[Superseded, ...] = ()


def verify(
    storage: RemoteStorageManager,
    partitions: Iterable[TopicIdPartition],
    depth: Depth = Depth.INDEXES,
    *,
    progress: Callable[[SegmentMetadata], object] = lambda _: None,
) -> list[PartitionReport]:
    """Verify partitions: whole objects, consistent indexes, offsets without gaps.

    Args:
        storage: The tier.
        partitions: The partitions to check.
        depth: How much to read.
        progress: Called with each segment when it has been checked, from several
            threads.

    Returns:
        A report of each partition.

    Raises:
        StorageUnavailableError: The store failed in all attempts of its policy, so
            there is no result.
    """
    return [
        _PartitionCheck(storage, partition, depth).run(progress)
        for partition in partitions
    ]


def verify_history(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> tuple[Problem, ...]:
    """Verify what the segments of a partition are together: its listing, one log.

    With what ``SegmentCheck`` finds in each of them it is what ``verify`` finds.

    Args:
        storage: The tier.
        partition: The partition to check.

    Raises:
        StorageUnavailableError: As in ``verify``.
    """
    return _PartitionCheck(storage, partition, Depth.EVERYTHING).run_history()


class _PartitionCheck:
    """Check one partition."""

    def __init__(
        self, storage: RemoteStorageManager, partition: TopicIdPartition, depth: Depth
    ) -> None:
        self._storage = storage
        self._partition = partition
        self._depth = depth
        self._check = SegmentCheck(storage, reads_logs=depth is Depth.EVERYTHING)
        self._compare = CopyComparison(storage)
        self._problems: list[Problem] = []
        self._superseded: list[Superseded] = []
        self._notes_segments = True

    def run_history(self) -> tuple[Problem, ...]:
        """Check the segments together, and none of them by itself."""
        self._notes_segments = False
        pool = DaemonExecutor(_MAX_CONCURRENCY, "tieredfs-verify")
        try:
            self._check_history(pool)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
        return tuple(dict.fromkeys(self._problems))

    def run(self, progress: Callable[[SegmentMetadata], object]) -> PartitionReport:
        """Check every segment, several concurrently."""

        def look(
            before: SegmentMetadata | None, segment: SegmentMetadata
        ) -> list[Problem]:
            wrong = list(self._problems_of(segment, before))
            progress(segment)
            return wrong

        pool = DaemonExecutor(_MAX_CONCURRENCY, "tieredfs-verify")
        try:
            segments = self._check_history(pool)
            for wrong in pool.map(look, (None, *segments), segments):
                self._problems += wrong
        finally:
            # Neither an error nor Ctrl-C waits for the requests in progress.
            pool.shutdown(wait=False, cancel_futures=True)
        size = sum(segment.size or 0 for segment in segments)
        return PartitionReport(
            self._partition,
            len(segments),
            size,
            tuple(dict.fromkeys(self._problems)),  # segments may share a file
            tuple(self._superseded),
        )

    def _check_history(self, pool: DaemonExecutor) -> list[SegmentMetadata]:
        """Check the segments together, and return those that can be described."""
        segments = self._with_needed_fields(
            pool, self._survey(), self._needs_description
        )
        if overlaps(segments) or self._may_diverge(segments):
            # Only their epochs determine which one counts.
            segments = self._with_needed_fields(pool, segments, _lacks_epochs)
        self._note_history(segments)
        return segments

    def _may_diverge(self, segments: Sequence[SegmentMetadata]) -> bool:
        """Return whether segments, as listed, may be of different histories."""
        return may_diverge(
            segments, self._storage.highest_epoch, self._storage.describe
        )

    def _survey(self) -> list[SegmentMetadata]:
        """Return the segments that are whole according to a listing."""
        found: list[SegmentMetadata] = []
        try:
            for one in self._storage.survey(self._partition):
                if isinstance(one, SegmentMetadata):
                    found.append(one)
                else:
                    self._note(one)
        except SEGMENT_ERRORS as error:
            self._note(error)
        except NotFoundError:  # removed since it was listed, or only foreign objects
            return []
        return sorted(found, key=lambda segment: segment.start_offset)

    def _with_needed_fields(
        self,
        pool: DaemonExecutor,
        segments: Iterable[SegmentMetadata],
        lacks: Callable[[SegmentMetadata], bool],
    ) -> list[SegmentMetadata]:
        """Return the segments with all needed fields.

        A segment that cannot be described is returned as it was listed, if its end
        offset is listed: its problem is reported when it is checked.
        """

        def described(segment: SegmentMetadata) -> SegmentMetadata | TieredFSError:
            try:
                return self._storage.describe(segment) if lacks(segment) else segment
            except (*SEGMENT_ERRORS, NotFoundError) as error:
                return error if segment.end_offset is None else segment

        known: list[SegmentMetadata] = []
        for one in pool.map(described, segments):
            if isinstance(one, SegmentMetadata):
                known.append(one)
            else:
                self._note_segment(one)
        return known

    def _needs_description(self, segment: SegmentMetadata) -> bool:
        """Return whether a segment has to be described before it is checked."""
        sizes = self._depth is not Depth.LISTING
        return segment.end_offset is None or (sizes and segment.size is None)

    def _note_history(self, segments: Sequence[SegmentMetadata]) -> None:
        """Record what is wrong with the segments as one log: see ``overlap``."""
        try:
            tiles = tile(
                segments,
                segments[0].start_offset if segments else 0,
                log_end(segments),
                skip_gaps=True,
                compare=self._compare,
                url=self._storage.store.url,
            )
            stale = list(stale_pairs(tiles, lineage_of(segments), self._compare))
            disputed_ends = disputes(segments, self._compare)
        except (*SEGMENT_ERRORS, NotFoundError) as error:
            self._note_segment(error)  # a log had to be read, to compare it
            return
        for start, end in gaps(tiles, segments[0].start_offset if segments else 0):
            self._note_history_problem(describe_gap(start, end))
        for shorter, longer in disputed_ends:
            self._note_history_problem(describe_dispute(shorter, longer))
        for older, later in stale:
            self._note_history_problem(describe_mixed_states(older, later))
        served = {tile.segment for tile in tiles}
        for segment in segments:
            holds_offsets = (segment.end_offset or 0) >= segment.start_offset
            if holds_offsets and segment not in served:
                self._note_unserved(segment, tiles)
        if self._depth is Depth.EVERYTHING:
            self._note_other_logs(segments, tiles)

    def _note_unserved(self, segment: SegmentMetadata, tiles: Sequence[Tile]) -> None:
        first, last = segment.start_offset, segment.end_offset or 0
        by = (one for one, start, stop in tiles if start <= last and stop > first)
        other = next(by, None)
        if other is not None:
            self._superseded.append(Superseded(segment, other))
        else:
            self._note_history_problem(
                f"none of the offsets of {segment} are served: its leader epochs are "
                "not those of the log"
            )

    def _note_other_logs(
        self, segments: Sequence[SegmentMetadata], tiles: Sequence[Tile]
    ) -> None:
        """Record segments with other records than those that serve their offsets."""
        starts = [tile.start for tile in tiles]
        for segment in segments:
            first = segment.start_offset
            behind = bisect_right(starts, segment.end_offset or 0)
            for served, _, stop in (tiles[at] for at in range(behind - 1, -1, -1)):
                if stop <= first:
                    break
                if served.id == segment.id:
                    continue
                same = self._are_of_one_log(segment, served)
                if same is False:
                    self._note_history_problem(
                        f"{segment} and {served} have other records at the same "
                        "offsets: one of them is of another log"
                    )
                if same is not None:
                    break

    def _are_of_one_log(
        self, one: SegmentMetadata, other: SegmentMetadata
    ) -> bool | None:
        try:
            return are_of_one_log(
                LogCopy.stored(self._storage, one),
                LogCopy.stored(self._storage, other),
            )
        except (*SEGMENT_ERRORS, NotFoundError):
            return None  # a segment's own problem is reported when it is checked

    def _note_history_problem(self, detail: str) -> None:
        where = f"{self._storage.store.url}: {self._partition}: "
        if str(self._partition) in detail:
            where = f"{self._storage.store.url}: "
        self._problems.append(
            Problem(self._partition, ErrorKind.CORRUPT_DATA, where + detail)
        )

    def _problems_of(
        self, segment: SegmentMetadata, before: SegmentMetadata | None
    ) -> Iterator[Problem]:
        """Yield the problems of one segment."""
        if self._depth is Depth.LISTING:
            return
        try:
            for error in self._check.problems(segment, before):
                yield self._problem(error)
        except SEGMENT_ERRORS as error:
            yield self._problem(error)
        except NotFoundError as error:
            if self._is_listed(segment):  # not removed by retention meanwhile
                yield self._problem(error)

    def _is_listed(self, segment: SegmentMetadata) -> bool:
        try:
            listed = self._storage.list_segments(self._partition)
        except NotFoundError:
            return False
        return any(
            (one.id, one.start_offset, one.end_offset)
            == (segment.id, segment.start_offset, segment.end_offset)
            or (one.id == segment.id and one.end_offset is None)
            for one in listed
        )

    def _problem(self, error: TieredFSError) -> Problem:
        return Problem(self._partition, error.kind, str(error))

    def _note_segment(self, error: TieredFSError) -> None:
        """Record what a check of the segment itself finds as well."""
        if self._notes_segments:
            self._note(error)

    def _note(self, error: TieredFSError) -> None:
        self._problems.append(self._problem(error))


def _lacks_epochs(segment: SegmentMetadata) -> bool:
    return segment.leader_epochs is None
