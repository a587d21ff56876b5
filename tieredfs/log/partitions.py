"""Select the partitions of a job."""

import difflib
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final

from tieredfs.errors import NotFoundError, PermissionDeniedError, TieredFSError
from tieredfs.model import TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = [
    "listed_size",
    "missing_topic_error",
    "select_partitions",
    "without_internal",
    "without_topics",
]

_INTERNAL: Final = "__"


def select_partitions(
    storage: RemoteStorageManager,
    topics: Collection[str] | None = None,
    topic_id: str | None = None,
) -> list[TopicIdPartition]:
    """List the partitions of some topics.

    Args:
        storage: The storage to list.
        topics: Names of topics; None for all, including Kafka's internal ones.
        topic_id: Which of several topics of one name to select; topics of other names
            are selected as well.

    Raises:
        NotFoundError: There is no topic at all, a name does not exist, or no topic has
            the id.
    """
    named = [None] if topics is None else sorted(set(topics))
    found = {name: storage.list_partitions(name) for name in named}
    for name, partitions in found.items():
        if name is not None and not partitions:
            raise missing_topic_error(storage, name)
        if not partitions:
            raise NotFoundError(f"not found: a topic in {storage.store.url}")
    listed = [partition for partitions in found.values() for partition in partitions]
    if topic_id is None:
        return listed
    with_id = {p.topic for p in listed if p.topic_id == topic_id}
    if not with_id:
        which = "a topic" if topics is None else f"topic {', '.join(topics)!r}"
        msg = f"not found: {which} with id {topic_id} in {storage.store.url}"
        raise NotFoundError(msg)
    return [p for p in listed if p.topic not in with_id or p.topic_id == topic_id]


def missing_topic_error(storage: RemoteStorageManager, topic: str) -> NotFoundError:
    """Return the error for a missing topic; it names the nearest one."""
    try:
        names = {partition.topic for partition in storage.list_partitions()}
    except TieredFSError:  # the topic is known to be missing anyway
        names = set()
    folded = {name.casefold(): name for name in sorted(names)}
    near = difflib.get_close_matches(topic.casefold(), folded, n=1)
    hint = f" (did you mean {folded[near[0]]!r}?)" if near else ""
    return NotFoundError(f"not found: topic {topic!r} in {storage.store.url}{hint}")


def without_internal(
    partitions: Iterable[TopicIdPartition],
) -> list[TopicIdPartition]:
    """Leave out the partitions of Kafka's internal topics."""
    return [p for p in partitions if not p.topic.startswith(_INTERNAL)]


def without_topics(
    partitions: Iterable[TopicIdPartition], patterns: Collection[str]
) -> list[TopicIdPartition]:
    """Leave out the partitions of topics that match a glob pattern."""
    return [
        partition
        for partition in partitions
        if not any(fnmatchcase(partition.topic, pattern) for pattern in patterns)
    ]


def listed_size(
    storage: RemoteStorageManager,
    partitions: Iterable[TopicIdPartition],
    *,
    active: bool = True,
) -> int | None:
    """Sum up the bytes of logs.

    Args:
        storage: Where they are.
        partitions: The partitions whose logs count.
        active: Whether segments count that a broker may still be writing.

    Returns:
        The sum; None if the listing does not contain the size of a log.
    """
    total = 0
    for partition in partitions:
        try:
            listed = storage.list_segments(partition)
        except (NotFoundError, PermissionDeniedError):  # removed meanwhile, unreadable
            continue
        for segment in listed:
            if segment.size is None:
                return None
            if active or not storage.is_active(segment):
                total += segment.size
    return total
