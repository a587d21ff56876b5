"""What the target of a migration has already."""

from collections import Counter
from collections.abc import Collection, Iterable
from functools import partial

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    SEGMENT_ERRORS,
    FencedError,
)
from tieredfs.log.journal.journal import first_copied_offset
from tieredfs.log.migrate.chosen_segments import (
    ChosenSegments,
    OffsetRange,
    choose_segments,
    without_expired,
)
from tieredfs.log.push.stored_segments import StoredSegments
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["StoredCopies", "compare_partition"]


class StoredCopies:
    """The whole segments of a partition in the target.

    An id belongs to one copy of a segment, so what has it has the same log, unless it
    was damaged since. A layout that reuses names keeps no ids: there a segment may be
    the one that has its offsets, and only its content shows whether it is.

    Attributes:
        listed: The segments, as the target lists them.
    """

    def __init__(
        self, stored: Iterable[SegmentMetadata], alone: Collection[int] = ()
    ) -> None:
        """Take the segments as the target lists them; damaged ones are left out.

        Args:
            stored: The segments.
            alone: The offsets at which one segment of the source begins, and no other.
        """
        self.listed = tuple(stored)
        self._by_id: dict[tuple[int, SegmentId], list[SegmentMetadata]] = {}
        self._without_id: dict[int, SegmentMetadata] = {}
        for one in self.listed:
            self._by_id.setdefault((one.start_offset, one.id), []).append(one)
            if one.version and one.start_offset in alone:
                self._without_id[one.start_offset] = one

    def find_by_id(self, segment: SegmentMetadata) -> SegmentMetadata | None:
        """Return the copy of a segment, if there is a whole one.

        The end and the size are compared where both listings have them: an object of
        another size was cut.

        Args:
            segment: As the source lists or describes it.
        """
        found = self._by_id.get((segment.start_offset, segment.id), ())
        return next((one for one in found if _agree(one, segment)), None)

    def find_by_offsets(self, segment: SegmentMetadata) -> SegmentMetadata | None:
        """Return what may be the copy of a segment in a layout without ids.

        It has the same offsets and size, as far as both listings have them, and may be
        of another log.

        Args:
            segment: As the source lists or describes it.
        """
        found = self._without_id.get(segment.start_offset)
        return found if found is not None and _agree(found, segment) else None


def compare_partition(
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    partition: TopicIdPartition,
    wanted: OffsetRange,
) -> tuple[ChosenSegments, StoredCopies]:
    """List a partition in the source and in the target of a migration.

    Segments that have expired in the target are left out, also those that have expired
    in part if the target has the rest.

    Of a log without ids no copy is listed: its segments are found by their content.

    Args:
        source: The source.
        target: The target, which need not have the partition.
        partition: The partition.
        wanted: The records whose segments are migrated.

    Raises:
        StorageUnavailableError: A store failed in all attempts of its policy.
    """
    try:
        log_start = first_copied_offset(target, partition)
    except (FencedError, *SEGMENT_ERRORS) as error:
        return ChosenSegments((), (error,)), StoredCopies(())
    chosen = choose_segments(source, partition, wanted)
    if chosen.are_names_reused:  # then a push decides, segment by segment
        return without_expired(source, chosen, log_start), StoredCopies(())
    try:
        stored = StoredSegments(target, partition)
    except SEGMENT_ERRORS as error:
        return ChosenSegments((), (*chosen.errors, error)), StoredCopies(())
    chosen = without_expired(source, chosen, log_start, partial(_hold_rest, stored))
    starts = Counter(one.start_offset for one in chosen.segments)
    alone = {start for start, count in starts.items() if count == 1}
    return chosen, StoredCopies(stored, alone)


def _hold_rest(
    stored: StoredSegments, log_start: int, segment: SegmentMetadata
) -> bool:
    """Return whether what has not expired of a described segment is stored.

    What a cleaner has gone through is copied still: what it no longer has may be what
    hides stored records.
    """
    start, end = segment.start_offset, segment.end_offset
    if end is None or segment.record_count != end - start + 1:
        return False
    epochs = LeaderEpochs(segment.leader_epochs or ())
    return stored.hold_from(log_start, segment, epochs)


def _agree(one: SegmentMetadata, other: SegmentMetadata) -> bool:
    facts = ((one.end_offset, other.end_offset), (one.size, other.size))
    return all(None in pair or pair[0] == pair[1] for pair in facts)
