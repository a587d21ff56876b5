"""The topics and partitions that a query reads."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.spark.options import SourceOptions
from tieredfs.spark.positions import Position
from tieredfs.tier import Tier
from tieredfs.topic import Topic

__all__ = [
    "AssignedTopics",
    "assigned_topics",
    "check_named",
    "find_topics",
    "topic_names",
]

AssignedTopics: TypeAlias = "Mapping[str, tuple[Topic, tuple[int, ...]]]"
"""Topics by their names, each with the numbers of the partitions that are read."""


def assigned_topics(
    tier: Tier, options: SourceOptions, *, skip_missing: bool = False
) -> AssignedTopics:
    """Return the topics that are read by their names, each with its partitions.

    Of the topics that a pattern finds, those without the id that was asked for are left
    out.

    Args:
        tier: Where they are.
        options: What was asked for; without any strategy, all topics.
        skip_missing: Whether a topic that is named and does not exist is left out.

    Raises:
        NotFoundError: A topic that is named does not exist.
    """
    names = dict(topic_names(tier, options))
    topics = find_topics(
        tier,
        list(names),
        options,
        skip_missing=skip_missing or not options.names_topics,
    )
    # As in Kafka's source a partition that is not there is left out.
    return {
        name: (
            topic,
            topic.partitions
            if (numbers := names[name]) is None
            else tuple(n for n in dict.fromkeys(numbers) if n in topic.partitions),
        )
        for name, topic in topics.items()
    }


def find_topics(
    tier: Tier, names: Sequence[str], options: SourceOptions, *, skip_missing: bool
) -> dict[str, Topic]:
    """Return topics by their names, looked up concurrently.

    Args:
        tier: Where they are.
        names: Their names.
        options: What was asked for: which of several topics of a name.
        skip_missing: Whether one that does not exist is left out.

    Raises:
        NotFoundError: A topic does not exist, and that is an error.
    """

    def find(name: str) -> Topic | None:
        try:
            return tier.topic(name, topic_id=options.topic_id)
        except NotFoundError:
            if not skip_missing:
                raise
            return None

    calls = SegmentCatalog(tier.storage).calls
    found = zip(names, calls.map(find, names), strict=True)
    return {name: topic for name, topic in found if topic is not None}


def topic_names(
    tier: Tier, options: SourceOptions
) -> Iterator[tuple[str, tuple[int, ...] | None]]:
    """Yield the topics' names, each with the partitions; None for all.

    Args:
        tier: Where they are.
        options: What was asked for; without any strategy, all topics.
    """
    if options.assigned is not None:
        yield from options.assigned.items()
    elif options.pattern is not None:
        pattern = options.pattern
        yield from ((name, None) for name in tier.topics() if pattern.matches(name))
    else:
        topics = tier.topics() if options.topics is None else options.topics
        yield from ((name, None) for name in topics)


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
