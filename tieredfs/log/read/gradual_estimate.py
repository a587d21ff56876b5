"""Predict the requests of a read for about the first few records, in growing steps.

How many records a step brings is known only once it is read: compaction leaves holes,
and control records are hidden. So there are two predictions: what is sent if every
offset has a record, and what is sent at most, if the read goes on to the end.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from tieredfs.log.planning.positions import offset_index
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.estimate import estimate_reads
from tieredfs.log.read.partition_read import MAX_WHOLE_SLICE_BYTES, WIDENING
from tieredfs.objects import RequestCounter, RequestCounts
from tieredfs.storage import RemoteStorageManager

__all__ = ["estimate_first", "estimate_steps"]

_FETCHES_OF_A_STEP: Final = 4
"""Fetches that a step may add where it ends inside a slice.

One that it ends early, one for the batch behind it, and two where what is left of its
last fetch is too much to be kept for the next step.
"""


def estimate_first(
    storage: RemoteStorageManager,
    slices: Iterable[SegmentSlice],
    records: int,
    fetch_size: int,
) -> RequestCounts:
    """Predict the requests for the first records, if every offset has a record.

    Args:
        storage: Where the segments are.
        slices: The slices, in the order in which they are read; at least one is taken,
            and only those of the first records.
        records: Number of records.
        fetch_size: Bytes of each request.

    Raises:
        TieredFSError: As in ``estimate_reads``.
    """
    counter = RequestCounter()
    found = RequestCounts()
    first = _first_slices(storage.with_observer(counter), slices, max(records, 1))
    for one in estimate_reads(storage, first, fetch_size):
        found += one.requests
    return found + counter.counts


def estimate_steps(
    storage: RemoteStorageManager,
    slices: Iterable[SegmentSlice],
    records: int,
    fetch_size: int,
    max_offsets: int,
) -> RequestCounts:
    """Return at most what reading in steps sends besides reading slices whole.

    A step ends inside a slice only while it has fewer offsets than the slice. There are
    few such steps, each in one of as many first slices: each step grows, and none goes
    beyond its slice.

    Args:
        storage: Where the segments are.
        slices: The slices, in the order in which they are read; taken are the first.
        records: Number of records that the first step is for.
        fetch_size: Bytes of each request.
        max_offsets: The largest number of offsets of a slice.

    Raises:
        TieredFSError: As in ``estimate_reads``.
    """
    steps, offsets = 0, max(records, 1)
    while offsets < max_offsets:
        steps += 1
        offsets *= WIDENING
    kept = storage.store.options.fetch_bytes
    index, fetch = RequestCounts(), RequestCounts()
    for part in islice(slices, steps):
        is_whole = part.size <= MAX_WHOLE_SLICE_BYTES
        if not is_whole:
            counter = RequestCounter()
            offset_index(storage.with_observer(counter), part.segment)
            index |= counter.counts
        (found,) = estimate_reads(storage, [part], fetch_size)
        # What one fetch brings whole is kept from step to step.
        if not is_whole or found.fetches > 1 or (part.segment.size or 0) > kept:
            fetch |= found.max_fetch
    return (index + fetch * _FETCHES_OF_A_STEP) * steps


def _first_slices(
    storage: RemoteStorageManager, slices: Iterable[SegmentSlice], records: int
) -> Iterator[SegmentSlice]:
    """Yield the slices that are read for some records, the last one cut."""
    left = step = records
    for part in slices:
        until = part.start_offset + step
        left -= part.end_offset - part.start_offset
        step *= WIDENING
        if until < part.end_offset and part.size > MAX_WHOLE_SLICE_BYTES:
            end = offset_index(storage, part.segment).end_position(until)
            if end is not None and end < part.end_position:
                yield replace(part, end_offset=until, end_position=end)
                return
        yield part
        if left <= 0:
            return
