"""Read what the report of a partition needs.

A partition that is damaged is reported as far as it can be read: each segment is
described on its own, and what is wrong is part of the report.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

import pyarrow as pa

from tieredfs.errors import (
    CorruptDataError,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.log.planning.columns import overlaps
from tieredfs.log.planning.copies import CopyComparison
from tieredfs.log.planning.errors import (
    describe_gap,
    dispute_error,
    mixed_states_error,
)
from tieredfs.log.planning.overlap import Compare, Tile, stale_pairs
from tieredfs.log.planning.positions import locate
from tieredfs.log.planning.slice_run import slice_tiles
from tieredfs.log.planning.tiles import disputes, lineage_of, tile
from tieredfs.log.read.fetch import fetch_records
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.log.read.replan import plan_despite_deletes
from tieredfs.log.report.composition import partition_report
from tieredfs.log.report.partition_report import OffsetRange, PartitionReport
from tieredfs.log.report.record_profile import RecordProfile, record_profile
from tieredfs.model import SegmentId, SegmentMetadata

__all__ = ["read_report"]

_OF_DAMAGE: Final = (CorruptDataError, PermissionDeniedError, UnsupportedFormatError)
"""Errors of one segment, after which the next one is still reported."""

_NO_TIMESTAMP: Final = -1

_MAX_EDGES: Final = 4096
"""Edges of the profiles of a partition, all in all: more than a picture can show."""


def read_report(
    reader: TieredReader, *, max_log_bytes: int = 64 << 20
) -> PartitionReport:
    """Read the report of a partition.

    Every segment is described, several concurrently. Logs that are on this machine are
    read, to find the offsets whose records were removed.

    Args:
        reader: The reader of the partition.
        max_log_bytes: Logs are read if they have at most so many bytes in all.

    Raises:
        StorageUnavailableError: The store failed in all attempts of its policy.
        DeadlineExceededError: The store did not answer in time.
    """
    try:
        return plan_despite_deletes(
            partial(_read, max_log_bytes=max_log_bytes, tolerated=_OF_DAMAGE), reader
        )
    except NotFoundError:  # a segment is still listed
        return _read(
            reader, max_log_bytes=max_log_bytes, tolerated=(*_OF_DAMAGE, NotFoundError)
        )


def _read(
    reader: TieredReader,
    *,
    max_log_bytes: int,
    tolerated: tuple[type[TieredFSError], ...],
) -> PartitionReport:
    """Read a report; errors other than those tolerated are raised."""
    attempt = _Attempt(reader, tolerated)
    segments = attempt.described(attempt.listed())
    tiles = attempt.tiles(segments)
    report = partition_report(
        reader.partition,
        segments,
        tiles,
        left_out=attempt.left_out,
        stored_sizes=attempt.stored_sizes(segments),
        profiles=attempt.profiles(segments, max_log_bytes),
    )
    attempt.note_gaps(report.gaps)
    first = attempt.first_timestamp(segments, tiles)
    return replace(report, first_timestamp=first, errors=tuple(attempt.errors))


class _Attempt:
    """Read what can be read of a partition, and keep the errors of the rest."""

    def __init__(
        self, reader: TieredReader, tolerated: tuple[type[TieredFSError], ...]
    ) -> None:
        self._errors: dict[str, TieredFSError] = {}
        self._reader = reader
        self._storage = reader.storage
        self._tolerated = tolerated
        self._compare = CopyComparison(reader.storage)
        self._left_out: list[OffsetRange] = []

    @property
    def errors(self) -> Iterable[TieredFSError]:
        """What is wrong, each error once."""
        return self._errors.values()

    @property
    def left_out(self) -> Collection[OffsetRange]:
        """Offsets of the segments left out; empty where only the first is known."""
        return self._left_out

    def listed(self) -> Sequence[SegmentMetadata]:
        """Return the segments, or, if one is damaged, what the listing has of them."""
        try:
            return self._reader.segments(timed=True)
        except self._tolerated as error:
            self._note(error)
        try:
            return self._storage.list_segments(self._reader.partition)
        except self._tolerated as error:
            self._note(error)
        return self._surveyed()

    def _surveyed(self) -> Sequence[SegmentMetadata]:
        """Return the segments that are whole in a listing in which others are not."""
        found: list[SegmentMetadata] = []
        errors: list[TieredFSError] = []
        try:
            for one in self._storage.survey(self._reader.partition):
                if isinstance(one, SegmentMetadata):
                    found.append(one)
                else:
                    errors.append(one)
        except self._tolerated as last:
            errors.append(last)
        # Two processes may have stored a segment as two objects: one of them is enough.
        whole = {(one.start_offset, (one.end_offset or -1) + 1) for one in found}
        for error in errors:
            if error.offsets is None:
                self._note(error)
            elif error.offsets not in whole:
                self._note(error)
                self._left_out.append(OffsetRange(*error.offsets))
        return sorted(found, key=lambda one: (one.start_offset, one.end_offset or 0))

    def described(self, listed: Sequence[SegmentMetadata]) -> list[SegmentMetadata]:
        """Return the segments with all fields; leave out those without an end offset.

        A damaged segment is returned as it is listed, if the listing has its end.
        """

        def describe(segment: SegmentMetadata) -> SegmentMetadata | TieredFSError:
            if segment.is_described:
                return segment
            try:
                return self._storage.describe(segment)
            except self._tolerated as error:
                return error

        known: list[SegmentMetadata] = []
        described = self._reader.calls.map(describe, listed)
        for segment, found in zip(listed, described, strict=True):
            if isinstance(found, SegmentMetadata):
                known.append(found)
                continue
            self._note(found)
            if segment.end_offset is None:
                start = segment.start_offset
                self._left_out.append(OffsetRange(start, start))
            else:
                known.append(segment)
        return known

    def profiles(
        self, segments: Sequence[SegmentMetadata], max_log_bytes: int
    ) -> Mapping[SegmentMetadata, RecordProfile]:
        """Return how the records of the segments are spread, as far as it is read."""
        is_known = all(one.size is not None for one in segments)
        size = sum(one.size or 0 for one in segments)
        if not (segments and is_known and size <= max_log_bytes):
            return {}
        if not self._storage.store.is_local:
            return {}
        edges = max(2, _MAX_EDGES // len(segments))

        def read(segment: SegmentMetadata) -> RecordProfile | TieredFSError | None:
            try:
                return record_profile(self._storage, segment, edges)
            except self._tolerated as error:
                return error

        profiles: dict[SegmentMetadata, RecordProfile] = {}
        found = self._reader.calls.map(read, segments)
        for segment, one in zip(segments, found, strict=True):
            if isinstance(one, RecordProfile):
                profiles[segment] = one
            elif one is not None:
                self._note(one)
        return profiles

    def tiles(self, segments: Sequence[SegmentMetadata]) -> Sequence[Tile]:
        """Return which segment serves what, and note contradictions.

        Offsets that no segment serves are left out.
        """
        try:
            tiles = self._tiles(segments, self._compare)
        except self._tolerated as error:  # a log had to be read, to compare it
            self._note(error)
            return self._tiles(segments, lambda *_: 0)
        if not overlaps(segments):
            return tiles
        url, compare = self._storage.store.url, self._compare
        try:
            for shorter, longer in disputes(segments, compare):
                self._note(dispute_error(url, shorter, longer))
            for older, later in stale_pairs(tiles, lineage_of(segments), compare):
                self._note(mixed_states_error(url, older, later))
        except self._tolerated as error:
            self._note(error)
        return tiles

    def _tiles(
        self, segments: Sequence[SegmentMetadata], compare: Compare
    ) -> Sequence[Tile]:
        held, url = bounds_of(segments), self._storage.store.url
        return tile(
            segments,
            held.beginning,
            held.end,
            skip_gaps=True,
            compare=compare,
            url=url,
        )

    def note_gaps(self, gaps: Iterable[OffsetRange]) -> None:
        """Note each gap; what may be in a segment left out is part of its own error."""
        for gap in gaps:
            for start, end in self._held_by_no_segment(gap):
                said = describe_gap(start, end)
                if self._left_out:  # the end of one of them may not be known
                    said = said.replace("no segment", "no segment that can be read", 1)
                where = f"{self._storage.store.url}: {self._reader.partition}"
                self._note(CorruptDataError(f"{where}: {said}"))

    def _held_by_no_segment(self, gap: OffsetRange) -> Iterator[OffsetRange]:
        """Yield the parts of a gap that are not those of a segment left out."""
        cursor = gap.start
        for one in sorted(self._left_out):
            if one.start >= gap.end or (one.start < cursor and one.end <= cursor):
                continue
            if cursor < one.start:
                yield OffsetRange(cursor, one.start)
            cursor = one.end if one.size else gap.end
        if cursor < gap.end:
            yield OffsetRange(cursor, gap.end)

    def first_timestamp(
        self, segments: Sequence[SegmentMetadata], tiles: Sequence[Tile]
    ) -> int | None:
        """Return the timestamp of the first record, ms since 1970 UTC, if there is."""
        storage, partition = self._storage, self._reader.partition
        lineage, reached = lineage_of(segments), None
        for one in tiles:
            if one.segment.size is None or reached not in {None, one.start}:
                return None
            reached = one.end
            try:
                slices = slice_tiles(
                    [one], lambda part: locate(storage, *part), lineage
                )
                found = fetch_records(storage, partition, slices, one.start, 1)
            except self._tolerated as error:
                self._note(error)
                return None
            if len(found):
                first = found["timestamp"].cast(pa.int64())[0].as_py()
                return None if first == _NO_TIMESTAMP else int(first)
        return None

    def stored_sizes(
        self, segments: Sequence[SegmentMetadata]
    ) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes that the segments take in the store, as far as is known."""
        try:
            return self._reader.stored_sizes(segments)
        except self._tolerated as error:
            self._note(error)
            return {}

    def _note(self, error: TieredFSError) -> None:
        self._errors.setdefault(str(error), error)
