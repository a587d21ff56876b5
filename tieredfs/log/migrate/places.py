"""The two places of a migration, which have to be apart."""

from collections.abc import Iterable

from tieredfs.errors import InvalidArgumentError, UnsupportedOperationError
from tieredfs.model import TopicIdPartition
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = ["check_places", "check_topic_ids"]


def check_places(source: RemoteStorageManager, target: RemoteStorageManager) -> None:
    """Check that a target can be written, and is another place than the source.

    The layouts do not matter: the keys of two of them may collide, and a place with two
    layouts cannot be opened without naming one.

    Raises:
        UnsupportedOperationError: The target is read only.
        InvalidArgumentError: They are the same place, or one is inside the other.
    """
    if Capability.WRITE not in target.capabilities:
        raise UnsupportedOperationError(
            f"{target!r} is read only: nothing can be migrated to it"
        )
    here, there = source.store, target.store
    if here.is_inside(there) or there.is_inside(here):
        where = "the same place as" if here.url == there.url else "not apart from"
        raise InvalidArgumentError(
            f"{there.url} is {where} {here.url}: migrate to a place outside of it"
        )


def check_topic_ids(
    target: RemoteStorageManager, partitions: Iterable[TopicIdPartition]
) -> None:
    """Check that no two topics of one name would become one log in a target.

    Raises:
        InvalidArgumentError: Two of them differ only in their topic ids, which the
            target does not keep.
    """
    if target.keeps_topic_ids:
        return
    seen: dict[tuple[str, int], TopicIdPartition] = {}
    for one in partitions:
        other = seen.setdefault((one.topic, one.partition), one)
        if other.topic_id != one.topic_id:
            raise InvalidArgumentError(
                f"{target!r} keeps no topic ids, and {one} is to be copied of the "
                f"topics {other.topic_id} and {one.topic_id}: choose one by its topic "
                "id, and migrate the other to its own URL"
            )
