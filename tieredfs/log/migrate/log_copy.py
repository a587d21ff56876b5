"""Migrate a partition whose segments have no ids of their own, as a push does.

In a broker's log directory a segment is named by its offset, and the cleaner rewrites
it under this name. So its id is that of its content, and its indexes may have to be
rebuilt from what the segments before it left.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from tieredfs.errors import CorruptObjectError
from tieredfs.format.index.builder import INTERVAL_BYTES
from tieredfs.log.migrate.read_back import wrong_copy
from tieredfs.log.push.outcome import PushedSegment, PushOutcome
from tieredfs.log.push.partition_push import PartitionPush
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager, StorageWrapper
from tieredfs.storage.segment_log.content_id import ContentId

__all__ = ["copy_log"]


def copy_log(
    source: RemoteStorageManager,
    target: RemoteStorageManager,
    partition: TopicIdPartition,
    starts: Collection[int],
    watch: Callable[[memoryview], object],
) -> Iterator[PushedSegment]:
    """Yield each closed segment of a partition when it is copied and read back.

    Args:
        source: Where the log is.
        target: Where the segments go.
        partition: The partition.
        starts: The start offsets of the segments to copy.
        watch: Called with each piece of a log when it has been read.
    """
    push = PartitionPush(
        _Part(source, starts),
        target,
        partition,
        active=False,
        repair=False,
        interval_bytes=INTERVAL_BYTES,
        record=None,
        watch=watch,
        ends_when_refused=False,
    )
    for one in push.run():
        if one.outcome is PushOutcome.COPIED:
            yield _verified(target, one)
        else:
            yield one


def _verified(target: RemoteStorageManager, one: PushedSegment) -> PushedSegment:
    """Read a copy back, and compare it with its id, the hash of what was read."""
    segment = one.segment

    def compare(pieces: Iterable[memoryview]) -> str | None:
        content = ContentId(segment.partition, segment.start_offset)
        for piece in pieces:
            content.add(piece)
        return None if content.finish() == segment.id else "its content has another id"

    detail = wrong_copy(target, segment, compare)
    if detail is None:
        return one
    target.delete_log_segment(segment)
    wrong = CorruptObjectError(
        f"{target.name_of(segment)}: the copy is not what was read, and was deleted "
        f"again: {detail}"
    )
    return PushedSegment(segment, PushOutcome.FAILED, error=wrong)


class _Part(StorageWrapper):
    """A storage of which only some segments are listed."""

    def __init__(self, inner: RemoteStorageManager, starts: Collection[int]) -> None:
        super().__init__(inner)
        self._starts = frozenset(starts)

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments that begin at one of the offsets."""
        listed = super().list_segments(partition, min_offset)
        return [one for one in listed if one.start_offset in self._starts]
