"""Copy the segments of a tier to another place, in any layout that stores them.

Every segment is copied with its id, offsets, epochs and indexes, also those that serve
no record. What the target has is found by its id, or in a layout without ids by its
content, and not copied again, so a migration that was killed is continued by running it
again.
"""

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import groupby
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
)
from tieredfs.log.migrate.chosen_segments import (
    ChosenSegments,
    OffsetRange,
    parse_range,
)
from tieredfs.log.migrate.concurrent_tasks import all_done
from tieredfs.log.migrate.log_copy import copy_log
from tieredfs.log.migrate.places import check_places, check_topic_ids
from tieredfs.log.migrate.same_content import check_one_log
from tieredfs.log.migrate.segment_copy import DeferredError, SegmentCopier
from tieredfs.log.migrate.stored_copies import StoredCopies, compare_partition
from tieredfs.log.push.outcome import (
    PARTITION_FAILURES,
    FailedPartition,
    PushedSegment,
    PushReport,
)
from tieredfs.log.read.scan_bounds import Position
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import RemoteStorageManager

__all__ = ["CONCURRENCY", "migrate"]

CONCURRENCY: Final = 4
"""Default number of segments that are copied concurrently."""


def migrate(  # noqa: PLR0913 - what is copied, how, and who watches
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    partitions: Sequence[TopicIdPartition],
    *,
    start: Position = None,
    end: Position = None,
    concurrency: int = CONCURRENCY,
    progress: Callable[[PushedSegment], object] = lambda _: None,
    watch: Callable[[memoryview], object] = lambda _: None,
) -> PushReport:
    """Copy every segment that is not yet in ``target``, whatever the two layouts are.

    A segment has the same id, offsets, epochs, log and indexes afterwards. Where
    segments overlap, as the uploads of several leaders do, all of them are copied. A
    log is checked batch by batch before it is stored, and read back afterwards; a copy
    with another CRC-32C is deleted again. Logs of more than 32 MiB are not held in
    memory. Nothing in ``source`` is changed.

    Several segments are copied concurrently, so until the migration has ended a reader
    of ``target`` may find holes that ``source`` does not have. Killed at any moment,
    also by a crash, it leaves whole segments and what ``scrub`` finds; run again it
    ends with the same target. What an earlier run copied is not read back again.

    A partition of a broker's log directory, whose segments have no ids of their own, is
    copied as ``push`` does it: in order, closed segments only, each with the id of its
    content.

    What has expired in ``target`` is not copied again: where its journal says that a
    partition begins later, earlier segments are left out.

    A target that keeps no ids cannot tell a topic from another one of its name. So the
    partition is compared with what the target has of it, and a segment counts as
    present when its log has been read and has the checksum of the stored one. Nothing
    of a partition is copied where the target has another log of its name.

    Args:
        source: The tier.
        target: Where the segments go: another place.
        partitions: The partitions to copy.
        start: Only segments with records from this offset or time on. A time means the
            offset that ``offsets_for_times`` returns.
        end: Only segments with records before this offset or time.
        concurrency: Maximum number of segments that are copied concurrently.
        progress: Called with each segment when it is done, from several threads.
        watch: Called with each piece of a log when it has been read from ``source``,
            from several threads.

    Returns:
        The outcome of each segment, sorted by partition and offset; segments that the
        source has deleted meanwhile are left out. A segment that is corrupt, or that
        the target cannot store, fails alone.

    Raises:
        InvalidArgumentError: The two are one place, or one inside the other; two of the
            partitions differ only in a topic id, which ``target`` does not keep; a
            position is invalid; or ``concurrency`` is below 1.
        UnsupportedOperationError: ``target`` is read only.
        StorageUnavailableError: A store failed in all attempts of its policy; the
            copied segments stay, and the next migration continues from there.
    """
    check_places(source, target)
    check_topic_ids(target, partitions)
    if concurrency < 1:
        raise InvalidArgumentError(f"concurrency {concurrency} is below 1")
    job = _Migration(
        source, target, parse_range(start, end, partitions), progress, watch
    )
    pool = DaemonExecutor(concurrency, "tieredfs-migrate")
    wait = True
    try:
        return job.run(pool, partitions)
    except KeyboardInterrupt:
        wait = False  # for a store that hangs
        target.store.abandon_uploads()
        raise
    finally:
        job.stop.set()
        pool.shutdown(wait=wait, cancel_futures=True)


