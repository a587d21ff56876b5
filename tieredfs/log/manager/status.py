"""What is known of a managed partition: its lag, where it begins, what failed."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self

from tieredfs.model import TopicIdPartition

__all__ = ["NO_LAG", "Lag", "PartitionStatus", "Role"]


class Role(StrEnum):
    """What a manager does with a partition."""

    LEADER = "leader"
    """It copies the log's segments and deletes those that have expired."""

    FOLLOWER = "follower"
    """It follows what the leader has done, and writes nothing."""


@dataclass(frozen=True, slots=True)
class Lag:
    """What is closed in the log and not yet in the tier.

    Attributes:
        segments: The number of segments.
        size: Their bytes.
        since_ms: When the first of them was last written, in milliseconds since 1970;
            None if there is none, or if that is not known.
    """

    segments: int = 0
    size: int = 0
    since_ms: int | None = None


NO_LAG = Lag()


@dataclass(frozen=True, slots=True)
class PartitionStatus:
    """The status of one partition, as its last task has left it.

    Attributes:
        partition: The partition.
        role: What the manager does with it.
        epoch: The leader epoch that it was assigned with; None for that of the manager
            before it.
        earliest_offset: The first offset of the tier; None before the first task.
        end_offset: The offset after the last one in the tier; None if that is not
            known.
        lag: What is to be copied.
        copied_segments: Number of the segments that were copied.
        copied_bytes: Their bytes.
        deleted_segments: Number of the segments that were deleted.
        failures: Number of the tasks that failed; that another manager is in charge is
            no failure.
        error: Why the last task failed; None if it did not.
        is_gone: Whether the partition was deleted.
    """

    partition: TopicIdPartition
    role: Role
    epoch: int | None = None
    earliest_offset: int | None = None
    end_offset: int | None = None
    lag: Lag = NO_LAG
    copied_segments: int = 0
    copied_bytes: int = 0
    deleted_segments: int = 0
    failures: int = 0
    error: Exception | None = None
    is_gone: bool = False

    def counted_from(self, before: Self) -> Self:
        """Return the status with the counts of the one before added to its own."""
        return replace(
            self,
            copied_segments=self.copied_segments + before.copied_segments,
            copied_bytes=self.copied_bytes + before.copied_bytes,
            deleted_segments=self.deleted_segments + before.deleted_segments,
        )
