"""What a migration will do: how many segments, bytes and requests, by partition."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from tieredfs.errors import (
    SEGMENT_ERRORS,
    NotFoundError,
)
from tieredfs.log.migrate.chosen_segments import OffsetRange, parse_range
from tieredfs.log.migrate.concurrent_tasks import all_done
from tieredfs.log.migrate.places import check_places, check_topic_ids
from tieredfs.log.migrate.stored_copies import compare_partition
from tieredfs.log.push.outcome import FailedPartition
from tieredfs.log.read.scan_bounds import Position
from tieredfs.model import IndexType, SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.content import PIECE_BYTES
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = ["PartitionPlan", "plan_migration", "planned_reads", "planned_writes"]

_CONCURRENCY: Final = 4
_ALWAYS: Final = len(IndexType) - 1
"""Indexes of a segment without aborted transactions."""


@dataclass(frozen=True, slots=True)
class PartitionPlan:
    """What is to be copied of a partition.

    Attributes:
        partition: The partition.
        segments: Segments to copy. Of a log directory all closed ones are counted: only
            their content shows which the target has.
        present: Segments that the target has. In a layout without ids those count whose
            offsets and size it has: whether they are of another log is not known.
        size: Bytes of the logs to copy; None if one is not known.
        reads: About how many requests will read: of indexes and logs in the source, and
            of the copies, which are read back.
        writes: About how many requests will write, as far as the capabilities of the
            layout show that.
        failures: What cannot be listed.
    """

    partition: TopicIdPartition
    segments: int
    present: int
    size: int | None
    reads: int
    writes: int
    failures: tuple[FailedPartition, ...] = ()


def plan_migration(
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    partitions: Sequence[TopicIdPartition],
    *,
    start: Position = None,
    end: Position = None,
) -> list[PartitionPlan]:
    """Find out what ``migrate`` with the same arguments would copy now.

    Nothing is written, and no log is read. Both places are listed, and segments whose
    size is not listed are described.

    Args:
        source: As in ``migrate``.
        target: As in ``migrate``.
        partitions: As in ``migrate``.
        start: As in ``migrate``.
        end: As in ``migrate``.

    Returns:
        A plan for each partition.

    Raises:
        InvalidArgumentError: As in ``migrate``.
        UnsupportedOperationError: ``target`` is read only.
        StorageUnavailableError: A store failed in all attempts of its policy.
    """
    check_places(source, target)
    check_topic_ids(target, partitions)
    wanted = parse_range(start, end, partitions)
    pool = DaemonExecutor(_CONCURRENCY, "tieredfs-migrate")
    try:
        return all_done(
            pool, [partial(_plan, source, target, one, wanted) for one in partitions]
        )
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def planned_reads(
    source: RemoteStorageManager, target: RemoteStorageManager, size: int
) -> int:
    """Return about how many requests read a segment, and then its copy.

    Args:
        source: Where it is.
        target: Where it goes.
        size: Bytes of its log.
    """
    has_all = Capability.SINGLE_REQUEST_INDEXES in source.capabilities
    has_ends = Capability.PLAN_FROM_LISTING in source.capabilities
    described = (1 if has_all else len(IndexType)) + (0 if has_ends else 1)
    return described + _log_reads(source, size) + _log_reads(target, size)


def planned_writes(target: RemoteStorageManager, size: int) -> int:
    """Return about how many requests write a segment.

    Args:
        target: Where it goes.
        size: Bytes of its log.
    """
    options = target.store.options
    others = 0 if Capability.ATOMIC_COPY in target.capabilities else _ALWAYS
    if target.store.is_local or size <= options.multipart_threshold_bytes:
        return 1 + others
    return 2 + -(-size // (options.part_bytes or PIECE_BYTES)) + others


def _log_reads(storage: RemoteStorageManager, size: int) -> int:
    """Return about how many requests read a log: its pieces, and what checks them.

    Where all indexes are in one object with the log, its end is read first.
    """
    has_tail = Capability.SINGLE_REQUEST_INDEXES in storage.capabilities
    return -(-size // PIECE_BYTES) + (1 if has_tail else 0)


def _plan(
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    partition: TopicIdPartition,
    wanted: OffsetRange,
) -> PartitionPlan:
    chosen, copies = compare_partition(source, target, partition, wanted)
    closed = [one for one in chosen.segments if not source.is_active(one)]
    missing = [
        one
        for one in closed
        if copies.find_by_id(one) is None and copies.find_by_offsets(one) is None
    ]
    sizes = [_size(source, segment) for segment in missing]
    known = [0 if size is None else size for size in sizes]
    return PartitionPlan(
        partition,
        len(missing),
        len(closed) - len(missing),
        None if None in sizes else sum(known),
        sum(planned_reads(source, target, size) for size in known),
        sum(planned_writes(target, size) for size in known),
        tuple(FailedPartition(partition, error) for error in chosen.errors),
    )


def _size(source: RemoteStorageManager, segment: SegmentMetadata) -> int | None:
    if segment.size is not None:
        return segment.size
    try:
        return source.describe(segment).size
    except (NotFoundError, *SEGMENT_ERRORS):
        return None  # what is wrong is reported when it is copied
