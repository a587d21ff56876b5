"""Plan the batches of a stream, one after the other, on the driver."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from tieredfs.errors import InvalidArgumentError
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.replan import plan_remaining
from tieredfs.spark.admission import TriggerDelay, prorate
from tieredfs.spark.data_loss import report_loss
from tieredfs.spark.options import SourceOptions
from tieredfs.spark.partition_log import PartitionLog, list_log
from tieredfs.spark.plan import PlannedPartition, open_source, tasks_of
from tieredfs.spark.stream_offset import (
    BEGINNING,
    Offsets,
    PartitionName,
    StreamOffset,
)
from tieredfs.spark.stream_ranges import (
    PartitionBatch,
    deleted_partitions,
    partition_batches,
    shrunk_partitions,
)
from tieredfs.spark.tasks import Task
from tieredfs.spark.topics import assigned_topics, check_named, find_topics
from tieredfs.tier import Tier
from tieredfs.topic import Topic

__all__ = ["StreamPlanner"]

_log: Final = logging.getLogger("tieredfs.spark")


@dataclass(frozen=True, slots=True)
class Listing:
    """What one listing of all partitions that a query reads has found.

    Attributes:
        topics: The topics by their names.
        logs: The logs of their partitions.
    """

    topics: Mapping[str, Topic] = field(default_factory=dict)
    logs: Mapping[PartitionName, PartitionLog] = field(default_factory=dict)


class StreamPlanner:
    """Plans the batches of one query.

    What a batch reads depends only on its offsets: a batch that failed is planned again
    with the same records, by another planner, too. What a planner remembers of earlier
    calls saves requests and repeated warnings, and does not change what a batch reads.
    """

    def __init__(self, options: SourceOptions, clock: Callable[[], float]) -> None:
        """Store the options; nothing is opened before the first batch.

        Args:
            options: What was asked for.
            clock: Seconds since any moment, to let batches wait.
        """
        self._options = options
        self._delay = TriggerDelay(options.admission, clock)
        self._target: Listing | None = None
        self._unused = Listing()
        self._missing: frozenset[str] = frozenset()
        self.latest: Offsets | None = None

    def fix_target(self) -> None:
        """Let the stream end where the logs end now: nothing later is read.

        Raises:
            NotFoundError: The tier or a topic does not exist.
            TieredFSError: A log cannot be listed.
        """
        self._target = self._list(timed=self._options.starting.is_time)
        self._unused = self._target

    def next_end(self, start: StreamOffset, *, is_limited: bool) -> StreamOffset:
        """Return where the batch ends that begins at ``start``.

        Args:
            start: The end of the batch before, or BEGINNING.
            is_limited: Whether the limits of a batch count.

        Returns:
            ``start`` itself when there is to be no batch.

        Raises:
            NotFoundError: The tier or a topic does not exist.
            InvalidArgumentError: The starting offsets do not name the partitions that
                are read, a time is after all records, or an option leaves out what the
                query has read.
            CorruptDataError: A log ends before ``start``, or was deleted, and
                ``failOnDataLoss`` is true.
            TieredFSError: A log cannot be listed.
        """
        listing = self._target
        if listing is None:
            timed = start.is_beginning and self._options.starting.is_time
            self._unused = listing = self._list(start.offsets, timed=timed)
        logs = listing.logs
        known = logs.keys() | start.offsets.keys()
        self._check_named_topics(known, is_new=start.is_beginning)
        self.latest = {name: log.latest for name, log in logs.items()}
        # A checkpoint of Kafka's source names partitions without a record too, which a
        # tier does not list: nothing was read of them, so nothing can be lost.
        unread = {name: at for name, at in start.offsets.items() if not at}
        ends: Offsets = {**unread, **self.latest}
        begun = self._starting_offsets(logs) if start.is_beginning else {}
        starts = begun if start.is_beginning else start.offsets
        if self._options.fail_on_data_loss:
            self._check_nothing_is_lost(starts, ends)
        if is_limited:
            if self._delay.waits(starts, ends):
                return start
            limit = self._options.admission.max_offsets
            if limit is not None:
                new = {name: log.held.beginning for name, log in logs.items()}
                ends = prorate(limit, {**new, **starts}, ends)
        if start.is_beginning:
            return StreamOffset(ends, {one: at for one, at in begun.items() if at})
        return start if ends == start.offsets else StreamOffset(ends)

    def plan(
        self, start: StreamOffset, end: StreamOffset, columns: tuple[str, ...]
    ) -> list[Task]:
        """Plan a batch: what it reads, in tasks.

        Args:
            start: The end of the batch before, or BEGINNING.
            end: Where the batch ends.
            columns: The columns to decode.

        Raises:
            CorruptDataError: Offsets are gone or missing, and ``failOnDataLoss`` is
                true.
            TieredFSError: A log cannot be listed.
        """
        deleted = deleted_partitions(start, end)
        if deleted:
            self._report(f"Partitions {_names(deleted)} have been deleted")
        # A listing serves the batch whose end it has found, not later ones: by then
        # its segments may have been deleted.
        listing, self._unused = self._unused, Listing()
        batches = self._find_batches(start, end, listing.topics)
        planned = self._plan_partitions(batches, listing.logs)
        return tasks_of(planned, self._options, columns)

    def _find_batches(
        self, start: StreamOffset, end: StreamOffset, known: Mapping[str, Topic]
    ) -> list[tuple[PartitionBatch, Topic]]:
        """Return what a batch reads of each partition that exists, with its topic.

        Args:
            start: The end of the batch before, or BEGINNING.
            end: Where the batch ends.
            known: Topics by their names; one that is missing, or lacks a partition of
                the batch, is looked up.

        Raises:
            CorruptDataError: A partition does not exist, and that is an error.
        """
        batches = list(partition_batches(start, end))
        names = dict.fromkeys(
            one.topic
            for one in batches
            if one.topic not in known
            or one.partition not in known[one.topic].partitions
        )
        found = find_topics(self._tier, list(names), self._options, skip_missing=True)
        topics = {**known, **found}
        existing = []
        for one in batches:
            topic = topics.get(one.topic)
            if topic is None or one.partition not in topic.partitions:
                self._report_deleted(one)
            else:
                existing.append((one, topic))
        return existing

    def _plan_partitions(
        self,
        batches: Sequence[tuple[PartitionBatch, Topic]],
        logs: Mapping[PartitionName, PartitionLog],
    ) -> list[PlannedPartition]:
        """Plan what a batch reads of each partition, and report what is lost.

        Args:
            batches: What the batch reads of each partition, with its topic.
            logs: Logs that are listed already; one that does not cover what the batch
                reads of it, or has changed since, is listed again.

        Raises:
            CorruptDataError: Offsets are gone or missing, and that is an error.
            TieredFSError: A log cannot be listed.
        """
        by_name = {(one.topic, one.partition): (one, topic) for one, topic in batches}
        listed = dict(logs)

        def plan_one(reader: TieredReader) -> tuple[PlannedPartition, list[str]]:
            name = reader.partition.topic, reader.partition.partition
            batch, topic = by_name[name]
            start = batch.start or 0
            # If a segment of it is gone, this is called again, and lists the log.
            log = listed.pop(name, None)
            if log is None or not log.covers(start, batch.end):
                log = list_log(self._options, topic, reader, start=start)
            return self._plan_partition(batch, log)

        readers = [topic.reader(one.partition) for one, topic in batches]
        planned: list[PlannedPartition] = []
        plans = plan_remaining(plan_one, readers)
        for (one, _), found in zip(batches, plans, strict=True):
            if found is None:
                self._report_deleted(one)
                continue
            partition, losses = found
            for loss in losses:
                self._report(loss)
            if partition.resolved.size:
                planned.append(partition)
        return planned

    def _plan_partition(
        self, batch: PartitionBatch, log: PartitionLog
    ) -> tuple[PlannedPartition, list[str]]:
        """Plan what a batch reads of one partition, and return what is lost of it."""
        there, losses = batch.within(log.held, log.latest)
        fails = self._options.fail_on_data_loss
        slices = () if fails and losses else log.slices(there.start, there.end)
        if not fails:
            losses += (
                f"Offsets {hole.start} to {hole.end - 1} of {batch.name} are in no "
                "segment"
                for hole in log.holes(there.start, there.end)
            )
        return PlannedPartition(log.topic, there, there, slices), losses

    def _list(self, starts: Offsets = BEGINNING.offsets, *, timed: bool) -> Listing:
        """List the logs of all partitions that are read.

        Args:
            starts: Where they have been read up to, as far as it is known.
            timed: Whether times are looked up in them.
        """
        options = self._options
        skip_missing = not options.fail_on_data_loss
        assigned = assigned_topics(self._tier, options, skip_missing=skip_missing)
        topics = {name: topic for name, (topic, _) in assigned.items()}

        def list_one(reader: TieredReader) -> PartitionLog:
            name = reader.partition.topic, reader.partition.partition
            topic, start = topics[name[0]], starts.get(name, 0)
            return list_log(options, topic, reader, timed=timed, start=start)

        readers = [
            topic.reader(number)
            for topic, numbers in assigned.values()
            for number in numbers
        ]
        logs = plan_remaining(list_one, readers)
        return Listing(topics, {log.name: log for log in logs if log is not None})

    def _check_named_topics(
        self, known: Collection[PartitionName], *, is_new: bool
    ) -> None:
        """Raise NotFoundError if a new query names a topic that does not exist.

        A query that was begun before may have read the topic. It gets here only if it
        accepts losses, so a warning is logged, once until the topic exists again.
        """
        topics = {topic for topic, _ in known}
        named = self._options.topics or self._options.assigned or ()
        missing = [name for name in named if name not in topics]
        for name in missing:
            if is_new:
                self._tier.topic(name, topic_id=self._options.topic_id)
            elif name not in self._missing:
                _log.warning("Topic %s does not exist, and is not read.", name)
        self._missing = frozenset(missing)

    def _check_nothing_is_lost(self, starts: Offsets, ends: Offsets) -> None:
        """Fail before Spark logs an end that no later run could get past.

        Args:
            starts: Where the batch begins.
            ends: Where the logs end.
        """
        missing = sorted(starts.keys() - ends.keys())
        unselected = [one for one in missing if not self._options.selects(*one)]
        if unselected:
            raise InvalidArgumentError(
                f"The query has read {_names(unselected)} before, which its options "
                "leave out now: select them again, begin with another checkpoint, or "
                "set failOnDataLoss to false to forget where they were read up to."
            )
        if missing:
            self._report(f"Partitions {_names(missing)} have been deleted")
        for loss in shrunk_partitions(starts, ends):
            self._report(loss)

    def _starting_offsets(self, logs: Mapping[PartitionName, PartitionLog]) -> Offsets:
        """Return the offset of each partition at which a new query begins."""
        starting = self._options.starting
        assigned: dict[str, tuple[int, ...]] = {}
        for topic, number in logs:
            assigned[topic] = (*assigned.get(topic, ()), number)
        check_named(starting, assigned)
        offsets = {}
        for name, log in logs.items():
            offset = log.resolve(log.offset_at(starting))
            if offset < 0:
                raise InvalidArgumentError(
                    f"option '{starting.option}': {offset} is no offset; -2 is "
                    "earliest, -1 is latest"
                )
            offsets[name] = offset
        return offsets

    def _report_deleted(self, batch: PartitionBatch) -> None:
        self._report(f"Partition {batch.name} has been deleted")

    def _report(self, loss: str) -> None:
        """Fail if a loss is an error; log a warning otherwise."""
        report_loss(loss, fails=self._options.fail_on_data_loss)

    @cached_property
    def _tier(self) -> Tier:
        return open_source(self._options)


def _names(partitions: Iterable[PartitionName]) -> str:
    return ", ".join(f"{topic}-{number}" for topic, number in partitions)