class _Migration:
    def __init__(
        self,
        source: RemoteStorageManager,
        target: RemoteStorageManager,
        wanted: OffsetRange,
        progress: Callable[[PushedSegment], object],
        watch: Callable[[memoryview], object],
    ) -> None:
        self.stop = threading.Event()
        self._source = source
        self._target = target
        self._wanted = wanted
        self._progress = progress
        self._watch = watch
        self._copier = SegmentCopier(source, target, watch)
        self._deferred: list[tuple[SegmentMetadata, StoredCopies]] = []

    def run(
        self, pool: DaemonExecutor, partitions: Sequence[TopicIdPartition]
    ) -> PushReport:
        """List all partitions, and then copy their segments in order."""
        listed = all_done(pool, [partial(self._compare, one) for one in partitions])
        tasks = [
            task
            for partition, found in zip(partitions, listed, strict=True)
            for task in self._tasks(partition, *found)
        ]
        reports = [
            *(
                PushReport((), tuple(FailedPartition(partition, e) for e in one.errors))
                for partition, (one, _) in zip(partitions, listed, strict=True)
            ),
            *all_done(pool, tasks),
            *(each for group in all_done(pool, [self._rebuild]) for each in group),
        ]
        segments = [one for report in reports for one in report.segments]
        return PushReport(
            tuple(sorted(segments, key=_place)),
            tuple(one for report in reports for one in report.partitions),
        )

    def _compare(
        self, partition: TopicIdPartition
    ) -> tuple[ChosenSegments, StoredCopies]:
        """List a partition in both places; nothing to copy if it is another log."""
        source, target = self._source, self._target
        chosen, copies = compare_partition(source, target, partition, self._wanted)
        if not target.keeps_topic_ids and not chosen.are_names_reused:
            try:
                check_one_log(source, chosen.segments, target, copies.listed)
            except AlreadyExistsError as error:
                return ChosenSegments((), (*chosen.errors, error)), StoredCopies(())
        return chosen, copies

    def _tasks(
        self, partition: TopicIdPartition, chosen: ChosenSegments, copies: StoredCopies
    ) -> list[Callable[[], PushReport]]:
        if chosen.are_names_reused:
            return [partial(self._push, partition, chosen)]
        groups = groupby(chosen.segments, key=lambda one: one.start_offset)
        return [partial(self._copy_each, list(group), copies) for _, group in groups]

    def _copy_each(
        self, listed: Sequence[SegmentMetadata], copies: StoredCopies
    ) -> PushReport:
        """Copy the segments that begin at one offset, the one that ends last first.

        A layout without ids stores only one of them, which is to have most records.
        """
        if len(listed) > 1:
            listed = sorted(listed, key=self._end, reverse=True)
        reports = [self._copy(one, copies) for one in listed]
        return PushReport(tuple(one for r in reports for one in r.segments))

    def _end(self, listed: SegmentMetadata) -> tuple[int, int]:
        """Return the end offset and the highest epoch of a segment, as far as known."""
        try:
            found = self._source.describe(listed)
        except (*PARTITION_FAILURES, NotFoundError):  # raised again when it is copied
            return -1, -1
        epochs = found.leader_epochs or ()
        return found.end_offset or -1, epochs[-1].epoch if epochs else -1

    def _copy(
        self, listed: SegmentMetadata, copies: StoredCopies, *, rebuilds: bool = False
    ) -> PushReport:
        if self.stop.is_set():
            return PushReport(())
        try:
            one = self._copier.copy(listed, copies, rebuilds=rebuilds)
        except DeferredError:
            self._deferred.append((listed, copies))
            return PushReport(())
        if one is None:
            return PushReport(())
        self._progress(one)
        return PushReport((one,))

    def _rebuild(self) -> list[PushReport]:
        """Copy the segments of which indexes have to be rebuilt, one after the other.

        What a segment has left is known when it has been copied.
        """
        waiting = sorted(
            self._deferred, key=lambda one: (one[0].partition, one[0].start_offset)
        )
        return [self._copy(*one, rebuilds=True) for one in waiting]

    def _push(self, partition: TopicIdPartition, chosen: ChosenSegments) -> PushReport:
        starts = {one.start_offset for one in chosen.segments}
        done: list[PushedSegment] = []
        failed: tuple[FailedPartition, ...] = ()
        source, target = self._source, self._target
        try:
            for one in copy_log(source, target, partition, starts, self._watch):
                self._progress(one)
                done.append(one)
                if self.stop.is_set():
                    break
        except PARTITION_FAILURES as error:
            failed = (FailedPartition(partition, error),)
        return PushReport(tuple(done), failed)


def _place(one: PushedSegment) -> tuple[TopicIdPartition, int]:
    return one.segment.partition, one.segment.start_offset
