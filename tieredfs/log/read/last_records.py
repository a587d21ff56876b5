"""Where the last records of a partition begin."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.model import SegmentMetadata

__all__ = ["LastRecords", "first_of_last"]

_WIDENING: Final = 4


@dataclass(frozen=True, slots=True)
class LastRecords:
    """A position some records before the end of each partition.

    Attributes:
        count: Number of records; 0 for the end itself.
    """

    count: int


def first_of_last(
    reader: TieredReader,
    segments: Sequence[SegmentMetadata],
    last: LastRecords,
    *,
    read_offsets: Callable[[Sequence[SegmentSlice]], pa.ChunkedArray],
    skip_gaps: bool,
    below: int | None,
) -> int:
    """Return the offset of the first of the last records of a partition.

    Not every offset has a record: the cleaner removes some, and control records and
    aborted ones are hidden. So the search goes further back, in growing steps, until
    there are enough.

    Args:
        reader: Reader of the partition.
        segments: The partition's segments, as ``reader`` returned them.
        last: How many records.
        read_offsets: Returns the offsets of the records of some slices, in order.
        skip_gaps: Whether offsets that no segment has are left out.
        below: The last stable offset, if only committed records are read.

    Raises:
        NotFoundError: A listed segment is gone.
        CorruptDataError: What had to be read is corrupt, or has a gap, and
            ``skip_gaps`` is false.
    """
    held = bounds_of(segments)
    end = held.end if below is None else max(min(held.end, below), held.beginning)
    if last.count >= end - held.beginning:
        return held.beginning
    start, span, missing = end, last.count, last.count
    while missing and start > held.beginning:
        stop, start = start, max(start - span, held.beginning)
        offsets = read_offsets(
            reader.checked_slices(
                segments, start, stop, skip_gaps=skip_gaps, below=below
            )
        )
        if len(offsets) >= missing:
            return int(offsets[len(offsets) - missing].as_py())
        missing -= len(offsets)
        span *= _WIDENING
    return start
