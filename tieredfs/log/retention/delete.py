"""Delete whole partitions: marked first, so that a run that dies is finished later."""

from collections.abc import Callable, Sequence

from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    UnsupportedOperationError,
)
from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.journal import journalled_partitions
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.journal.state import PartitionState
from tieredfs.log.partitions import missing_topic_error, topic_partitions
from tieredfs.model import TopicIdPartition
from tieredfs.states import PartitionDeleteState
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = [
    "deletable_partitions",
    "delete_partition",
    "delete_partitions",
    "mark_partition",
]


def deletable_partitions(
    storage: RemoteStorageManager, topic: str, topic_id: str | None = None
) -> list[TopicIdPartition]:
    """List the partitions of a topic, those included that are only half deleted.

    Args:
        storage: The tier.
        topic: The topic's name.
        topic_id: Its id; None where there is only one topic of the name.

    Raises:
        NotFoundError: There is no such topic.
        InvalidArgumentError: There are several of this name, and no id was given.
    """
    listed = set(topic_partitions(storage, topic))
    found = sorted(listed | set(journalled_partitions(storage.store, topic)))
    ids = sorted({partition.topic_id for partition in found})
    if topic_id is None and len(ids) > 1:
        raise InvalidArgumentError(
            f"there are {len(ids)} topics called {topic!r} in {storage.store.url}: "
            f"choose one by its id, of {', '.join(ids)}"
        )
    chosen = [one for one in found if topic_id in {None, one.topic_id}]
    if not found:
        raise missing_topic_error(storage, topic)
    if not chosen:
        raise NotFoundError(
            f"not found: topic {topic!r} with id {topic_id} in {storage.store.url}; "
            f"there is {', '.join(ids)}"
        )
    return chosen


def delete_partitions(
    storage: RemoteStorageManager,
    partitions: Sequence[TopicIdPartition],
    *,
    owner: str,
    single_writer: bool = False,
    progress: Callable[[TopicIdPartition], object] = lambda _: None,
) -> None:
    """Delete partitions, with all that copies to them have left.

    All are marked in their journals first: from then on nothing is copied to one that
    is not yet gone, and a run that dies is finished by the next one. When it returns,
    neither the partitions nor their journals exist.

    Args:
        storage: The tier.
        partitions: The partitions.
        owner: A unique name of this run, which can be part of a key.
        single_writer: Whether the caller vouches that no other manager is alive.
        progress: Called with each partition that is gone.

    Raises:
        FencedError: A manager is in charge of a partition; nothing was deleted, but
            those before it are marked.
        UnsupportedOperationError: The layout is read only.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """
    if Capability.WRITE not in storage.capabilities:
        raise UnsupportedOperationError(
            f"{storage!r} is read only: nothing can be deleted from it"
        )
    heartbeat = Heartbeat(storage.store, owner)
    with heartbeat.kept():
        found = [
            LedPartition(heartbeat, partition, is_only_writer=single_writer)
            for partition in partitions
        ]
        for led in found:
            mark_partition(led)
        for led in found:
            delete_partition(storage, led)
            progress(led.state.partition)


def mark_partition(led: LedPartition, epoch: int | None = None) -> None:
    """Mark a partition: nothing is copied to it any more, and it will be deleted.

    Args:
        led: The partition.
        epoch: The manager's leader epoch; None for that of the manager before it.

    Raises:
        FencedError: Another manager is in charge.
    """
    marked = PartitionDeleteState.DELETE_PARTITION_MARKED
    if led.state.deletion is None:
        led.lead(
            epoch, "delete the partition", lambda state: state.with_deletion(marked)
        )


def delete_partition(
    storage: RemoteStorageManager, led: LedPartition, epoch: int | None = None
) -> None:
    """Delete a partition, or what an earlier call has left of it, and its journal.

    Args:
        storage: The tier.
        led: The partition.
        epoch: The manager's leader epoch; None for that of the manager before it.

    Raises:
        FencedError: Another manager is in charge.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """
    marked, started, finished = PartitionDeleteState

    def begin(state: PartitionState) -> PartitionState:
        if state.deletion is None:
            state = state.with_deletion(marked)
        return state if state.deletion is finished else state.with_deletion(started)

    led.lead(epoch, "delete the partition", begin)
    storage.delete_partition(led.state.partition)
    if led.state.deletion is not finished:
        led.change("deleted the partition", lambda state: state.with_deletion(finished))
    led.forget()
