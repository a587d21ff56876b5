"""Read what the report of a partition needs.

A partition that is damaged is reported as far as it can be read: each segment is
described on its own, and what is wrong is part of the report.
"""

from collections.abc import Iterable, Mapping, Sequence
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
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.log.read.replan import plan_despite_deletes
from tieredfs.log.report.composition import partition_report
from tieredfs.log.report.partition_report import PartitionReport
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
        beginning=attempt.beginning(segments),
        stored_sizes=attempt.stored_sizes(),
        profiles=attempt.profiles(segments, max_log_bytes),
    )
    first = attempt.first_timestamp(tiles)
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
        self._unread: list[SegmentMetadata] = []

    @property
    def errors(self) -> Iterable[TieredFSError]:
        """What is wrong, each error once."""
        return self._errors.values()

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
            return []

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
                self._unread.append(segment)
            else:
                known.append(segment)
        return known

    def beginning(self, segments: Sequence[SegmentMetadata]) -> int:
        """Return the first offset of the segments, and of those left out."""
        starts = [one.start_offset for one in (*segments[:1], *self._unread[:1])]
        return min(starts, default=0)

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
        """Return which segment serves what, and note gaps and contradictions.

        If segments were left out, what they leave missing is not an error of its own.
        """
        held = bounds_of(segments)
        within = segments, held.beginning, held.end
        try:
            found = self._reader.tiles(*within, skip_gaps=True)
        except self._tolerated as error:  # a log had to be read, to compare it
            self._note(error)
            return []
        if self._unread:
            return found
        try:
            self._reader.tiles(*within)
            self._reader.served_tiles(segments)
        except self._tolerated as error:
            self._note(error)
        return found

    def first_timestamp(self, tiles: Sequence[Tile]) -> int | None:
        """Return the timestamp of the first record, ms since 1970 UTC, if there is."""
        if not tiles:
            return None
        try:
            times = self._reader.read(tiles[0].start, max_bytes=1)["timestamp"]
        except self._tolerated as error:
            self._note(error)
            return None
        first = times.cast(pa.int64())[0].as_py() if len(times) else _NO_TIMESTAMP
        return None if first == _NO_TIMESTAMP else int(first)

    def stored_sizes(self) -> Mapping[tuple[int, SegmentId], int]:
        """Return the bytes that the segments take in the store, as far as is known."""
        try:
            return self._storage.stored_sizes(self._reader.partition)
        except self._tolerated as error:
            self._note(error)
            return {}

    def _note(self, error: TieredFSError) -> None:
        self._errors.setdefault(str(error), error)
