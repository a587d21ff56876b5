"""What became of a segment that was to be pushed."""

from dataclasses import dataclass
from enum import StrEnum

from tieredfs.errors import TieredFSError
from tieredfs.model import IndexType, SegmentMetadata, TopicIdPartition

__all__ = ["FailedPartition", "PushOutcome", "PushedSegment"]


class PushOutcome(StrEnum):
    """What became of a segment."""

    COPIED = "copied"
    PRESENT = "present"
    """It was there already."""

    CHANGED = "changed"
    """The broker kept rewriting it while it was read: the next push copies it, and what
    follows it."""

    FAILED = "failed"
    """It is corrupt, cannot be read, or is of a format that is not read; or the target
    refuses it, or holds other records at its offsets."""


@dataclass(frozen=True, slots=True)
class PushedSegment:
    """One segment of a push.

    Attributes:
        segment: As it was listed, or with the id that it has in the store.
        outcome: What became of it.
        rebuilt: The indexes that were missing or untrue, and were made anew.
        error: Why it failed.
        replaced: What was wrong with the copy that it was put in place of.
    """

    segment: SegmentMetadata
    outcome: PushOutcome
    rebuilt: tuple[IndexType, ...] = ()
    error: TieredFSError | None = None
    replaced: TieredFSError | None = None


@dataclass(frozen=True, slots=True)
class FailedPartition:
    """A partition that could not be listed, in the source or in the target.

    Attributes:
        partition: Which one.
        error: Why it failed.
    """

    partition: TopicIdPartition
    error: TieredFSError
