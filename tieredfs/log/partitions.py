"""Select the partitions of a job."""

import difflib
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

from tieredfs.errors import (
    SEGMENT_ERRORS,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
)
from tieredfs.model import TopicIdPartition, Uuid
from tieredfs.storage import RemoteStorageManager

__all__ = [
    "holds_segments",
    "listed_size",
    "missing_topic_error",
    "select_partitions",
    "topic_partitions",
    "without_deleted",
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
    found: dict[str | None, list[TopicIdPartition]]
    if topics is None:
        found = {None: without_deleted(storage, storage.list_partitions())}
    else:
        found = {name: topic_partitions(storage, name) for name in sorted(set(topics))}
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


def topic_partitions(
    storage: RemoteStorageManager, topic: str
) -> list[TopicIdPartition]:
    """List the partitions of a topic, without those of a deleted one of its name.

    Args:
        storage: The storage to list.
        topic: The topic's name.

    Returns:
        The partitions, sorted; empty if there is no such topic.
    """
    return without_deleted(storage, storage.list_partitions(topic))


def without_deleted(
    storage: RemoteStorageManager, partitions: Sequence[TopicIdPartition]
) -> list[TopicIdPartition]:
    """Leave out topics without a segment, if there are others of their names.

    Some stores list the empty folders of a topic that was deleted. Only topics of which
    another one has the name are looked at: the rest costs no request.

    Args:
        storage: Where the partitions were listed.
        partitions: All partitions of their topics.
    """
    ids: dict[str, dict[Uuid, list[TopicIdPartition]]] = {}
    for partition in partitions:
        same = ids.setdefault(partition.topic, {})
        same.setdefault(partition.topic_id, []).append(partition)
    deleted = {
        (topic, topic_id)
        for topic, same in ids.items()
        for topic_id, own in same.items()
        if len(same) > 1 and not holds_segments(storage, own)
    }
    return [one for one in partitions if (one.topic, one.topic_id) not in deleted]


def holds_segments(
    storage: RemoteStorageManager, partitions: Iterable[TopicIdPartition]
) -> bool:
    """Return whether one of some listed partitions is more than an empty folder."""
    return any(_exists(storage, partition) for partition in partitions)


def _exists(storage: RemoteStorageManager, partition: TopicIdPartition) -> bool:
    try:
        with suppress(*SEGMENT_ERRORS):
            next(storage.survey(partition), None)
    except NotFoundError:
        return False
    return True


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
