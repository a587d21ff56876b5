"""What the stores below a cache hold, which is what the cache has to return.

Every check raises AssertionError with one sentence: the promise that is broken, and how
it was seen.
"""

from collections.abc import Sequence
from typing import Final

from tieredfs.format.index.offset import OffsetIndex, OffsetPosition
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import CollectedAborts, TransactionIndex
from tieredfs.model import IndexType, SegmentIndexes
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.rule import require

__all__ = ["StoredSegments"]

_HEADER_BYTES: Final = 512
"""An entry takes at most so many bytes more than its indexes."""


class StoredSegments:
    """What the stores hold, and the answers that follow from it.

    Attributes:
        indexes: Those of every segment, also of segments that were replaced.
    """

    indexes: dict[CachedSegment, SegmentIndexes]

    def __init__(self) -> None:
        """Begin without segments."""
        self.indexes = {}
        self._owners: dict[bytes, CachedSegment] = {}

    def most_bytes(self, segment: CachedSegment) -> int:
        """Return how many bytes the entry of a segment takes at most."""
        stored = self.indexes[segment]
        sizes = sum(data.nbytes for data in stored.values())
        return sizes + len(stored.layout) + _HEADER_BYTES

    def owner(self, content: bytes) -> CachedSegment | None:
        """Return the segment all of whose indexes are in a file; None for no segment.

        Args:
            content: The bytes of the file.
        """
        if content in self._owners:  # once it is a segment's, it remains so
            return self._owners[content]
        for segment, indexes in self.indexes.items():
            if indexes.layout in content and all(
                bytes(data) in content for data in indexes.values()
            ):
                self._owners[content] = segment
                return segment
        return None

    def check_indexes(
        self, said: str, segment: CachedSegment, found: SegmentIndexes
    ) -> None:
        """Require that indexes are to the byte those that the segment's store has."""
        wanted = self.indexes[segment]
        if found == wanted and found.layout == wanted.layout:
            require(
                all(data.readonly for data in found.values()),
                f"what is cached is read-only: {said} returned what can be written to",
            )
            return
        for other, indexes in self.indexes.items():
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
        wanted = self.indexes[segment].layout
        require(
            found == wanted,
            f"a layout gets back its data: {said} returned {found!r}, not {wanted!r}",
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
        self,
        said: str,
        segment: CachedSegment,
        timestamp: int,
        found: OffsetPosition,
        start_offset: int = 0,
    ) -> None:
        """Require that a time is looked up in the segment's own time index."""
        start = segment.metadata.start_offset
        times = TimeIndex.parse(self._index(segment, IndexType.TIMESTAMP), start)
        floor = times.lookup(timestamp).offset
        wanted = self._offset(segment, max(start_offset, floor))
        require(
            found == wanted,
            f"a lookup finds the last entry at or below: {said} found {found}, not "
            f"{wanted}",
        )

    def _offset(self, segment: CachedSegment, offset: int) -> OffsetPosition:
        start = segment.metadata.start_offset
        offsets = self._index(segment, IndexType.OFFSET)
        return OffsetIndex.parse(offsets, start).lookup(offset)

    def _index(self, segment: CachedSegment, kind: IndexType) -> memoryview:
        return self.indexes[segment].get(kind, memoryview(b""))
