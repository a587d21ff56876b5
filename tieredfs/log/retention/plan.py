"""Decide from which offset on a log is kept.

A pure function of the segments, the limits and the time. Source: KIP-405, and what
``RemoteLogManager`` of Kafka 4 does: segments expire from the beginning of the log, one
after the other, up to the first that none of the limits excludes.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, Self

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import InvalidArgumentError
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.overlap import Tile
from tieredfs.log.planning.tiles import lineage_of, log_end
from tieredfs.model import SegmentId, SegmentMetadata

__all__ = [
    "KEEP_ALL",
    "Retention",
    "expired_segments",
    "expired_until",
    "next_expiry_ms",
]


@dataclass(frozen=True, slots=True)
class Retention:
    """What is kept of a log.

    A segment expires as a whole, when one of the limits excludes all of its records.

    Attributes:
        max_age_ms: Records older than this expire, in milliseconds: Kafka's
            ``retention.ms``. None for no limit. Records without a timestamp have no
            age.
        max_bytes: The log may be this large, in bytes of segments: Kafka's
            ``retention.bytes``. None for no limit.
        start_offset: Records below this offset expire, as after ``DeleteRecords``.
    """

    max_age_ms: int | None = None
    max_bytes: int | None = None
    start_offset: int = 0

    @classmethod
    def of(cls, max_age: timedelta | None, max_bytes: int | None) -> Self:
        """Return what is kept by an age and a size; None for no limit."""
        age = None if max_age is None else max_age // timedelta(milliseconds=1)
        return cls(age, max_bytes)

    def __post_init__(self) -> None:
        """Reject negative limits."""
        for name in ("max_age_ms", "max_bytes", "start_offset"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise InvalidArgumentError(f"{name} {value} is negative")


KEEP_ALL: Final = Retention()
"""No limit."""


def expired_until(
    tiles: Sequence[Tile],
    retention: Retention,
    now_ms: int,
    describe: Callable[[SegmentMetadata], SegmentMetadata],
) -> int | None:
    """Return the offset from which on a log is kept; None if nothing has expired.

    Args:
        tiles: Which segment serves which offsets, in order of offsets: what ``tile``
            returns. A segment that serves none, as one of a leader that lost its last
            records, neither counts nor holds up the others.
        retention: What is kept.
        now_ms: The time, in milliseconds since 1970.
        describe: Returns a segment with every field known; called only for a segment
            whose largest timestamp decides and is not listed.
    """
    excess = 0
    if retention.max_bytes is not None:
        sizes = {tile.segment: tile.segment.size or 0 for tile in tiles}
        excess = sum(sizes.values()) - retention.max_bytes
    last_tile = {tile.segment: number for number, tile in enumerate(tiles)}
    expired: set[SegmentMetadata] = set()
    open_until = -1  # the last tile of the segments that have expired so far
    until: int | None = None
    for number, tile in enumerate(tiles):
        segment = tile.segment
        if segment not in expired:
            size = segment.size or 0
            if not (
                tiles[last_tile[segment]].end <= retention.start_offset
                or _is_too_old(segment, retention, now_ms, describe)
                or (retention.max_bytes is not None and 0 < size <= excess)
            ):
                break
            excess -= size
            expired.add(segment)
            open_until = max(open_until, last_tile[segment])
        if number >= open_until:  # no segment has expired that serves later offsets
            until = tile.end
    return until


def next_expiry_ms(
    tiles: Sequence[Tile],
    kept_from: int,
    retention: Retention,
    describe: Callable[[SegmentMetadata], SegmentMetadata],
) -> int | None:
    """Return when the first segment that is kept becomes too old; None for never.

    Args:
        tiles: As ``expired_until`` takes them.
        kept_from: The earliest offset that is kept.
        retention: What is kept.
        describe: As ``expired_until`` takes it.

    Returns:
        A time in milliseconds since 1970.
    """
    if retention.max_age_ms is None:
        return None
    first = next((tile.segment for tile in tiles if tile.end > kept_from), None)
    newest = None if first is None else _newest(first, describe)
    return None if newest is None or newest < 0 else newest + retention.max_age_ms


def expired_segments(
    segments: Sequence[SegmentMetadata],
    tiles: Sequence[Tile],
    log_start: int,
    noted: Container[SegmentId],
) -> list[SegmentMetadata]:
    """Return the segments that are deleted once a log begins at an offset.

    They are in an order in which a reader finds the rest of the log without a hole
    after each of them: first those that serve nothing, then by the last offset that
    each serves.

    Args:
        segments: All segments of the log, with what decides which of them count.
        tiles: Which of them serves which offsets, of the whole log.
        log_start: The earliest offset that is kept.
        noted: The ids of those that an earlier run has noted as expired.
    """
    served_until = {tile.segment: tile.end for tile in tiles}
    lineage = lineage_of(segments)
    # Beyond the end of a log are records that its last leader did not have.
    is_all = bool(tiles) and log_start >= log_end(segments)

    def is_expired(one: SegmentMetadata) -> bool:
        if is_all or one.id in noted or _is_before(one, log_start):
            return True
        is_served = served_until.get(one, 0) > log_start
        return not is_served and _is_superseded(one, log_start, lineage)

    found = filter(is_expired, segments)
    return sorted(
        found, key=lambda one: (served_until.get(one, 0), one.start_offset, one.id)
    )


def _is_before(segment: SegmentMetadata, offset: int) -> bool:
    """Return whether all offsets of a segment are below one.

    That may be a segment that served no offset, such as one of an earlier leader.
    """
    return segment.end_offset is not None and segment.end_offset < offset


def _is_superseded(
    segment: SegmentMetadata, log_start: int, lineage: LeaderEpochs
) -> bool:
    """Return whether a later leader had none of a segment's offsets that are kept.

    It would be where the log begins, though it has no offset of the log: a hole, or
    where nothing else is left, records that were never part of it.
    """
    start = segment.start_offset
    if start >= log_start:
        return False
    epochs = LeaderEpochs(segment.leader_epochs or ())
    return epochs.agreement_end(lineage, start, end_of(segment)) <= log_start


def _is_too_old(
    segment: SegmentMetadata,
    retention: Retention,
    now_ms: int,
    describe: Callable[[SegmentMetadata], SegmentMetadata],
) -> bool:
    if retention.max_age_ms is None:
        return False
    newest = _newest(segment, describe)
    return newest is not None and 0 <= newest <= now_ms - retention.max_age_ms


def _newest(
    segment: SegmentMetadata, describe: Callable[[SegmentMetadata], SegmentMetadata]
) -> int | None:
    if segment.max_timestamp_ms is not None:
        return segment.max_timestamp_ms
    return describe(segment).max_timestamp_ms
