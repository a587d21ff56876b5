"""What is known of a partition besides its segments: where it begins, what is deleted.

A pure value: each method returns the state after a change, or raises.
"""

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from tieredfs.errors import FencedError, InvalidArgumentError, InvalidTransitionError
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.states import PartitionDeleteState, SegmentState, advance

__all__ = ["Leader", "PartitionState", "TrackedSegment"]


class Leader(NamedTuple):
    """The manager that is in charge of a partition.

    Attributes:
        owner: The manager's unique name.
        epoch: Its leader epoch: a manager of a higher one takes its place.
    """

    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class TrackedSegment:
    """A segment that is being copied or deleted.

    Attributes:
        id: Its id.
        start_offset: Its first offset.
        state: What is being done with it.
        since_ms: When that began, in milliseconds since 1970.
    """

    id: SegmentId
    start_offset: int
    state: SegmentState
    since_ms: int


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The state of a partition.

    Attributes:
        partition: The partition.
        leader: The manager in charge; None for none.
        log_start: The earliest offset; it only increases.
        segments: The segments that are being copied or deleted, by id. All others are
            in COPY_SEGMENT_FINISHED where the store lists them, and gone where not.
        deletion: How far the deletion of the whole partition has come; None where it is
            not to be deleted.
        leader_epoch: That of the last manager in charge, also of one that has let go.
    """

    partition: TopicIdPartition
    leader: Leader | None = None
    log_start: int = 0
    segments: Mapping[SegmentId, TrackedSegment] = field(default_factory=dict)
    deletion: PartitionDeleteState | None = None
    leader_epoch: int = 0

    def led_by(self, owner: str, epoch: int, *, is_abandoned: bool) -> Self:
        """Return the state in which a manager is in charge.

        Args:
            owner: The manager's unique name.
            epoch: Its leader epoch.
            is_abandoned: Whether the manager that was in charge has died.

        Raises:
            FencedError: Another manager is in charge, of a higher leader epoch, or of
                the same one and alive; or one of a higher epoch was.
        """
        leader = self.leader
        if leader is None:
            if epoch < self.leader_epoch:
                raise FencedError(
                    f"{self.partition}: the manager before had leader epoch "
                    f"{self.leader_epoch}; this one has {epoch}"
                )
        elif leader.owner != owner:
            is_newer = epoch > leader.epoch
            if epoch < leader.epoch or not (is_newer or is_abandoned):
                mine = (
                    ", as this one, and is alive"
                    if epoch == leader.epoch
                    else f"; this one has {epoch}"
                )
                raise FencedError(
                    f"{self.partition}: {leader.owner} is in charge, with leader epoch "
                    f"{leader.epoch}{mine}"
                )
        elif epoch < leader.epoch:
            raise InvalidArgumentError(
                f"{self.partition}: leader epoch {epoch} is below {leader.epoch}, "
                f"which {owner} has already"
            )
        return replace(self, leader=Leader(owner, epoch), leader_epoch=epoch)

    def released(self) -> Self:
        """Return the state in which no manager is in charge."""
        return replace(self, leader=None)

    def with_log_start(self, offset: int) -> Self:
        """Return the state with another earliest offset, unless it would go back."""
        return replace(self, log_start=max(self.log_start, offset))

    def with_segments(
        self, segments: Iterable[SegmentMetadata], state: SegmentState, now_ms: int
    ) -> Self:
        """Return the state after a step of some segments.

        Args:
            segments: The segments; those to be copied are not in the store yet.
            state: What each has from now on.
            now_ms: The time, in milliseconds since 1970.

        Raises:
            InvalidTransitionError: One is in a state that this one cannot follow.
        """
        tracked = dict(self.segments)
        for segment in segments:
            known = tracked.pop(segment.id, None)
            name = f"{self.partition}/{segment.start_offset} ({segment.id})"
            if known is not None:
                before: SegmentState | None = known.state
            elif state is SegmentState.COPY_SEGMENT_STARTED:
                before = None
            else:
                before = SegmentState.COPY_SEGMENT_FINISHED
            advance(before, state, name=name)
            if state in _TRACKED:
                since = known.since_ms if known and known.state is state else now_ms
                tracked[segment.id] = TrackedSegment(
                    segment.id, segment.start_offset, state, since
                )
        return replace(self, segments=tracked)

    @property
    def to_delete(self) -> frozenset[SegmentId]:
        """The segments whose deletion has begun."""
        started = SegmentState.DELETE_SEGMENT_STARTED
        return frozenset(
            one.id for one in self.segments.values() if one.state is started
        )

    def with_deleted(self, gone: Collection[SegmentId]) -> Self:
        """Return the state in which some segments are gone.

        Args:
            gone: Their ids; of those whose deletion has not begun, nothing changes.
        """
        gone = self.to_delete.intersection(gone)
        rest = {key: one for key, one in self.segments.items() if key not in gone}
        return replace(self, segments=rest)

    @property
    def copying(self) -> frozenset[SegmentId]:
        """The segments whose copy has begun and is not known to have ended."""
        started = SegmentState.COPY_SEGMENT_STARTED
        return frozenset(
            one.id for one in self.segments.values() if one.state is started
        )

    def with_settled_copies(self, stored: Container[SegmentId], now_ms: int) -> Self:
        """Return the state in which no segment is being copied.

        Args:
            stored: The segments that the store lists: their copies were finished. What
                the others have left is to be deleted.
            now_ms: The time, in milliseconds since 1970.
        """
        segments = dict(self.segments)
        for key in self.copying:
            one = segments.pop(key)
            if key not in stored:
                deleted = SegmentState.DELETE_SEGMENT_STARTED
                segments[key] = replace(one, state=deleted, since_ms=now_ms)
        return replace(self, segments=segments)

    def with_deletion(self, deletion: PartitionDeleteState) -> Self:
        """Return the state after a step of the partition's deletion.

        Raises:
            InvalidTransitionError: It cannot follow the present one.
        """
        advance(self.deletion, deletion, name=str(self.partition))
        return replace(self, deletion=deletion)

    def check_copied(self) -> None:
        """Check that segments may be copied to the partition.

        Raises:
            InvalidTransitionError: It is being deleted.
        """
        if self.deletion is not None:
            raise InvalidTransitionError(
                f"{self.partition} is {self.deletion.name}: nothing is copied to it"
            )


_TRACKED = (SegmentState.COPY_SEGMENT_STARTED, SegmentState.DELETE_SEGMENT_STARTED)
"""The states of a segment that is not simply there, or gone."""
