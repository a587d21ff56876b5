"""Copy the segments of a broker's log to a store, each segment once.

A segment is read whole and checked before anything is written, and its id is a hash of
its content. A segment that was read before and has not changed has the recorded id. So
a second push finds the stored segments and puts nothing, a push from another replica of
the partition is recognised, and a killed push continues where it stopped.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Final

from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    UnsupportedOperationError,
)
from tieredfs.format.index.builder import INTERVAL_BYTES
from tieredfs.log.journal.journal import first_copied_offset, journalled_partitions
from tieredfs.log.push.outcome import (
    PARTITION_FAILURES,
    FailedPartition,
    PushedSegment,
    PushOutcome,
    PushReport,
)
from tieredfs.log.push.partition_push import PartitionPush
from tieredfs.log.push.push_record import PushRecord
from tieredfs.log.push.source_log import listed_segments
from tieredfs.model import TopicIdPartition
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import wait_for_all
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = [
    "CONCURRENCY",
    "FailedPartition",
    "PushOutcome",
    "PushReport",
    "PushedSegment",
    "push",
]

CONCURRENCY: Final = 4
"""Default number of partitions that are copied concurrently."""


def push(  # noqa: PLR0913 - what is copied, how, and who watches
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    partitions: Sequence[TopicIdPartition],
    *,
    active: bool = False,
    repair: bool = False,
    interval_bytes: int = INTERVAL_BYTES,
    concurrency: int = CONCURRENCY,
    record: PushRecord | None = None,
    progress: Callable[[PushedSegment], object] = lambda _: None,
    watch: Callable[[memoryview], object] = lambda _: None,
) -> PushReport:
    """Copy every closed segment that is not yet in ``target``.

    The segments of a partition are copied in order, so that a reader or a crash never
    finds a hole that the source does not have. If ``target`` has records that a leader
    lost, those that the next leader wrote in their place come first, as its cleaner may
    have removed earlier records because of them. Several partitions are copied
    concurrently. Indexes that are missing or inconsistent with the log are rebuilt.

    Segments that have expired in ``target`` are not copied again: where its journal
    says that a partition begins later, they are left out. So is one that has expired in
    part, if ``target`` has the rest and no cleaner may have changed it.

    Nothing in ``target`` is deleted except one of two objects with the same log and
    different end offsets, and nothing is replaced except, with ``repair``, a damaged
    copy of the same log.

    Args:
        source: Usually a broker's log directory.
        target: Where the segments go.
        partitions: The partitions to copy.
        active: Whether to copy the segment that a broker is writing, up to its present
            end.
        repair: Whether to read stored segments, as ``verify`` does, and to replace
            damaged ones.
        interval_bytes: Minimum bytes of log between two entries of a rebuilt index: the
            topics' ``index.interval.bytes``.
        concurrency: Maximum number of partitions that are copied concurrently.
        record: The logs that earlier pushes read: unchanged logs are only looked up in
            ``target``. None to read every log.
        progress: Called with each segment when it is done, from several threads.
        watch: Called with each piece of a log when it has been read from ``source``,
            from several threads.

    Returns:
        The outcome of each segment. A segment that is corrupt or cannot be read fails
        alone: the others are copied. A segment that the target rejects ends its
        partition. So does one whose offsets the target has with other records under the
        same leader epoch, as it is of another log. The other partitions continue.

    Raises:
        InvalidArgumentError: ``concurrency`` is below 1.
        UnsupportedOperationError: ``target`` is read only.
        NotFoundError: The container of ``target`` does not exist, or ``source`` has no
            log of any of the partitions.
        StorageUnavailableError: A store failed in all attempts of its policy; the
            copied segments stay, and the next push continues from there.
    """
    _check_writable(target)
    if concurrency < 1:
        raise InvalidArgumentError(f"concurrency {concurrency} is below 1")
    _check_has_logs(source, partitions)
    stop = threading.Event()
    managed = {str(one) for one in journalled_partitions(target.store)}

    def work(partition: TopicIdPartition) -> PushReport:
        done: list[PushedSegment] = []
        failed: tuple[FailedPartition, ...] = ()
        try:
            is_managed = str(partition) in managed
            log_start = first_copied_offset(target, partition) if is_managed else 0
            job = PartitionPush(
                source,
                target,
                partition,
                active=active,
                repair=repair,
                interval_bytes=interval_bytes,
                log_start=log_start,
                record=None if record is None else record.of(source, partition),
                watch=watch,
            )
            for one in job.run():
                progress(one)
                done.append(one)
                if stop.is_set():
                    break
        except PARTITION_FAILURES as error:
            failed = (FailedPartition(partition, error),)
        return PushReport(tuple(sorted(done, key=_start_offset)), failed)

    pool = DaemonExecutor(concurrency, "tieredfs-push")
    wait = True
    try:
        jobs = {pool.submit(work, partition): partition for partition in partitions}
        wait_for_all(jobs)
        found = {jobs[job]: job.result() for job in jobs if job.done()}
    except KeyboardInterrupt:
        wait = False  # for a store that hangs
        target.store.abandon_uploads()
        raise
    finally:
        stop.set()
        pool.shutdown(wait=wait, cancel_futures=True)
    reports = [found[partition] for partition in partitions]
    return PushReport(
        tuple(one for report in reports for one in report.segments),
        tuple(one for report in reports for one in report.partitions),
    )


def _start_offset(one: PushedSegment) -> int:
    return one.segment.start_offset


def _check_writable(target: RemoteStorageManager) -> None:
    """Check that segments can be copied to a layout, before a log is read.

    Raises:
        UnsupportedOperationError: It is read only.
    """
    if Capability.WRITE not in target.capabilities:
        raise UnsupportedOperationError(
            f"{target!r} is read only: nothing can be pushed to it"
        )


def _check_has_logs(
    source: RemoteStorageManager, partitions: Sequence[TopicIdPartition]
) -> None:
    """Check that one of the partitions has a segment: a broker's always have.

    Raises:
        NotFoundError: No partition has: their folders contain something else.
    """
    if partitions and not any(
        _may_have_logs(source, partition) for partition in partitions
    ):
        raise NotFoundError(
            f"not found: a segment in {source.store.url}, where folders such as "
            f"{partitions[0]} contain no log: give the log directory itself"
        )


def _may_have_logs(source: RemoteStorageManager, partition: TopicIdPartition) -> bool:
    """Return whether a partition may have a segment, if its folder can be listed."""
    try:
        return bool(listed_segments(source, partition))
    except PermissionDeniedError:
        return True
