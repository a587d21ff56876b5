"""Copy the segments of a broker's log to a store, each one once.

A segment is read whole and checked before anything is written, and its id is that of
its content; one that was read before, and has not changed, has the id that was noted.
So a second push finds what is there and puts nothing, a push from another
replica of the partition is recognised, and one that was killed is taken up where it
was.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tieredfs.errors import (
    CorruptDataError,
    InvalidArgumentError,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.format.index.builder import INTERVAL_BYTES
from tieredfs.log.push.outcome import FailedPartition, PushedSegment, PushOutcome
from tieredfs.log.push.partition_push import PartitionPush, listed_segments
from tieredfs.log.push.push_record import PushRecord
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
"""Partitions that are copied at the same time unless it is said otherwise."""

_FAILURES: Final = (
    CorruptDataError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
"""What ends one partition, and not the push."""


@dataclass(frozen=True, slots=True)
class PushReport:
    """What a push did.

    Attributes:
        segments: Each of them, by partition and offset.
        partitions: The partitions that failed; some of their segments may have been
            pushed before.
    """

    segments: tuple[PushedSegment, ...]
    partitions: tuple[FailedPartition, ...] = ()

    def count(self, outcome: PushOutcome) -> int:
        """Count the segments with one outcome."""
        return sum(one.outcome is outcome for one in self.segments)

    @property
    def errors(self) -> list[TieredFSError]:
        """Why segments and partitions failed."""
        found = [one.error for one in self.segments if one.error is not None]
        return [*found, *(one.error for one in self.partitions)]


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

    The segments of a partition are copied in their order, so that a reader, or a crash,
    finds no hole that the source has not; several partitions are copied concurrently.
    Indexes that are missing or inconsistent with the log are made anew.

    Nothing that ``target`` has is deleted but one of two objects that hold the same
    log and say different ends, and nothing is replaced but, with ``repair``, a damaged
    copy of the same log.

    Args:
        source: Usually a broker's log directory.
        target: Where the segments go.
        partitions: What to copy.
        active: Whether the segment that a broker is writing is copied as far as it
            goes.
        repair: Whether segments that are there are read, as ``verify`` reads them, and
            those that are damaged are replaced.
        interval_bytes: Bytes of log between two entries of an index that is made anew,
            at least: the topics' ``index.interval.bytes``.
        concurrency: Partitions that are copied at the same time, at most.
        record: Knows the logs that earlier pushes read, so that those which have not
            changed are only looked up in ``target``; None to read every log.
        progress: Called with each segment when it is done, from several threads.
        watch: Called with each piece of a log when it has been read from ``source``,
            from several threads.

    Returns:
        What became of each segment. One that is corrupt or cannot be read fails alone:
        the others are copied. One that the target refuses ends its partition, and so
        does one whose offsets the target has with other records, under the same leader
        epoch: it is another log. What ends a partition does not end the others.

    Raises:
        InvalidArgumentError: ``concurrency`` is below 1.
        UnsupportedOperationError: ``target`` is read only.
        NotFoundError: The container of ``target`` is not there, or ``source`` has no
            log of any of the partitions.
        StorageUnavailableError: A store failed more often than its policy allows; what
            was copied stays, and the next push goes on from there.
    """
    _check_writable(target)
    if concurrency < 1:
        raise InvalidArgumentError(f"a concurrency of {concurrency} is below 1")
    _check_has_logs(source, partitions)
    stop = threading.Event()

    def work(partition: TopicIdPartition) -> PushReport:
        done: list[PushedSegment] = []
        failed: tuple[FailedPartition, ...] = ()
        try:
            job = PartitionPush(
                source,
                target,
                partition,
                active=active,
                repair=repair,
                interval_bytes=interval_bytes,
                record=None if record is None else record.of(source, partition),
                watch=watch,
            )
            for one in job.run():
                progress(one)
                done.append(one)
                if stop.is_set():
                    break
        except _FAILURES as error:
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
        NotFoundError: None has: their folders hold something else.
    """
    if partitions and not any(
        _may_have_logs(source, partition) for partition in partitions
    ):
        raise NotFoundError(
            f"not found: a segment in {source.store.url}, where folders such as "
            f"{partitions[0]} hold no log: name the log directory itself"
        )


def _may_have_logs(source: RemoteStorageManager, partition: TopicIdPartition) -> bool:
    """Tell whether a partition has a segment, as far as its folder can be listed."""
    try:
        return bool(listed_segments(source, partition))
    except PermissionDeniedError:
        return True
