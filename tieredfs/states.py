"""The states of a segment and of a deleted partition, and which may follow which.

One table holds every transition that is allowed, and the documentation's diagram is
drawn from it. Source: KIP-405, ``RemoteLogSegmentState`` and
``RemotePartitionDeleteState``.
"""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeAlias, TypeVar

from tieredfs.errors import InvalidTransitionError

__all__ = ["TRANSITIONS", "PartitionDeleteState", "SegmentState", "State", "advance"]


class SegmentState(StrEnum):
    """What is being done with a segment in the store."""

    COPY_SEGMENT_STARTED = "copy_segment_started"
    """It is being copied: readers do not see it, and if its writer died it is left
    over."""

    COPY_SEGMENT_FINISHED = "copy_segment_finished"
    """It is whole, and readers see it."""

    DELETE_SEGMENT_STARTED = "delete_segment_started"
    """It is to be deleted. Readers may still have it open."""

    DELETE_SEGMENT_FINISHED = "delete_segment_finished"
    """It is gone."""


class PartitionDeleteState(StrEnum):
    """How far the deletion of a partition has come."""

    DELETE_PARTITION_MARKED = "delete_partition_marked"
    """It is to be deleted, and nothing is copied to it any more."""

    DELETE_PARTITION_STARTED = "delete_partition_started"
    """Its segments are being deleted."""

    DELETE_PARTITION_FINISHED = "delete_partition_finished"
    """All of them are gone."""


State: TypeAlias = SegmentState | PartitionDeleteState
_S = TypeVar("_S", SegmentState, PartitionDeleteState)

TRANSITIONS: Final[Mapping[State | None, tuple[State, ...]]] = MappingProxyType(
    {
        None: (
            SegmentState.COPY_SEGMENT_STARTED,
            PartitionDeleteState.DELETE_PARTITION_MARKED,
        ),
        SegmentState.COPY_SEGMENT_STARTED: (
            SegmentState.COPY_SEGMENT_FINISHED,
            SegmentState.DELETE_SEGMENT_STARTED,
        ),
        SegmentState.COPY_SEGMENT_FINISHED: (SegmentState.DELETE_SEGMENT_STARTED,),
        SegmentState.DELETE_SEGMENT_STARTED: (SegmentState.DELETE_SEGMENT_FINISHED,),
        SegmentState.DELETE_SEGMENT_FINISHED: (),
        PartitionDeleteState.DELETE_PARTITION_MARKED: (
            PartitionDeleteState.DELETE_PARTITION_STARTED,
        ),
        PartitionDeleteState.DELETE_PARTITION_STARTED: (
            PartitionDeleteState.DELETE_PARTITION_FINISHED,
        ),
        PartitionDeleteState.DELETE_PARTITION_FINISHED: (),
    }
)
"""The states that may follow each state; those after None are the first ones."""


def advance(current: _S | None, following: _S, *, name: str) -> _S:
    """Return the following state, checked against the table.

    A state may follow itself, so that a step whose outcome was lost can be repeated.

    Args:
        current: The present state; None before the first one.
        following: The state that it is to have.
        name: What has the state, for the error.

    Raises:
        InvalidTransitionError: The table does not allow it.
    """
    if following is current or following in TRANSITIONS[current]:
        return following
    before = "without a state" if current is None else current.name
    raise InvalidTransitionError(f"{name} is {before}: {following.name} cannot follow")
