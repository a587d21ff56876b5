"""The outcome of pushing segments."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tieredfs.errors import (
    CorruptDataError,
    FencedError,
    InvalidArgumentError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
from tieredfs.model import IndexType, SegmentMetadata, TopicIdPartition

__all__ = [
    "PARTITION_FAILURES",
    "FailedPartition",
    "PushOutcome",
    "PushReport",
    "PushedSegment",
]

PARTITION_FAILURES: Final = (
    CorruptDataError,
    FencedError,
    InvalidArgumentError,
    PermissionDeniedError,
    UnsupportedFormatError,
    UnsupportedOperationError,
)
"""Errors that end one partition, but not the push or the migration of the others."""


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
        error: Why it failed, without a traceback.
        replaced: What was wrong with the copy that it replaced, without a traceback.
    """

    segment: SegmentMetadata
    outcome: PushOutcome
    rebuilt: tuple[IndexType, ...] = ()
    error: TieredFSError | None = None
    replaced: TieredFSError | None = None

    def __post_init__(self) -> None:
        """Drop the tracebacks of the errors."""
        _drop_tracebacks(self.error)
        _drop_tracebacks(self.replaced)


@dataclass(frozen=True, slots=True)
class FailedPartition:
    """A partition that could not be listed, in the source or in the target.

    Attributes:
        partition: Which one.
        error: Why it failed, without a traceback.
    """

    partition: TopicIdPartition
    error: TieredFSError

    def __post_init__(self) -> None:
        """Drop the tracebacks of the error."""
        _drop_tracebacks(self.error)


@dataclass(frozen=True, slots=True)
class PushReport:
    """The result of a push.

    Attributes:
        segments: The segments, sorted by partition and offset.
        partitions: The partitions that failed; some of their segments may have been
            pushed before.
    """

    segments: tuple[PushedSegment, ...]
    partitions: tuple[FailedPartition, ...] = ()

    def count(self, outcome: PushOutcome) -> int:
        """Count the segments with one outcome."""
        return sum(one.outcome is outcome for one in self.segments)

    @property
    def errors(self) -> list[TieredFSError]:
        """Why segments and partitions failed."""
        found = [one.error for one in self.segments if one.error is not None]
        return [*found, *(one.error for one in self.partitions)]


def _drop_tracebacks(error: BaseException | None) -> None:
    """Let go of the frames in which an error was raised, which hold the log's bytes."""
    pending, seen = [error], set[int]()
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            pending += [one.__cause__, one.__context__]
