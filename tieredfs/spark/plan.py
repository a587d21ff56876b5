"""Plan a query on the driver: what is read of which partition, and in which tasks.

It takes listings. Where an offset lies in a log is looked up by the task that begins
there; only what was asked for by time is looked up here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import TypeAlias

from tieredfs.errors import InvalidArgumentError
from tieredfs.log.planning.offset_cut import cut_slices, late_slices
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.stable_offset import stable_offset
from tieredfs.log.read.reader import Bounds, TieredReader, bounds_of
from tieredfs.log.read.replan import plan_all
from tieredfs.log.read.scan import Scan
from tieredfs.log.read.times import find_offset
from tieredfs.model import SegmentMetadata
from tieredfs.spark.filters import EVERYTHING, Wanted
from tieredfs.spark.options import SourceOptions
from tieredfs.spark.positions import EARLIEST, LATEST, Position
from tieredfs.spark.ranges import OffsetRange, divide, resolve_range
from tieredfs.spark.tasks import Task, make_tasks
from tieredfs.tier import Tier, open_tier
from tieredfs.topic import Topic

__all__ = [
    "PlannedPartition",
    "assigned_topics",
    "check_named",
    "open_source",
    "plan_query",
    "plan_tasks",
]

_Assigned: TypeAlias = "Mapping[str, tuple[Topic, tuple[int, ...]]]"


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
    planned = plan_query(options, wanted)
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
    for part in ranges:
        one = by_partition[part.topic, part.partition]
        runs = _late(cut_slices(one.slices, part.start, part.end), wanted)
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
    found: list[PlannedPartition] = []
    for topic, numbers in topics.values():
        if wanted.has_topic(topic.name):
            readers = [topic.reader(n) for n in numbers if wanted.has_partition(n)]
            planner = _PartitionPlanner(options, topic, wanted)
            found += plan_all(planner.plan, readers)
    return found


def check_named(position: Position, assigned: Mapping[str, tuple[int, ...]]) -> None:
    """Check that a position names exactly the partitions that are read.

    Raises:
        InvalidArgumentError: It does not.
    """
    if position.named is None:
        return
    specified = {f"{t}-{p}" for t, each in position.named.items() for p in each}
    wanted = {f"{t}-{p}" for t, numbers in assigned.items() for p in numbers}
    if specified != wanted:
        kind = "timestamp based start offsets" if position.is_time else "start offsets"
        advice = "" if position.is_time else " Use -1 for latest, -2 for earliest."
        raise InvalidArgumentError(
            f"option '{position.option}': Partitions specified for Kafka {kind} don't "
            f"match what are assigned.{advice} Specified: "
            f"{', '.join(sorted(specified))} Assigned: {', '.join(sorted(wanted))}"
        )


def assigned_topics(tier: Tier, options: SourceOptions) -> _Assigned:
    """Return the topics that are read by their names, each with its partitions.

    Args:
        tier: Where they are.
        options: What was asked for; without any strategy, all topics.

    Raises:
        NotFoundError: A topic that is named does not exist.
    """
    found: dict[str, tuple[Topic, tuple[int, ...]]] = {}
    for name, numbers in _names(tier, options):
        topic = tier.topic(name, topic_id=options.topic_id)
        wanted = topic.partitions if numbers is None else dict.fromkeys(numbers)
        # As in Kafka's source a partition that is not there is left out.
        found[name] = topic, tuple(n for n in wanted if n in topic.partitions)
    return found


def _names(
    tier: Tier, options: SourceOptions
) -> Iterator[tuple[str, tuple[int, ...] | None]]:
    """Yield the topics' names, each with the partitions; None for all."""
    if options.assigned is not None:
        yield from options.assigned.items()
    elif options.pattern is not None:
        pattern = options.pattern
        yield from ((name, None) for name in tier.topics() if pattern.matches(name))
    else:
        topics = tier.topics() if options.topics is None else options.topics
        yield from ((name, None) for name in topics)


@dataclass(frozen=True, slots=True)
class _PartitionPlanner:
    """Plans each partition from one listing: range and segments are of one moment."""

    options: SourceOptions
    topic: Topic
    wanted: Wanted

    def plan(self, reader: TieredReader) -> PlannedPartition:
        options = self.options
        is_timed = options.starting.is_time or options.ending.is_time
        is_committed = options.isolation == "read_committed"
        if is_timed or is_committed:
            reader = reader.keeping_indexes()
        segments = reader.segments(timed=is_timed or self.wanted.since is not None)
        held = bounds_of(segments)
        latest = held.end
        if is_committed:
            latest = max(held.beginning, stable_offset(reader.storage, segments))
        asked = self._asked(reader, segments, held, latest)
        resolved = resolve_range(
            asked, held, latest, fail_on_data_loss=options.fail_on_data_loss
        )
        start = max(resolved.start, self.wanted.start)
        end = max(start, min(resolved.end, latest, self.wanted.end))
        slices: Sequence[SegmentSlice] = ()
        if start < end:
            slices = reader.slices_between(
                segments,
                start,
                end,
                skip_gaps=not options.fail_on_data_loss,
                located=False,
            )
        left = replace(resolved, start=start, end=end)
        return PlannedPartition(self.topic, asked, left, slices)

    def _asked(
        self,
        reader: TieredReader,
        segments: Sequence[SegmentMetadata],
        held: Bounds,
        latest: int,
    ) -> OffsetRange:
        """Return the offsets asked for, of which times have been looked up."""
        options, partition = self.options, reader.partition
        topic, number = partition.topic, partition.partition
        found = []
        for position in (options.starting, options.ending):
            offset = position.of(topic, number)
            if position.is_time and offset == LATEST:
                offset = latest
            elif position.is_time and offset == EARLIEST:
                offset = held.beginning
            elif position.is_time:
                late = find_offset(
                    reader, segments, offset, skip_gaps=not options.fail_on_data_loss
                )
                if late is None or late.offset >= latest:
                    self._check_no_match(position, topic, number)
                offset = latest if late is None else min(late.offset, latest)
            found.append(offset)
        return OffsetRange(topic, number, *found)

    def _check_no_match(self, position: Position, topic: str, number: int) -> None:
        """Raise InvalidArgumentError if a start has to be at a record."""
        options = self.options
        if position is options.starting and options.no_match == "error":
            raise InvalidArgumentError(
                f"option '{position.option}': No offset matched from request of "
                f"topic-partition {topic}-{number} and timestamp "
                f"{position.of(topic, number)}. With "
                "startingOffsetsByTimestampStrategy=latest nothing is read of it."
            )


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
