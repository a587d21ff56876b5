"""The outcome of pushing a segment."""

from dataclasses import dataclass
from enum import StrEnum

from tieredfs.errors import TieredFSError
from tieredfs.model import IndexType, SegmentMetadata, TopicIdPartition

__all__ = ["FailedPartition", "PushOutcome", "PushedSegment"]


class PushOutcome(StrEnum):
    """The outcome of one segment."""

    COPIED = "copied"
    PRESENT = "present"
    """It existed already."""

    CHANGED = "changed"
    """The broker kept rewriting it while it was read: the next push copies it and the
    later segments."""

    FAILED = "failed"
    """It is corrupt, unreadable, or of an unsupported format; or the target rejects it,
    or has other records at its offsets."""


@dataclass(frozen=True, slots=True)
class PushedSegment:
    """One segment of a push.

    Attributes:
        segment: As it was listed, or with its id in the store.
        outcome: The outcome.
        rebuilt: The indexes that were missing or inconsistent with the log, and were
            rebuilt.
        error: Why it failed.
        replaced: What was wrong with the copy that it replaced.
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
