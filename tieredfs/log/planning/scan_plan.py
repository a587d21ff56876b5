"""What a scan will read: slices of segments, each with its offsets and positions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.slice_run import count_segments, sizes_of

__all__ = ["ScanPlan"]


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """What a scan will read.

    Iterating yields the slices in the order in which they are read, and makes each when
    it is needed.

    Attributes:
        partitions: The slices of each partition, at least one.
        fetch_size: Bytes of each request.
    """

    partitions: tuple[Sequence[SegmentSlice], ...]
    fetch_size: int

    @property
    def slices(self) -> tuple[SegmentSlice, ...]:
        """The parts of segments, in the order in which they are read."""
        return tuple(self)

    def __iter__(self) -> Iterator[SegmentSlice]:
        """Yield the slices, one after the other."""
        return chain.from_iterable(self.partitions)

    def __len__(self) -> int:
        """Return the number of slices."""
        return sum(map(len, self.partitions))

    @property
    def segments(self) -> int:
        """Number of segments to read from."""
        return sum(map(count_segments, self.partitions))

    @property
    def requests(self) -> int:
        """Number of requests for the bytes of the slices.

        A slice that ends inside a segment may need more, for the batch after it. So may
        a layout, for a manifest or for a log that is stored in chunks, and a scan of a
        distant store, which begins each partition with little: see ``Scan.explain``.
        """
        return sum(
            int((-(-sizes_of(slices) // self.fetch_size)).sum())
            for slices in self.partitions
        )

    @property
    def size(self) -> int:
        """Bytes of the slices, as the broker wrote them."""
        return sum(int(sizes_of(slices).sum()) for slices in self.partitions)

    def split(self, target_bytes: int) -> list["ScanPlan"]:
        """Split into plans of neighbouring slices, which together are this one.

        Args:
            target_bytes: Maximum bytes of each plan with more than one slice.
        """
        groups: list[list[Sequence[SegmentSlice]]] = []
        room = 0
        for slices in self.partitions:
            ends = np.cumsum(sizes_of(slices))
            first, before = 0, 0
            while first < len(slices):
                stop = int(np.searchsorted(ends, before + room, side="right"))
                if not groups or stop <= first:
                    groups.append([])
                    room = target_bytes
                    stop = int(np.searchsorted(ends, before + room, side="right"))
                stop = max(stop, first + 1)
                groups[-1].append(slices[first:stop])
                reached = int(ends[stop - 1])
                room, first, before = room - (reached - before), stop, reached
        return [ScanPlan(tuple(group), self.fetch_size) for group in groups]

    def __repr__(self) -> str:
        """Show the number of segments, requests and bytes."""
        return (
            f"ScanPlan(segments={self.segments}, requests={self.requests}, "
            f"size={self.size})"
        )
