"""What became of a segment that was to be pushed."""

from dataclasses import dataclass
from enum import StrEnum

from tieredfs.errors import TieredFSError
from tieredfs.model import IndexType, SegmentMetadata

__all__ = ["PushOutcome", "PushedSegment"]


class PushOutcome(StrEnum):
    """What became of a segment."""

    COPIED = "copied"
    PRESENT = "present"
    """It was there already."""

    CHANGED = "changed"
    """The broker kept rewriting it while it was read: the next push copies it, and what
    follows it."""

    FAILED = "failed"
    """It is corrupt, or of a format that is not read, or the target holds other records
    at its offsets."""


@dataclass(frozen=True, slots=True)
class PushedSegment:
    """One segment of a push.

    Attributes:
        segment: As it was listed, or with the id that it has in the store.
        outcome: What became of it.
        rebuilt: The indexes that were missing or untrue, and were made anew.
        error: Why it failed.
    """

    segment: SegmentMetadata
    outcome: PushOutcome
    rebuilt: tuple[IndexType, ...] = ()
    error: TieredFSError | None = None
