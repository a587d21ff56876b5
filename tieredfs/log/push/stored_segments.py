"""The segments of a partition in the target of a push, as they were listed."""

from collections.abc import Iterator
from dataclasses import replace

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import CorruptDataError, NotFoundError
from tieredfs.log.push.source_log import UNUSABLE
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.content_id import ContentId

__all__ = ["StoredSegments"]

_Identity = tuple[int, int | None, SegmentId]
"""First and last offset and id of a copy."""


class StoredSegments:
    """The whole segments of a partition; damaged ones are left out and put again."""

    def __init__(
        self, target: RemoteStorageManager, partition: TopicIdPartition
    ) -> None:
        """List the segments.

        Args:
            target: Where they are.
            partition: The partition, which need not exist.
        """
        self._target = target
        self._partition = partition
        self._listed: dict[_Identity, SegmentMetadata] = {}
        self.refresh()

    def __iter__(self) -> Iterator[SegmentMetadata]:
        """Iterate over the segments as they were listed."""
        return iter(self._listed.values())

    def refresh(self) -> None:
        """List the segments again."""
        whole = _whole(self._target, self._partition)
        self._listed = {_identity(one): one for one in whole}

    def add(self, segment: SegmentMetadata) -> None:
        """Add a segment that has just been stored."""
        self._listed[_identity(segment)] = segment

    def find(self, segment: SegmentMetadata) -> SegmentMetadata | None:
        """Return a segment as the target has it, if it does.

        A listing may lack fields. An object of another size was cut: the id of a
        segment is that of its bytes.
        """
        without_end = replace(segment, end_offset=None)
        found = self._listed.get(_identity(segment))
        found = found or self._listed.get(_identity(without_end))
        if found is None:
            return None
        if found.size is not None and found.size != segment.size:
            return None
        return replace(found, end_offset=segment.end_offset, size=segment.size)

    def hold_from(
        self, offset: int, segment: SegmentMetadata, epochs: LeaderEpochs
    ) -> bool:
        """Return whether they have all that a segment has from an offset on.

        Of one leader epoch, replicas have the same records at the same offsets.

        Args:
            offset: An offset of the segment.
            segment: The segment, with its end offset.
            epochs: Its leader epochs. Without any the answer is False: nothing shows
                that the stored segments are of the same log.
        """
        if not epochs.entries:
            return False
        end = (segment.end_offset or 0) + 1
        overlapping = (
            one
            for one in self
            if one.start_offset < end
            and (one.end_offset is None or one.end_offset >= offset)
        )
        for listed in sorted(overlapping, key=lambda one: one.start_offset):
            if listed.start_offset > offset or offset >= end:
                break
            try:
                stored = self._target.describe(listed)
            except UNUSABLE:
                continue
            until = min((stored.end_offset or 0) + 1, end)
            theirs = LeaderEpochs(stored.leader_epochs or ())
            agree = epochs.agreement_end(theirs, offset, until) >= until
            if theirs.entries and agree:
                offset = max(offset, until)
        return offset >= end

    def with_stored_id(self, segment: SegmentMetadata) -> SegmentMetadata:
        """Return a segment with the id under which the target has its bytes.

        A segment that was appended has another id than its content gives it. So where
        the target has other segments of the same offsets and size, they are read.
        """
        if self.find(segment) is not None:
            return segment
        for stored in self:
            found = replace(segment, id=stored.id)
            if (
                stored.start_offset == segment.start_offset
                and stored.size is not None
                and self.find(found) is not None
                and _content_id(self._target, stored) == segment.id
            ):
                return found
        return segment


def _identity(segment: SegmentMetadata) -> _Identity:
    """Identify a copy: the cleaner can change a log's end but none of its bytes."""
    return segment.start_offset, segment.end_offset, segment.id


def _whole(
    storage: RemoteStorageManager, partition: TopicIdPartition
) -> Iterator[SegmentMetadata]:
    """Yield the whole segments, without damaged ones, which are put again."""
    try:
        for one in storage.survey(partition):
            if isinstance(one, SegmentMetadata):
                yield one
            elif not isinstance(one, CorruptDataError):
                raise one
    except NotFoundError:
        return


def _content_id(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> SegmentId | None:
    """Return the id that a stored log's content gives it; None if it is unreadable."""
    content = ContentId(segment.partition, segment.start_offset)
    try:
        for piece in storage.stream_log(segment):
            content.add(piece)
    except UNUSABLE:
        return None
    return content.finish()
