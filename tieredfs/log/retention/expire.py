"""Delete the segments of partitions that have expired.

The earliest offset advances in the journal before a segment is deleted, and the journal
also says which segments are to be deleted. So a run that dies is finished by the next
one, and a segment that was deleted is not copied again.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tieredfs.errors import (
    SEGMENT_ERRORS,
    FencedError,
    InvalidArgumentError,
    NotFoundError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.journal import journalled_partitions
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.journal.state import PartitionState
from tieredfs.log.partitions import select_partitions, without_internal
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.retention.partition_expiry import (
    ExpiryPlan,
    delete_expired,
    plan_expiry,
)
from tieredfs.log.retention.plan import Retention
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import wait_for_all
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = ["CONCURRENCY", "ExpiredPartition", "expirable_partitions", "expire"]

CONCURRENCY: Final = 4
"""Default number of partitions that are expired concurrently."""

_FAILURES: Final = (*SEGMENT_ERRORS, FencedError, UnsupportedOperationError)
"""Errors of one partition, without which the others are expired."""


@dataclass(frozen=True, slots=True)
class ExpiredPartition:
    """What has expired of one partition.

    Attributes:
        partition: The partition.
        log_start: The earliest offset that is kept, after an error as far as it was
            noted.
        segments: The segments that were deleted, or are to be, in order.
        error: Why it could not be expired, or not wholly; None if it was.
    """

    partition: TopicIdPartition
    log_start: int = 0
    segments: tuple[SegmentMetadata, ...] = ()
    error: TieredFSError | None = None


def expire(  # noqa: PLR0913 - what expires, how, and by whose clock
    storage: RemoteStorageManager,
    partitions: Sequence[TopicIdPartition],
    retention: Retention,
    *,
    owner: str,
    dry_run: bool = False,
    single_writer: bool = False,
    concurrency: int = CONCURRENCY,
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    progress: Callable[[SegmentMetadata], object] = lambda _: None,
) -> list[ExpiredPartition]:
    """Delete the expired segments of partitions, whole segments from the beginning on.

    The segments of a partition are deleted in the order of ``expired_segments``, so
    that a reader never finds a hole. What an earlier run has noted as expired and has
    not deleted is deleted too. When it returns, the earliest offset of each partition
    is in its journal, and a ``push`` copies nothing below it.

    Args:
        storage: The tier.
        partitions: The partitions.
        retention: What is kept.
        owner: A unique name of this run, which can be part of a key.
        dry_run: Whether to find what has expired, and to change nothing.
        single_writer: Whether the caller vouches that no other manager is alive.
        concurrency: Maximum number of partitions that are expired concurrently.
        now_ms: Returns the time, in milliseconds since 1970.
        progress: Called with each segment that was deleted, from several threads.

    Returns:
        What has expired, in the order of ``partitions``. A partition that cannot be
        expired has an error; the others are expired.

    Raises:
        InvalidArgumentError: ``concurrency`` is below 1.
        UnsupportedOperationError: The layout is read only.
        StorageUnavailableError: The store failed in all attempts of its policy. What
            was begun is finished by the next run: no further segment is deleted.
    """
    if concurrency < 1:
        raise InvalidArgumentError(f"concurrency {concurrency} is below 1")
    if Capability.WRITE not in storage.capabilities:
        raise UnsupportedOperationError(
            f"{storage!r} is read only: nothing can be deleted from it"
        )
    heartbeat, stop = Heartbeat(storage.store, owner), threading.Event()
    work = _Expiry(storage, retention, heartbeat, single_writer, now_ms, progress, stop)
    pool = DaemonExecutor(concurrency, "tieredfs-expire")
    run = work.plan if dry_run else work.run
    with heartbeat.kept():
        try:
            jobs = [pool.submit(run, partition) for partition in partitions]
            wait_for_all(jobs)
            # One that has failed is raised now, while others may still run.
            return [job.result() for job in jobs if job.done()]
        finally:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)


def expirable_partitions(
    storage: RemoteStorageManager, topic: str | None = None
) -> list[TopicIdPartition]:
    """List the partitions that may expire, those included of which nothing is left.

    Args:
        storage: The tier.
        topic: The topic's name; None for all topics but Kafka's internal ones.

    Raises:
        NotFoundError: There is no topic at all, or no such topic.
    """
    journalled = journalled_partitions(storage.store, topic)
    try:
        listed = select_partitions(storage, None if topic is None else [topic])
    except NotFoundError:
        if not journalled:
            raise
        listed = []
    found = sorted({*listed, *journalled})
    return found if topic is not None else without_internal(found)


@dataclass(frozen=True, slots=True)
class _Expiry:
    """Expire one partition after the other."""

    storage: RemoteStorageManager
    retention: Retention
    heartbeat: Heartbeat
    is_only_writer: bool
    now_ms: Callable[[], int]
    progress: Callable[[SegmentMetadata], object]
    stop: threading.Event

    def plan(self, partition: TopicIdPartition) -> ExpiredPartition:
        """Find what has expired of a partition."""
        try:
            plan = self._planned(self._led(partition).state)
        except _FAILURES as error:
            return ExpiredPartition(partition, error=error)
        return ExpiredPartition(partition, plan.log_start, plan.segments)

    def run(self, partition: TopicIdPartition) -> ExpiredPartition:
        """Delete what has expired of a partition."""
        led, error = None, None
        deleted = list[SegmentMetadata]()
        try:
            led = self._led(partition)
            plan = self._planned(led.state)
            state = led.state
            if plan.log_start > state.log_start or plan.segments or state.to_delete:
                for segment in delete_expired(
                    self.storage,
                    led,
                    plan,
                    epoch=None,
                    now_ms=self.now_ms,
                    is_released=True,
                ):
                    deleted.append(segment)
                    self.progress(segment)
                    if self.stop.is_set():  # the call has raised: the next run goes on
                        break
        except _FAILURES as caught:
            error = caught
        # What could not be noted has not expired.
        log_start = 0 if led is None else led.state.log_start
        return ExpiredPartition(partition, log_start, tuple(deleted), error)

    def _led(self, partition: TopicIdPartition) -> LedPartition:
        return LedPartition(
            self.heartbeat, partition, is_only_writer=self.is_only_writer
        )

    def _planned(self, state: PartitionState) -> ExpiryPlan:
        catalog = SegmentCatalog(self.storage)
        return plan_expiry(self.storage, catalog, state, self.retention, self.now_ms())
