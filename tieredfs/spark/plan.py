"""Plan a query on the driver: what is read of which partition, and in which tasks.

It takes listings. Where an offset lies in a log is looked up by the task that begins
there; only what was asked for by time is looked up here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter

from tieredfs.log.planning.offset_cut import cut_each, late_slices
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.replan import plan_all
from tieredfs.log.read.scan import Scan
from tieredfs.spark.filters import EVERYTHING, Wanted
from tieredfs.spark.options import SourceOptions
from tieredfs.spark.partition_log import list_log
from tieredfs.spark.ranges import OffsetRange, divide, resolve_range
from tieredfs.spark.tasks import Task, make_tasks
from tieredfs.spark.topics import assigned_topics, check_named
from tieredfs.tier import Tier, open_tier
from tieredfs.topic import Topic

__all__ = [
    "PlannedPartition",
    "open_source",
    "plan_query",
    "plan_tasks",
    "tasks_of",
]


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """What is read of one partition.

    Attributes:
        topic: The topic.
        asked: The offsets that were asked for.
        resolved: Those that are read.
        slices: The segments that have them.
    """

    topic: Topic
    asked: OffsetRange
    resolved: OffsetRange
    slices: Sequence[SegmentSlice]


def open_source(options: SourceOptions) -> Tier:
    """Open the tier of a query.

    Raises:
        NotFoundError: The URL has no objects.
        InvalidArgumentError: The URL or an option is invalid.
        PluginError: The plugin cannot be used.
    """
    return open_tier(
        options.path,
        plugin=options.plugin,
        plugin_options=options.plugin_options,
        storage_options=options.storage_options,
        cache_dir=... if options.cache_dir is None else options.cache_dir or None,
        options=options.tuned,
    )


def plan_tasks(
    options: SourceOptions, columns: tuple[str, ...], wanted: Wanted = EVERYTHING
) -> list[Task]:
    """Plan a query.

    Args:
        options: What was asked for.
        columns: The columns to decode.
        wanted: What its filters leave to read.

    Raises:
        NotFoundError: The tier or a topic does not exist.
        InvalidArgumentError: The offsets do not name the partitions that are read, or a
            time is after all records.
        OffsetOutOfRangeError: A start is after its end.
        CorruptDataError: Offsets are gone or missing.
    """
    return tasks_of(plan_query(options, wanted), options, columns, wanted)


def tasks_of(
    planned: Sequence[PlannedPartition],
    options: SourceOptions,
    columns: tuple[str, ...],
    wanted: Wanted = EVERYTHING,
) -> list[Task]:
    """Make tasks of what is read of each partition.

    Args:
        planned: The partitions, topic by topic.
        options: What was asked for.
        columns: The columns to decode.
        wanted: What the query's filters leave to read.
    """
    if options.min_partitions is None and options.max_records is None:
        return make_tasks(
            _scan(
                options,
                topic,
                columns,
                [run for one in group for run in _late(one.slices, wanted)],
            )
            for topic, group in groupby(planned, attrgetter("topic"))
        )
    ranges = divide(
        [one.asked for one in planned],
        [one.resolved for one in planned],
        min_partitions=options.min_partitions,
        max_records=options.max_records,
    )
    by_partition = {(one.topic.name, one.resolved.partition): one for one in planned}
    tasks: list[Task] = []
    for key, parts in groupby(ranges, attrgetter("topic", "partition")):
        one = by_partition[key]
        for slices in cut_each(one.slices, ((part.start, part.end) for part in parts)):
            runs = _late(slices, wanted)
            tasks += make_tasks([_scan(options, one.topic, columns, runs)])
    return tasks


def plan_query(
    options: SourceOptions, wanted: Wanted = EVERYTHING
) -> list[PlannedPartition]:
    """Resolve what was asked for, and list the segments that have it.

    Args:
        options: What was asked for.
        wanted: What the query's filters leave to read.

    Returns:
        A plan of each partition that may have rows, topic by topic.

    Raises:
        TieredFSError: As in ``plan_tasks``.
    """
    topics = assigned_topics(open_source(options), options)
    assigned = {name: numbers for name, (_, numbers) in topics.items()}
    check_named(options.starting, assigned)
    check_named(options.ending, assigned)
    planners: dict[str, _PartitionPlanner] = {}
    readers: list[TieredReader] = []
    for topic, numbers in topics.values():
        if wanted.has_topic(topic.name):
            planners[topic.name] = _PartitionPlanner(options, topic, wanted)
            readers += [topic.reader(n) for n in numbers if wanted.has_partition(n)]
    return plan_all(lambda one: planners[one.partition.topic].plan(one), readers)


@dataclass(frozen=True, slots=True)
class _PartitionPlanner:
    """Plans each partition of a topic."""

    options: SourceOptions
    topic: Topic
    wanted: Wanted

    def plan(self, reader: TieredReader) -> PlannedPartition:
        options, wanted = self.options, self.wanted
        timed = options.starting.is_time or options.ending.is_time
        timed = timed or wanted.since is not None
        log = list_log(options, self.topic, reader, timed=timed)
        ends = (log.offset_at(one) for one in (options.starting, options.ending))
        asked = OffsetRange(*log.name, *ends)
        resolved = resolve_range(
            asked, log.held, log.latest, fail_on_data_loss=options.fail_on_data_loss
        )
        start = max(resolved.start, wanted.start)
        end = max(start, min(resolved.end, wanted.end))
        left = replace(resolved, start=start, end=end)
        return PlannedPartition(self.topic, asked, left, log.slices(start, end))


def _late(
    slices: Sequence[SegmentSlice], wanted: Wanted
) -> list[Sequence[SegmentSlice]]:
    """Return the runs of slices that may have a record that is late enough."""
    if not slices:
        return []
    return [slices] if wanted.since is None else late_slices(slices, wanted.since)


def _scan(
    options: SourceOptions,
    topic: Topic,
    columns: tuple[str, ...],
    partitions: Sequence[Sequence[SegmentSlice]],
) -> Scan:
    return Scan(
        topic.reader(topic.partitions[0]).storage,
        topic.name,
        ScanPlan(tuple(partitions), options.tuned.fetch_bytes),
        columns,
        on_gap="raise" if options.fail_on_data_loss else "skip",
        isolation=options.isolation,
    )
