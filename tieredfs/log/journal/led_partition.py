"""A partition as the manager that is in charge of it sees and changes it."""

from collections.abc import Callable

from tieredfs.log.journal.heartbeat import Heartbeat
from tieredfs.log.journal.journal import PartitionJournal
from tieredfs.log.journal.state import PartitionState
from tieredfs.model import TopicIdPartition

__all__ = ["LedPartition"]


class LedPartition:
    """The state of a partition, and the manager that changes it.

    Each change is an entry of the partition's journal. After an error ``read`` again.

    Attributes:
        state: The state, as it was last read or written.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        partition: TopicIdPartition,
        *,
        is_only_writer: bool = False,
    ) -> None:
        """Read the state.

        Args:
            heartbeat: That of the manager.
            partition: The partition.
            is_only_writer: Whether the caller vouches that no other manager is alive.

        Raises:
            CorruptObjectError: The last entry of the journal is malformed.
            UnsupportedFormatError: A newer release has written it.
        """
        self._heartbeat = heartbeat
        self._is_only_writer = is_only_writer
        self._journal = PartitionJournal(
            heartbeat.store, partition, heartbeat.owner, is_only_writer
        )
        self._partition = partition
        self.read()

    def read(self) -> None:
        """Read the state again."""
        self._last = self._journal.read()
        if self._last is None:
            self.state = PartitionState(self._partition)
        else:
            self.state = self._last.state

    def lead(
        self,
        epoch: int | None,
        change: str,
        update: Callable[[PartitionState], PartitionState],
    ) -> None:
        """Take charge of the partition, and change it, in one entry.

        Args:
            epoch: The manager's leader epoch; None for that of the manager before it.
            change: What is changed, in a few words.
            update: Returns the state after the change.

        Raises:
            FencedError: Another manager is in charge: see ``PartitionState.led_by``.
            UnsupportedOperationError: See ``PartitionJournal.append``.
            ClosedError: The manager has said that it is gone.
        """
        self._heartbeat.beat()
        leader, owner = self.state.leader, self._heartbeat.owner
        if epoch is None:
            epoch = self.state.leader_epoch
        other = None if leader is None or leader.owner == owner else leader
        is_abandoned = self._is_only_writer or (
            other is not None
            and other.epoch == epoch
            and self._heartbeat.is_dead(other.owner)
        )
        led = self.state.led_by(owner, epoch, is_abandoned=is_abandoned)
        self._write(change, update(led))
        if other is not None and is_abandoned:
            self._heartbeat.clear_dead(other.owner)

    def change(
        self, change: str, update: Callable[[PartitionState], PartitionState]
    ) -> None:
        """Change the partition.

        Args:
            change: What is changed, in a few words.
            update: Returns the state after the change.

        Raises:
            FencedError: Another manager has changed it meanwhile, so it is in charge.
            ClosedError: The manager has said that it is gone.
        """
        self._heartbeat.beat()
        self._write(change, update(self.state))

    def forget(self) -> None:
        """Delete the journal: the partition is as one that was never managed."""
        self._journal.clear()
        self.read()

    def _write(self, change: str, state: PartitionState) -> None:
        self._last = self._journal.append(self._last, change, state)
        self.state = state
