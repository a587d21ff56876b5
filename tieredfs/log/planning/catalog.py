"""The segments of a partition, and everything that is known of them."""

import time
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import Enum
from itertools import islice
from typing import TypeAlias

import numpy as np
from cachetools import LRUCache

from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.errors import NotFoundError, PluginError
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.integers import MAX_INT64
from tieredfs.log.planning.columns import (
    ends_of,
    first_of,
    may_diverge,
    overlaps,
    starts_of,
)
from tieredfs.log.planning.copies import CopyComparison
from tieredfs.log.planning.last_segments import last_page, last_segments
from tieredfs.log.planning.unlisted_ends import describe_from
from tieredfs.model import (
    IndexType,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import MAX_PAGE_KEYS
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.objects.concurrency.nested_calls import NestedCalls
from tieredfs.storage import Capability, RemoteStorageManager, SegmentTable

__all__ = ["Known", "SegmentCatalog", "SegmentContent", "content_of"]

SegmentContent: TypeAlias = "tuple[SegmentId, str, bytes]"
"""A segment's id, version and custom metadata, which identify one object of it: two
processes may have stored a segment as two objects."""

_MAX_DESCRIPTIONS = 100_000  # descriptions; some 500 bytes each
_MAX_NEAR_SEGMENTS = 500  # segments to plan a read from, and to describe for it
_MAX_AGE_SECONDS = 300.0  # of what a whole listing has shown


def content_of(segment: SegmentMetadata) -> SegmentContent:
    """Return the identity of a segment's content, whether listed or described."""
    return segment.id, segment.version, segment.custom_metadata


class Known(Enum):
    """What is known of a segment: the names of its fields."""

    ENDS = ("end_offset", "size")
    TIMES = (*ENDS, "max_timestamp_ms")
    ALL = (*TIMES, "leader_epochs")

    def is_missing_in(self, segment: SegmentMetadata) -> bool:
        """Return whether one of the fields is not known."""
        return any(getattr(segment, name) is None for name in self.value)


class SegmentCatalog:
    """List the segments of partitions, and describe those whose listing is not enough.

    Every call lists again, so new segments are seen. Descriptions are cached: a
    segment's content never changes under one id and version.

    Attributes:
        compare: Determines which of two copies of the same offsets has fewer records.
        calls: Makes what planning asks for, a few requests at a time.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create a catalog, without sending a request.

        Args:
            storage: Where the segments are.
            clock: Returns a time in seconds that only grows.
        """
        self.compare = CopyComparison(storage)
        self._storage = storage
        self.calls = NestedCalls(
            storage.store.options.max_concurrent_requests,
            is_local=storage.store.is_local,
        )
        self._lock = make_lock()
        self._described: LRUCache[SegmentMetadata, SegmentMetadata] = LRUCache(
            _MAX_DESCRIPTIONS
        )
        self._confirmed: LRUCache[SegmentMetadata, None] = LRUCache(_MAX_DESCRIPTIONS)
        self._begun: set[TopicIdPartition] = set()
        self._clock = clock
        self._linear: dict[TopicIdPartition, tuple[bool, float]] = {}
        """Whether the segments were linear, which is of one history and without
        overlaps, and when all of them were last listed to determine that."""

        self._short_from: dict[TopicIdPartition, int] = {}
        """From which offset on few segments were left when all were last listed."""

    def begin(self, partitions: Iterable[TopicIdPartition]) -> None:
        """Treat new partitions as empty, not as missing, until they have a segment."""
        with self._lock:
            self._begun.update(partitions)

    def listed(
        self,
        partition: TopicIdPartition,
        *,
        without: Collection[SegmentContent] = frozenset(),
    ) -> Sequence[SegmentMetadata]:
        """Return the segments as they are listed, sorted by start offset.

        Args:
            partition: The partition.
            without: Segments to leave out.

        Raises:
            NotFoundError: There is no such partition.
        """
        try:
            listed = self._storage.list_segments_lazily(partition)
        except NotFoundError:
            if partition not in self._begun:
                raise
            return []
        if not without:
            return listed
        return [segment for segment in listed if content_of(segment) not in without]

    def complete(
        self, listed: Sequence[SegmentMetadata], known: Known
    ) -> Sequence[SegmentMetadata]:
        """Return the segments, after describing those of which too little is known.

        Args:
            listed: Segments, as they were listed or described.
            known: What has to be known of them.

        Raises:
            NotFoundError: A segment is gone.
            CorruptDataError: A segment is inconsistent with its indexes.
            PluginError: The plugin does not describe what it lists.
        """
        has_sizes = isinstance(listed, SegmentTable) and listed.has_sizes
        if has_sizes and known is not Known.ALL:
            return listed
        wanted = [segment for segment in listed if known.is_missing_in(segment)]
        found = self.calls.map(self.describe, wanted)
        described = dict(zip(wanted, found, strict=True))
        return [described.get(segment, segment) for segment in listed]

    def first_offset(self, partition: TopicIdPartition) -> int:
        """Return the first offset of a partition, from one page where that is enough.

        Raises:
            NotFoundError: There is no such partition.
        """
        if self._was_linear(partition) is not False:
            try:
                near = self._storage.seek(partition, 0)
            except NotFoundError:
                near = []  # it may have just begun
            are_known = all(segment.end_offset is not None for segment in near)
            if near and not (are_known and overlaps(near)):
                return first_of(near)
        return first_of(self.listed(partition))

    def last(self, partition: TopicIdPartition) -> list[SegmentMetadata] | None:
        """Return the last segments of a partition; None if all have to be listed.

        A log that fits on one page is returned whole. Of a longer one the last page is
        found by a search, and a history that ends before that page is not seen.

        Raises:
            NotFoundError: There is no such partition.
        """
        can_search = Capability.PLAN_FROM_LISTING in self._storage.capabilities
        if not can_search or self._was_linear(partition) is False:
            return None
        try:
            page = list(islice(self._storage.survey(partition), MAX_PAGE_KEYS))
        except NotFoundError:  # it may have just begun
            return None
        first = [one for one in page if isinstance(one, SegmentMetadata)]
        if len(first) < len(page):
            return None

        first.sort(key=lambda segment: segment.start_offset)
        whole = len(page) < MAX_PAGE_KEYS
        found = first if whole else self._search_last(partition, first)
        return found if found and self._are_linear(found) else None

    def _search_last(
        self, partition: TopicIdPartition, first: Sequence[SegmentMetadata]
    ) -> list[SegmentMetadata] | None:
        """Search for the last page of a log; None if it is not that of the last leader.

        Args:
            partition: The partition.
            first: The first page.
        """
        highest = self._highest_epoch(first)

        def seek(offset: int) -> list[SegmentMetadata]:
            nonlocal highest
            try:
                found = self._storage.seek(partition, offset)
            except NotFoundError:
                return []
            highest = max(highest, self._highest_epoch(found))
            return found

        last = last_segments(seek, first)
        if not last:
            return None
        found = sorted(last_page(seek, last), key=lambda one: one.start_offset)
        return None if self._highest_epoch(found) < highest else found

    def _highest_epoch(self, segments: Iterable[SegmentMetadata]) -> int:
        epochs = map(self._storage.highest_epoch, segments)
        known = (epoch for epoch in epochs if epoch is not None)
        return max(known, default=NO_EPOCH)

    def seek(
        self, partition: TopicIdPartition, offset: int, max_bytes: int = 1 << 20
    ) -> Sequence[SegmentMetadata]:
        """Return the first segments that end at ``offset`` or later, with their ends.

        Args:
            partition: The partition.
            offset: The offset.
            max_bytes: Bytes of logs that will be read: segments that have to be
                described are returned up to about this size.

        Raises:
            NotFoundError: There is no such partition, or no segment ends so late.
        """
        listed = self._listed_from(partition, offset)
        near = describe_from(
            listed, offset, max_bytes, self.describe_all, self.histories
        )
        return self.complete(listed, Known.ENDS) if near is None else near

    def _listed_from(
        self, partition: TopicIdPartition, offset: int
    ) -> Sequence[SegmentMetadata]:
        """List the first segments that end at ``offset`` or later; none if unsure.

        Where segments overlap or are of different histories, other segments determine
        which of them count. So all segments are listed once, and later calls rely on
        single pages as long as these show one history without overlaps. What is stored
        meanwhile may change that further away than a page reaches: after
        ``_MAX_AGE_SECONDS``, all segments are listed again.
        """
        is_linear = self._was_linear(partition)
        if is_linear is None:
            listed = self._storage.list_segments_lazily(partition)
            if not isinstance(listed, SegmentTable) and any(
                segment.end_offset is None for segment in listed
            ):
                return listed
            is_linear = self._are_linear(listed)
            self._remember(partition, is_linear=is_linear)
            if not is_linear:
                return []
            wanted = min(offset, MAX_INT64)
            first = int(np.searchsorted(ends_of(listed), wanted, side="right"))
            return listed[first : first + _MAX_NEAR_SEGMENTS]
        if not is_linear:
            return []
        near = self._storage.seek(partition, offset)
        if self._are_linear(near):
            return near
        self._remember(partition, is_linear=False)
        return []

    def listed_holding(
        self, partition: TopicIdPartition, offset: int
    ) -> Sequence[SegmentMetadata]:
        """List at least the segments that have an offset, or later ones.

        As for ``seek``, other segments may determine which of them count: all are
        listed once, and again after ``_MAX_AGE_SECONDS``. They are also where more than
        a page and a third of them are left: in columns a page takes 2 ms, in rows 80.

        Raises:
            NotFoundError: There is no such partition.
        """
        if Capability.PLAN_FROM_LISTING not in self._storage.capabilities:
            return self.listed(partition)
        is_linear = self._was_linear(partition)
        if is_linear and offset >= self._short_from.get(partition, 0):
            try:
                found = self._storage.list_segments(partition, offset)
            except NotFoundError:
                found = []
            is_linear = self._are_linear(found)
            if is_linear and found and first_of(found) <= offset:
                return found
            if not is_linear:
                self._remember(partition, is_linear=False)
        listed = self.listed(partition)
        if is_linear is None and listed:
            self._remember(partition, is_linear=self._are_linear(listed))
            row = min(2 * len(listed) // 3, max(len(listed) - MAX_PAGE_KEYS, 0))
            self._short_from[partition] = int(starts_of(listed)[row])
        return listed

    def _was_linear(self, partition: TopicIdPartition) -> bool | None:
        """Return what the last whole listing showed; None if that is too long ago."""
        with self._lock:
            is_linear, since = self._linear.get(partition, (None, 0.0))
        return is_linear if self._clock() - since < _MAX_AGE_SECONDS else None

    def _are_linear(self, listed: Sequence[SegmentMetadata]) -> bool:
        """Return whether segments are of one history and do not overlap."""
        return not (overlaps(listed) or self.may_diverge(listed))

    def _remember(self, partition: TopicIdPartition, *, is_linear: bool) -> None:
        with self._lock:
            self._linear[partition] = is_linear, self._clock()

    def describe(
        self, segment: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Return ``segment`` with every field known.

        Args:
            segment: As it was listed.
            indexes: All of its indexes, where they have been fetched.

        Raises:
            PluginError: The plugin left a field unknown.
        """
        with self._lock:
            known = self._described.get(segment)
        if known is None:
            known = self._storage.describe(segment, indexes)
            if not known.is_described:
                msg = f"{self._storage!r} does not describe {segment}"
                raise PluginError(msg)
            with self._lock:
                self._described[segment] = known
        return known

    def describe_all(
        self, segments: Sequence[SegmentMetadata]
    ) -> list[SegmentMetadata]:
        """Return segments with every field known: see ``complete``."""
        return list(self.complete(segments, Known.ALL))

    def histories(self, segments: Sequence[SegmentMetadata]) -> list[LeaderEpochs]:
        """Return the leader-epoch checkpoints of segments, in their order.

        Raises:
            NotFoundError: A segment is gone.
            CorruptIndexError: A checkpoint is malformed.
        """
        return self.calls.map(self._history, segments)

    def _history(self, segment: SegmentMetadata) -> LeaderEpochs:
        with self._lock:
            known = self._described.get(segment)
        if known is not None:
            return LeaderEpochs(known.leader_epochs or ())
        found = self._storage.fetch_indexes(segment, [IndexType.LEADER_EPOCH])
        name = f"{self._storage.name_of(segment)}: leader-epoch checkpoint"
        return parse_leader_epochs(found.get(IndexType.LEADER_EPOCH, b""), name=name)

    def may_diverge(self, segments: Sequence[SegmentMetadata]) -> bool:
        """Return whether segments, as listed, may be of different histories."""
        return may_diverge(segments, self._storage.highest_epoch, self.describe)

    def confirm(
        self,
        segments: Iterable[SegmentMetadata],
        check: Callable[[SegmentMetadata], None],
    ) -> None:
        """Check segments that have not yet passed the check, several concurrently.

        Args:
            segments: As they were described.
            check: Raises an error for a wrong segment; always the same function.
        """
        with self._lock:
            new = [segment for segment in segments if segment not in self._confirmed]
        self.calls.map(check, new)
        with self._lock:
            self._confirmed.update(dict.fromkeys(new))
