"""What the key of a segment in the native layout says: all that a planner needs.

A ``KeyScheme`` writes it as the name of an object, and reads it back.
"""

from dataclasses import dataclass
from enum import IntFlag
from typing import Final

from tieredfs.model import SegmentId

__all__ = ["KNOWN_FLAGS", "SegmentFlag", "SegmentKey"]


class SegmentFlag(IntFlag):
    """The flags of a segment."""

    TRANSACTIONS = 1
    """The transaction index is not empty."""

    TRANSFORMED = 2
    """The log is stored as chunks."""


# A plain int: the complement of an IntFlag has only known bits and hides the others.
KNOWN_FLAGS: Final = int(SegmentFlag.TRANSACTIONS | SegmentFlag.TRANSFORMED)
"""All flags that this release knows."""


@dataclass(frozen=True, slots=True)
class SegmentKey:
    """The fields of a segment's key.

    Attributes:
        end_offset: Last offset, inclusive.
        start_offset: First offset.
        max_timestamp_ms: Largest record timestamp; -1 for none.
        epoch: Highest leader epoch; -1 when unknown.
        log_length: Size of the log as stored, in bytes.
        tail_length: Size of the tail after the log, in bytes.
        flags: The segment's flags.
        id: The segment's id.
    """

    end_offset: int
    start_offset: int
    max_timestamp_ms: int
    epoch: int
    log_length: int
    tail_length: int
    flags: SegmentFlag
    id: SegmentId

    @property
    def size(self) -> int:
        """Size of the whole object in bytes."""
        return self.log_length + self.tail_length
