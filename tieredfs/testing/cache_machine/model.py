"""What a cache of indexes has to do after any calls: its machine's oracle.

Every check raises AssertionError with one sentence: the promise that is broken, and how
it was seen.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tieredfs.cache import CacheStats
from tieredfs.format.index.offset import OffsetIndex, OffsetPosition
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import CollectedAborts, TransactionIndex
from tieredfs.model import IndexType, SegmentIndexes, SegmentMetadata
from tieredfs.testing.rule import require

__all__ = ["CacheModel", "CachedSegment", "Entries"]

_HEADER_BYTES: Final = 512
"""An entry takes at most so many bytes more than its indexes."""

_RECORDED_SHARE: Final = 3 / 4
"""A use may be recorded on disk after a quarter of the time that an entry lives."""


@dataclass(frozen=True, slots=True)
class CachedSegment:
    """A segment of one of the stores that share a directory.

    Attributes:
        store: Number of the store.
        metadata: The segment as it is listed there.
    """

    store: int
    metadata: SegmentMetadata

    def __str__(self) -> str:
        """Return what identifies it in a message."""
        one = self.metadata
        more = f" {one.version}{one.custom_metadata.decode()}".rstrip()
        return f"{one.start_offset}-{one.id}{more} of store {self.store}"


@dataclass(frozen=True, slots=True)
class Entries:
    """The files of entries in a directory.

    Attributes:
        whole: Bytes of each segment's file that is as a cache has written it.
        damaged: Bytes of each segment's file that another program has changed.
    """

    whole: Mapping[CachedSegment, int] = field(default_factory=dict)
    damaged: Mapping[CachedSegment, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Total bytes."""
        return sum(self.whole.values()) + sum(self.damaged.values())


