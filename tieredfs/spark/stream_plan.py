"""Plan the batches of a stream, one after the other, on the driver."""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import Final

from tieredfs.errors import InvalidArgumentError
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.replan import plan_remaining
from tieredfs.spark.admission import TriggerDelay, prorate
from tieredfs.spark.data_loss import report_loss
from tieredfs.spark.options import SourceOptions
from tieredfs.spark.partition_log import PartitionLog, list_log
from tieredfs.spark.plan import (
    PlannedPartition,
    assigned_topics,
    check_named,
    find_topics,
    open_source,
    tasks_of,
)
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
)
from tieredfs.spark.tasks import Task
from tieredfs.tier import Tier
from tieredfs.topic import Topic

__all__ = ["StreamPlanner"]

_log: Final = logging.getLogger("tieredfs.spark")


class StreamPlanner:
    """Plans the batches of one query.

    What a batch reads depends on its offsets alone, so that one that failed is planned
    again as it was. Between batches nothing has to be remembered.
    """

    def __init__(self, options: SourceOptions, clock: Callable[[], float]) -> None:
        """Store the options; nothing is opened before the first batch.

        Args:
            options: What was asked for.
            clock: Seconds since any moment, to let batches wait.
        """
        self._options = options
        self._delay = TriggerDelay(options.admission, clock)
        self._target: Mapping[PartitionName, PartitionLog] | None = None
        self._listed: dict[PartitionName, PartitionLog] = {}
        self._topics: Mapping[str, Topic] = {}
        self._missing: frozenset[str] = frozenset()
        self.latest: Offsets | None = None

    def fix_target(self) -> None:
        """Let the stream end where the logs end now: nothing later is read.

        Raises:
            NotFoundError: The tier or a topic does not exist.
            TieredFSError: A log cannot be listed.
        """
        self._target = self._list(timed=self._options.starting.is_time)

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
                are read, or a time is after all records.
            TieredFSError: A log cannot be listed.
        """
        logs = self._target
        if logs is None:
            timed = start.is_beginning and self._options.starting.is_time
            logs = self._list(start.offsets, timed=timed)
        known = logs.keys() | start.offsets.keys()
        self._check_named_topics(known, is_new=start.is_beginning)
        self.latest = {name: log.latest for name, log in logs.items()}
        ends: Offsets = self.latest
        begun = self._begun(logs) if start.is_beginning else {}
        starts = begun if start.is_beginning else start.offsets
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
            names = ", ".join(f"{topic}-{number}" for topic, number in deleted)
            self._report(f"Partitions {names} have been deleted")
        # What was listed a moment ago to find the batch's end serves once.
        listed, self._listed = self._listed, {}
        batches = list(partition_batches(start, end))
        topics = self._topics_of(batches)
        by_name: dict[PartitionName, PartitionBatch] = {}
        readers: list[TieredReader] = []
        for one in batches:
            topic = topics.get(one.topic)
            if topic is None or one.partition not in topic.partitions:
                self._report(f"Partition {one.name} has been deleted")
            else:
                by_name[one.topic, one.partition] = one
                readers.append(topic.reader(one.partition))

        def plan(reader: TieredReader) -> tuple[PlannedPartition, list[str]]:
            name = reader.partition.topic, reader.partition.partition
            one, log = by_name[name], listed.pop(name, None)
            if log is None:
                start = one.start or 0
                log = list_log(self._options, topics[one.topic], reader, start=start)
            return self._plan_partition(one, log)

        planned: list[PlannedPartition] = []
        plans = plan_remaining(plan, readers)
        for one, found in zip(by_name.values(), plans, strict=True):
            if found is None:
                self._report(f"Partition {one.name} has been deleted")
                continue
            partition, losses = found
            for loss in losses:
                self._report(loss)
            if partition.resolved.size:
                planned.append(partition)
        return tasks_of(planned, self._options, columns)

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

    def _list(
        self, starts: Offsets = BEGINNING.offsets, *, timed: bool
    ) -> Mapping[PartitionName, PartitionLog]:
        """List the logs of all partitions that are read.

        Args:
            starts: Where they have been read up to, as far as it is known.
            timed: Whether times are looked up in them.
        """
        options = self._options
        skip_missing = not options.fail_on_data_loss
        topics = assigned_topics(self._tier, options, skip_missing=skip_missing)
        self._topics = {name: topic for name, (topic, _) in topics.items()}

        def each(reader: TieredReader) -> PartitionLog:
            name = reader.partition.topic, reader.partition.partition
            topic, start = self._topics[name[0]], starts.get(name, 0)
            return list_log(options, topic, reader, timed=timed, start=start)

        readers = [
            topic.reader(number)
            for topic, numbers in topics.values()
            for number in numbers
        ]
        logs = plan_remaining(each, readers)
        self._listed = {log.name: log for log in logs if log is not None}
        return dict(self._listed)

    def _check_named_topics(
        self, known: Collection[PartitionName], *, is_new: bool
    ) -> None:
        """Raise NotFoundError if a topic that is named is missing from a new query.

        Of another query it may have been read, and a loss is accepted then: that it is
        missing is said once.
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

    def _begun(self, logs: Mapping[PartitionName, PartitionLog]) -> Offsets:
        """Return where a new query begins."""
        starting = self._options.starting
        assigned: dict[str, tuple[int, ...]] = {}
        for topic, number in logs:
            assigned[topic] = (*assigned.get(topic, ()), number)
        check_named(starting, assigned)
        begun = {}
        for name, log in logs.items():
            begun[name] = log.resolve(log.offset_at(starting))
            if begun[name] < 0:
                raise InvalidArgumentError(
                    f"option '{starting.option}': {begun[name]} is no offset; -2 is "
                    "earliest, -1 is latest"
                )
        return begun

    def _report(self, loss: str) -> None:
        """Fail, or warn, of what may have been lost."""
        report_loss(loss, fails=self._options.fail_on_data_loss)

    def _topics_of(self, batches: Sequence[PartitionBatch]) -> Mapping[str, Topic]:
        """Return the topics of partitions; those that are gone are left out."""
        topics, self._topics = self._topics, {}
        missing = dict.fromkeys(one.topic for one in batches)
        names = [name for name in missing if name not in topics]
        found = find_topics(self._tier, names, self._options, skip_missing=True)
        return {**topics, **found}

    @cached_property
    def _tier(self) -> Tier:
        return open_source(self._options)
