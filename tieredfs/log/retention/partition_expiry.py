"""Find what has expired of one partition, and delete it, in the manager's name."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tieredfs.errors import NotFoundError
from tieredfs.log.journal.led_partition import LedPartition
from tieredfs.log.journal.state import PartitionState
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.log.retention.plan import (
    Retention,
    expired_segments,
    expired_until,
    next_expiry_ms,
)
from tieredfs.model import UNKNOWN_TOPIC_ID, SegmentMetadata
from tieredfs.states import SegmentState
from tieredfs.storage import RemoteStorageManager

__all__ = ["ExpiryPlan", "delete_expired", "plan_expiry"]


@dataclass(frozen=True, slots=True)
class ExpiryPlan:
    """What has expired of a partition.

    Attributes:
        log_start: The earliest offset that is kept.
        segments: The segments to delete, in the order of ``expired_segments``; also
            those whose deletion an earlier run has begun.
        next_ms: When the next segment will have expired by its age, in milliseconds
            since 1970; None for never.
        first_offset: The first offset that is stored; 0 without segments.
        end_offset: The offset after the last one that is stored; 0 without segments.
    """

    log_start: int
    segments: tuple[SegmentMetadata, ...] = ()
    next_ms: int | None = None
    first_offset: int = 0
    end_offset: int = 0


def plan_expiry(
    storage: RemoteStorageManager,
    catalog: SegmentCatalog,
    state: PartitionState,
    retention: Retention,
    now_ms: int,
) -> ExpiryPlan:
    """Find what has expired of a partition; nothing is changed.

    Args:
        storage: The tier.
        catalog: Lists and describes its segments.
        state: What the journal of the partition says.
        retention: What is kept.
        now_ms: The time, in milliseconds since 1970.

    Raises:
        CorruptDataError: The segments contradict each other.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """
    reader = TieredReader(storage, catalog, state.partition)
    try:
        segments = reader.segments()
    except NotFoundError:  # all of it was deleted
        return ExpiryPlan(state.log_start)
    held = bounds_of(segments)
    tiles = reader.tiles(segments, held.beginning, held.end, skip_gaps=True)
    until = expired_until(tiles, retention, now_ms, catalog.describe)
    log_start = max(state.log_start, until or 0)
    # A topic that was made again under the name has offsets below the old ones.
    partition = state.partition
    is_one_log = storage.keeps_topic_ids and partition.topic_id != UNKNOWN_TOPIC_ID
    kept_from = log_start if is_one_log else until or 0
    expired = expired_segments(segments, tiles, kept_from, state.to_delete)
    next_ms = next_expiry_ms(tiles, kept_from, retention, catalog.describe)
    return ExpiryPlan(log_start, tuple(expired), next_ms, held.beginning, held.end)


def delete_expired(  # noqa: PLR0913 - what is deleted, for whom, and when
    storage: RemoteStorageManager,
    led: LedPartition,
    plan: ExpiryPlan,
    *,
    epoch: int | None,
    delay_ms: int = 0,
    now_ms: Callable[[], int],
    is_released: bool,
) -> Iterator[SegmentMetadata]:
    """Note what has expired, delete it in order, and note that it is gone.

    The earliest offset advances before a segment is deleted, so no reader finds a hole.

    Args:
        storage: The tier.
        led: The partition, whose state the plan was made of.
        plan: What has expired.
        epoch: The manager's leader epoch; None for that of the manager before it.
        delay_ms: Milliseconds from the first entry that names a segment until it is
            deleted, for readers that still have it open.
        now_ms: Returns the time, in milliseconds since 1970.
        is_released: Whether no manager is in charge afterwards.

    Yields:
        Each segment when it is gone.

    Raises:
        FencedError: Another manager is in charge.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """
    since = now_ms()
    where = f"{len(plan.segments)} segments before offset {plan.log_start}"

    def begin(state: PartitionState) -> PartitionState:
        later = state.with_log_start(plan.log_start)
        started = SegmentState.DELETE_SEGMENT_STARTED
        return later.with_segments(plan.segments, started, since)

    after = begin(led.state)
    due = {
        one.id for one in after.segments.values() if one.since_ms <= since - delay_ms
    }
    # Without this entry it is not known whether this manager is still in charge.
    if after != led.state or due & after.to_delete or is_released:
        led.lead(epoch, f"delete {where}", begin)
    gone = [one for one in plan.segments if one.id in due]
    for segment in gone:
        storage.delete_log_segment(segment)
        yield segment
    # What the journal names and the store does not list is gone as well.
    waiting = {one.id for one in plan.segments if one.id not in due}
    ids = led.state.to_delete - waiting
    if ids or is_released:

        def end(state: PartitionState) -> PartitionState:
            later = state.with_deleted(ids)
            return later.released() if is_released else later

        led.lead(epoch, f"deleted {len(gone)} of {where}", end)