class CacheModel:
    """What the stores hold, and what each handle on the directory may have in memory.

    Attributes:
        stored: The indexes of every segment, those that were replaced as well.
        limit: Maximum bytes on disk; None if the directory has lost it.
    """

    stored: dict[CachedSegment, SegmentIndexes]
    limit: int | None

    def __init__(self, ttl: float | None = None) -> None:
        """Begin with an empty directory.

        Args:
            ttl: Seconds without use after which an entry is no longer served.
        """
        self.stored = {}
        self.limit = None
        self._ttl = ttl
        self._limits: dict[int, int] = {}
        self._mapped: dict[int, set[CachedSegment]] = {}
        self._used: dict[CachedSegment, float] = {}

    # What happens.

    def open(self, handle: int, limit: int | None) -> None:
        """Open a handle, which has nothing in memory.

        Args:
            handle: Its number.
            limit: The limit it sets; None for the current one, which must be known.
        """
        self._mapped[handle] = set()
        if limit is not None:
            self.limit = limit
        self._limits[handle] = self.largest_limit

    def resize(self, handle: int, limit: int) -> None:
        """Let a handle set the limit."""
        self.limit = self._limits[handle] = limit

    def lose_limit(self) -> None:
        """Lose the ledger: until one sets the limit, it is one that a handle knows."""
        self.limit = None

    def use(self, handle: int, segment: CachedSegment, now: float) -> None:
        """Get a segment through a handle, which may keep it in memory."""
        self._mapped[handle].add(segment)
        self._used[segment] = now

    def map(self, handle: int, segment: CachedSegment) -> None:
        """Open an entry through a handle, which is not a use."""
        self._mapped[handle].add(segment)

    def remove(self, handle: int, segments: Collection[CachedSegment]) -> None:
        """Remove segments through a handle."""
        self._mapped[handle] -= set(segments)

    def has_room(self, segment: CachedSegment) -> bool:
        """Return whether it is certain that the entry of a segment is kept."""
        return self.limit is not None and self._most_bytes(segment) <= self.limit

    @property
    def largest_limit(self) -> int:
        """The limit, or the largest that it may be if the directory has lost it."""
        return max(self._limits.values()) if self.limit is None else self.limit

    # What has to be so.

    def check_indexes(
        self, said: str, segment: CachedSegment, found: SegmentIndexes
    ) -> None:
        """Require that indexes are to the byte those that the segment's store has."""
        wanted = self.stored[segment]
        if found == wanted and found.layout == wanted.layout:
            require(
                all(data.readonly for data in found.values()),
                f"what is cached is read-only: {said} returned what can be written to",
            )
            return
        for other, indexes in self.stored.items():
            require(
                found != indexes or other == segment,
                f"an index is that of its segment: {said} returned those of {other}",
            )
        for kind, data in wanted.items():
            require(
                kind in found,
                f"no index is lost: {said} returned no {kind} index, the store has one",
            )
            require(
                found[kind] == data,
                f"an index is what the store has, to the byte: {said} returned another "
                f"{kind} index",
            )
        more = sorted(set(found) - set(wanted))
        require(
            not more,
            f"a segment has no index that its store does not have: {said} returned "
            f"{more} as well",
        )
        self.check_layout(said, segment, found.layout)

    def check_layout(self, said: str, segment: CachedSegment, found: bytes) -> None:
        """Require that the layout's data is what the segment's store has."""
        wanted = self.stored[segment].layout
        require(
            found == wanted,
            f"a layout gets back its data: {said} returned {found!r}, not {wanted!r}",
        )

    def check_fetches(
        self,
        said: str,
        handles: Collection[int],
        segment: CachedSegment,
        before: Entries,
        now: float,
        fetches: int,
    ) -> None:
        """Require that a segment was fetched if it had to be, and then only once.

        Args:
            said: What was called.
            handles: Those that were asked, by one call or by concurrent ones.
            segment: The segment.
            before: The entries when it was called.
            now: Seconds since 1970.
            fetches: How many operations reached the storage.
        """
        age = now - self._used.get(segment, now)
        is_expired = self._ttl is not None and age > self._ttl
        is_recent = self._ttl is None or age <= self._ttl * _RECORDED_SHARE
        if segment in before.whole and is_recent:
            require(
                fetches == 0,
                f"what is held is not fetched again: {said} sent {fetches} operations "
                "to the storage, and a valid entry was there",
            )
            return
        required = is_expired or not any(
            segment in self._mapped[handle] for handle in handles
        )
        if segment in before.whole and not is_expired:
            required = False
        why = "its entry was damaged" if segment in before.damaged else "it was missing"
        require(
            fetches <= 1,
            f"all indexes are fetched in one operation, by one of concurrent callers: "
            f"{said} sent {fetches} operations to the storage when {why}",
        )
        require(
            fetches == 1 or not required,
            f"what was removed or has expired is not served: {said} fetched nothing, "
            f"and no handle that was asked can have a valid entry: {why}",
        )

    def check_entries(
        self,
        said: str,
        before: Entries,
        after: Entries,
        *,
        fetched: Collection[CachedSegment] = (),
        removed: Collection[CachedSegment] = (),
    ) -> None:
        """Require that the directory has the entries that it has to have after a call.

        Args:
            said: What was called.
            before: The entries when it was called.
            after: The entries now.
            fetched: Segments that were fetched.
            removed: Segments that were to be removed.
        """
        size = sum(after.whole.values())
        require(
            size <= self.largest_limit,
            f"the size on disk keeps to its bound: after {said} the entries have "
            f"{size} bytes, allowed are {self.largest_limit}",
        )
        left = sorted(map(str, set(removed) & {*after.whole, *after.damaged}))
        require(not left, f"what is removed is gone: after {said} there is {left}")
        more = sorted(map(str, set(after.whole) - set(before.whole) - set(fetched)))
        require(
            not more,
            f"only what was fetched whole is kept: after {said} there is {more}",
        )
        if self.limit is None:
            return
        need = before.size + sum(map(self._most_bytes, fetched))
        lost = sorted(map(str, set(before.whole) - set(after.whole) - set(removed)))
        require(
            not lost or need > self.limit,
            f"an entry stays while there is room: after {said} that of {lost} is gone, "
            f"though at most {need} of {self.limit} bytes were needed",
        )
        lacking = sorted(map(str, set(fetched) - set(after.whole)))
        require(
            not lacking or need > self.limit,
            f"what was fetched is kept: after {said} there is no entry of {lacking}",
        )

    def check_offset(
        self, said: str, segment: CachedSegment, offset: int, found: OffsetPosition
    ) -> None:
        """Require that an offset is looked up in the segment's own offset index."""
        wanted = self._offset(segment, offset)
        require(
            found == wanted,
            f"a lookup finds the last entry at or below: {said} found {found}, not "
            f"{wanted}",
        )

    def check_positions(
        self,
        said: str,
        segment: CachedSegment,
        offsets: Sequence[int],
        found: Sequence[int],
    ) -> None:
        """Require that many offsets are looked up as each of them is."""
        wanted = [self._offset(segment, offset).position for offset in offsets]
        require(
            found == wanted,
            f"a lookup finds the last entry at or below: {said}, and of {offsets}, "
            f"found the positions {found}, not {wanted}",
        )

    def check_aborts(
        self,
        said: str,
        segment: CachedSegment,
        start: int,
        end: int,
        found: CollectedAborts,
    ) -> None:
        """Require that aborts are those of the segment's own transaction index."""
        index = self._index(segment, IndexType.TRANSACTION)
        parsed = TransactionIndex.parse(index, segment.metadata.start_offset)
        wanted = parsed.collect(start, end)
        require(
            found == wanted,
            f"a lookup finds a segment's aborts: {said} found {found}, not {wanted}",
        )

    def check_timestamp(
        self, said: str, segment: CachedSegment, timestamp: int, found: OffsetPosition
    ) -> None:
        """Require that a time is looked up in the segment's own time index."""
        start = segment.metadata.start_offset
        times = TimeIndex.parse(self._index(segment, IndexType.TIMESTAMP), start)
        wanted = self._offset(segment, times.lookup(timestamp).offset)
        require(
            found == wanted,
            f"a lookup finds the last entry at or below: {said} found {found}, not "
            f"{wanted}",
        )

    def check_stats(
        self,
        said: str,
        before: CacheStats,
        after: CacheStats,
        *,
        fetches: int,
        evictions: int,
        is_damaged: bool,
    ) -> None:
        """Require that the counters of a handle have counted one call.

        Args:
            said: What was called.
            before: The counters when it was called.
            after: The counters now.
            fetches: How many operations reached the storage.
            evictions: How many entries had to go.
            is_damaged: Whether the segment's entry was damaged.
        """
        counted = (
            after.hits - before.hits,
            after.misses - before.misses,
            after.loads - before.loads,
            after.evictions - before.evictions,
        )
        wanted = (1 - fetches, fetches, fetches, evictions)
        require(
            counted == wanted,
            f"the counters are true: {said} added {counted} hits, misses, loads and "
            f"evictions, not {wanted}",
        )
        require(
            0 <= after.corruptions - before.corruptions <= is_damaged,
            f"the counters are true: {said} added "
            f"{after.corruptions - before.corruptions} corruptions",
        )

    def _offset(self, segment: CachedSegment, offset: int) -> OffsetPosition:
        start = segment.metadata.start_offset
        offsets = self._index(segment, IndexType.OFFSET)
        return OffsetIndex.parse(offsets, start).lookup(offset)

    def _index(self, segment: CachedSegment, kind: IndexType) -> memoryview:
        return self.stored[segment].get(kind, memoryview(b""))

    def _most_bytes(self, segment: CachedSegment) -> int:
        """Return how many bytes the entry of a segment takes at most."""
        stored = self.stored[segment]
        sizes = sum(data.nbytes for data in stored.values())
        return sizes + len(stored.layout) + _HEADER_BYTES
