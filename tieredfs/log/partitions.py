"""Which partitions a job is about."""

from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Final

from tieredfs.errors import NotFoundError, PermissionDeniedError
from tieredfs.model import TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["listed_size", "select_partitions", "without_internal", "without_topics"]

_INTERNAL: Final = "__"


def select_partitions(
    storage: RemoteStorageManager,
    topics: Collection[str] | None = None,
    topic_id: str | None = None,
) -> list[TopicIdPartition]:
    """List the partitions of some topics.

    Args:
        storage: Where they are.
        topics: Their names; None for all, Kafka's internal ones too.
        topic_id: Only this one of several topics of one name.

    Raises:
        NotFoundError: There is no topic at all, none of one of the names, or none with
            the id.
    """
    found = storage.list_partitions()
    if not found:
        raise NotFoundError(f"not found: a topic in {storage.store.url}")
    if topic_id is not None:
        found = [partition for partition in found if partition.topic_id == topic_id]
        if not found:
            raise NotFoundError(
                f"not found: a topic with id {topic_id} in {storage.store.url}"
            )
    if topics is None:
        return found
    for name in topics:
        if all(partition.topic != name for partition in found):
            raise NotFoundError(f"not found: topic {name!r} in {storage.store.url}")
    return [partition for partition in found if partition.topic in topics]


def without_internal(
    partitions: Iterable[TopicIdPartition],
) -> list[TopicIdPartition]:
    """Leave out the partitions of Kafka's internal topics."""
    return [p for p in partitions if not p.topic.startswith(_INTERNAL)]


def without_topics(
    partitions: Iterable[TopicIdPartition], patterns: Collection[str]
) -> list[TopicIdPartition]:
    """Leave out the partitions of topics that one of some glob patterns matches."""
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
        partitions: Those whose logs count.
        active: Whether segments count that a broker may still be writing.

    Returns:
        The sum; None when a listing does not say how large a log is.
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
