"""Look whether a tier is whole: its objects, its indexes, its offsets.

Nothing is repaired or changed. What is wrong is reported, all of it, and never raised.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from tieredfs.errors import (
    CorruptDataError,
    ErrorKind,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.log.planning.copies import CopyComparison
from tieredfs.log.planning.overlap import Tile, stale_pairs
from tieredfs.log.planning.same_log import LogCopy, are_of_one_log
from tieredfs.log.planning.tiles import (
    disputed,
    disputes,
    holes,
    lineage_of,
    log_end,
    may_part,
    mixed,
    overlaps,
    tile,
)
from tieredfs.log.verify.segment_check import SegmentCheck
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import RemoteStorageManager

__all__ = ["Depth", "PartitionReport", "Problem", "Superseded", "verify"]

_AT_ONCE: Final = 4

_UNUSABLE: Final = (CorruptDataError, PermissionDeniedError, UnsupportedFormatError)
"""What is wrong with one object, and hides no other."""


class Depth(IntEnum):
    """How much of a tier is read."""

    LISTING = 1
    """Names and sizes, and whether the offsets have holes."""

    INDEXES = 2
    """Also every index and manifest."""

    EVERYTHING = 3
    """Also every byte of every log, and whether its indexes are true to it."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is wrong.

    Attributes:
        partition: Where.
        kind: The kind of error that a reader would meet.
        detail: What, with the name of the object or the offsets.
    """

    partition: TopicIdPartition
    kind: ErrorKind
    detail: str


@dataclass(frozen=True, slots=True)
class Superseded:
    """A segment none of whose offsets are served, as other segments hold them.

    It is whole, and could be deleted: another copy has its records, is their later
    state, or is of the history that a new leader has put in place of this one.

    Attributes:
        segment: The segment.
        by: The first of those that serve its offsets.
    """

    segment: SegmentMetadata
    by: SegmentMetadata


@dataclass(frozen=True, slots=True)
class PartitionReport:
    """What was looked at of one partition, and what is wrong with it.

    Attributes:
        partition: Which one.
        segments: Segments that were looked at.
        size: Bytes of their logs, as far as was asked.
        problems: What is wrong; nothing if all is well.
        superseded: Segments that no reader is given anything of, which is no problem.
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
    """Verify partitions: objects whole, indexes true to the log, offsets without holes.

    Args:
        storage: The tier.
        partitions: What to look at.
        depth: How much to read.
        progress: Called with each segment when it has been looked at, from several
            threads.

    Returns:
        A report of each partition.

    Raises:
        StorageUnavailableError: The store failed more often than its policy allows:
            nothing can be said.
    """
    return [
        _PartitionCheck(storage, partition, depth).run(progress)
        for partition in partitions
    ]


class _PartitionCheck:
    """Look at one partition."""

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

    def run(self, progress: Callable[[SegmentMetadata], object]) -> PartitionReport:
        """Look at every segment, several at a time."""

        def look(
            before: SegmentMetadata | None, segment: SegmentMetadata
        ) -> list[Problem]:
            wrong = list(self._problems_of(segment, before))
            progress(segment)
            return wrong

        pool = DaemonExecutor(_AT_ONCE, "tieredfs-verify")
        try:
            segments = self._told(pool, self._survey(), self._lacks)
            if overlaps(segments) or self._may_part(segments):
                # Only their epochs say which one counts.
                segments = self._told(pool, segments, _lacks_epochs)
            self._note_history(segments)
            for wrong in pool.map(look, (None, *segments), segments):
                self._problems += wrong
        finally:
            # Neither an error nor Ctrl-C waits for the requests that are under way.
            pool.shutdown(wait=False, cancel_futures=True)
        size = sum(segment.size or 0 for segment in segments)
        return PartitionReport(
            self._partition,
            len(segments),
            size,
            tuple(dict.fromkeys(self._problems)),  # segments may share a file
            tuple(self._superseded),
        )

    def _may_part(self, segments: Sequence[SegmentMetadata]) -> bool:
        """Tell whether segments, as listed, may be of different histories."""
        return may_part(segments, self._storage.highest_epoch, self._storage.describe)

    def _survey(self) -> list[SegmentMetadata]:
        """Return the segments that are whole as far as a listing tells."""
        found: list[SegmentMetadata] = []
        try:
            for one in self._storage.survey(self._partition):
                if isinstance(one, SegmentMetadata):
                    found.append(one)
                else:
                    self._note(one)
        except _UNUSABLE as error:
            self._note(error)
        except NotFoundError:  # removed since it was listed, or strangers' only
            return []
        return sorted(found, key=lambda segment: segment.start_offset)

    def _told(
        self,
        pool: DaemonExecutor,
        segments: Iterable[SegmentMetadata],
        lacks: Callable[[SegmentMetadata], bool],
    ) -> list[SegmentMetadata]:
        """Return the segments with what their listing did not say, where it is needed.

        One that cannot be described stays as it was listed if that says its end: what
        is wrong with it is seen when it is looked at.
        """

        def tell(segment: SegmentMetadata) -> SegmentMetadata | TieredFSError:
            try:
                return self._storage.describe(segment) if lacks(segment) else segment
            except (*_UNUSABLE, NotFoundError) as error:
                return error if segment.end_offset is None else segment

        told: list[SegmentMetadata] = []
        for one in pool.map(tell, segments):
            if isinstance(one, SegmentMetadata):
                told.append(one)
            else:
                self._note(one)
        return told

    def _lacks(self, segment: SegmentMetadata) -> bool:
        """Tell whether a segment has to be described before it is looked at."""
        sizes = self._depth is not Depth.LISTING
        return segment.end_offset is None or (sizes and segment.size is None)

    def _note_history(self, segments: Sequence[SegmentMetadata]) -> None:
        """Note what is wrong with the segments as one log: see ``overlap``."""
        try:
            tiles = tile(
                segments,
                segments[0].start_offset if segments else 0,
                log_end(segments),
                skip_gaps=True,
                compare=self._compare,
                place=self._storage.store.url,
            )
            stale = list(stale_pairs(tiles, lineage_of(segments), self._compare))
            disputed_ends = disputes(segments, self._compare)
        except (*_UNUSABLE, NotFoundError) as error:
            self._note(error)  # a log had to be read, to compare it
            return
        for start, end in holes(tiles, segments[0].start_offset if segments else 0):
            self._note_history_problem(
                f"no segment holds the offsets {start} to {end - 1}"
            )
        for shorter, longer in disputed_ends:
            self._note_history_problem(disputed(shorter, longer))
        for older, later in stale:
            self._note_history_problem(mixed(older, later))
        served = {segment for segment, _, _ in tiles}
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
        """Note segments with other records than those that serve their offsets."""
        starts = [start for _, start, _ in tiles]
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
        except (*_UNUSABLE, NotFoundError):
            return None  # what is wrong with a segment is seen when it is looked at

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
        """Yield what is wrong with one segment."""
        if self._depth is Depth.LISTING:
            return
        try:
            for error in self._check.problems(segment, before):
                yield self._problem(error)
        except _UNUSABLE as error:
            yield self._problem(error)
        except NotFoundError as error:
            if self._is_listed(segment):  # and not removed meanwhile, by retention
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

    def _note(self, error: TieredFSError) -> None:
        self._problems.append(self._problem(error))


def _lacks_epochs(segment: SegmentMetadata) -> bool:
    return segment.leader_epochs is None
