"""Fetch one slice of a segment, and filter the batches of its log.

The segment's offsets, the lineage and the index that led to the slice are stored apart
from its log. A batch that contradicts one of them is an error, and so is a batch whose
header alone would leave it out and whose checksum is wrong.
"""

from collections.abc import Generator, Iterable, Iterator
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs.epochs import NO_EPOCH
from tieredfs.errors import (
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
)
from tieredfs.fetch import FetchedLog
from tieredfs.format.batch.damaged import holds_batch
from tieredfs.format.batch.header import HEADER_SIZE
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.changed_segment import changed_error
from tieredfs.storage.early_end import check_early_end
from tieredfs.storage.segment_log.stream import LogFetch
from tieredfs.storage.stored_batches import fetch_each_batch

__all__ = [
    "check_current",
    "fetch_slice",
    "filter_slice",
    "first_request",
    "is_cut_short",
]

_FIRST_REQUEST_BYTES: Final = 64 << 10
"""Bytes of the first request of a read, which arrive after little more than a round
trip.
"""

_MIN_SLICE_BYTES: Final = 4 * _FIRST_REQUEST_BYTES
"""Bytes of a slice that is worth a second request."""

_MAX_CUT_BYTES: Final = 128 << 20
"""Most bytes of a batch that a log may end in: Kafka's default maximum is 1 MiB."""

_NOTHING = memoryview(b"")


def fetch_slice(
    storage: RemoteStorageManager,
    part: SegmentSlice,
    fetch_size: int,
    held: memoryview = _NOTHING,
    downloaded: FetchedLog | None = None,
    first_size: int | None = None,
) -> LogFetch:
    """Fetch the log of a slice's segment, from the slice's first position on.

    The first requests end with the slice. What is after it is fetched only if the last
    batch needs it, or the check that follows that batch.

    Args:
        storage: Where the segment is.
        part: The slice.
        fetch_size: Bytes of each request.
        held: Bytes from the first position on that are already fetched.
        downloaded: The slice, if it is downloaded ahead by requests of that size.
        first_size: Bytes of the first request, if it is smaller.
    """
    return LogFetch(
        downloaded.read
        if downloaded
        else partial(storage.fetch_log_ahead, part.segment),
        part.segment.size or 0,
        start=part.start_position,
        until=part.end_position,
        fetch_size=fetch_size,
        held=held,
        first_size=first_size,
    )


def check_current(storage: RemoteStorageManager, segment: SegmentMetadata) -> None:
    """Refuse what was fetched of a log that its broker has replaced meanwhile.

    Where batches have equal sizes, what a cleaner has moved would continue the old log
    without an error.

    Args:
        storage: Where the segment is.
        segment: The segment, as it was listed.

    Raises:
        StorageUnavailableError: The log is not the one that was listed.
    """
    if not storage.is_current(segment):
        raise changed_error(storage, segment)


def first_request(
    storage: RemoteStorageManager, part: SegmentSlice, fetch_size: int
) -> int | None:
    """Return how many bytes a read asks for first that begins with a slice.

    Args:
        storage: Where the segment is.
        part: The slice.
        fetch_size: Bytes of each other request.

    Returns:
        A few, so that the first batch comes while the others are downloaded; None for
        as many as with each other request.
    """
    if storage.store.is_local or part.size <= _MIN_SLICE_BYTES:
        return None
    return min(_FIRST_REQUEST_BYTES, fetch_size)


def filter_slice(
    batches: Iterable[LogBatches], part: SegmentSlice, storage: RemoteStorageManager
) -> Iterator[LogBatches]:
    """Yield those of a log's batches that are in a slice, including control batches.

    The first and the last may extend beyond the slice's offsets, as their offsets show.

    Args:
        batches: The batches of the segment's log, from the slice's first position on.
        part: The slice.
        storage: Where the segment is.

    Raises:
        CorruptBatchError: A batch is malformed, or inconsistent with its segment and
            lineage, or the log ends before the slice does.
        CorruptIndexError: The offset index led past the slice's first offset.
        CorruptObjectError: The log is shorter than it was listed.
        StorageUnavailableError: The broker has replaced the log since it was listed, or
            is replacing what follows it.
    """
    try:
        reached = yield from _filter(batches, part, storage)
    except CorruptDataError as error:
        if storage.is_current(part.segment):
            raise
        raise changed_error(storage, part.segment) from error
    is_whole = reached >= part.end_offset
    if not storage.is_current(part.segment, None if is_whole else reached - 1):
        raise changed_error(storage, part.segment)
    if not is_whole:
        check_early_end(storage, part.segment, reached)


def is_cut_short(storage: RemoteStorageManager, part: SegmentSlice) -> bool:
    """Return whether the log of a slice ends before it, as in a copy that is not whole.

    It may end in the first part of a batch, and in zeros. A batch that only claims to
    reach beyond the end of the log is damage: it is whole, or another batch is behind
    its beginning.

    Args:
        storage: Where the segment is.
        part: What could not be read of a slice.
    """
    segment, position = part.segment, part.start_position
    try:
        for batch in fetch_each_batch(storage, segment, start=position, torn_tail=True):
            if batch.header.last_offset >= part.start_offset:
                return False
            position = batch.header.end
        found = storage.fetch_indexes(segment, [IndexType.OFFSET])
        data, base = found.get(IndexType.OFFSET, b""), segment.start_offset
        index = OffsetIndex.parse(data, base, name=storage.name_of(segment))
    except CorruptDataError:
        return False
    following, size = index.upper_bound(position + 1), segment.size or 0
    if following is not None and following.position < size:
        end = min(following.position + HEADER_SIZE, size)
        return not any(storage.fetch_log_segment(segment, following.position, end))
    if size - position > _MAX_CUT_BYTES:
        return False  # no batch is so large
    rest = storage.fetch_log_segment(segment, position, size)
    return not holds_batch(rest, part.start_offset, part.segment.end_offset or 0)


def _filter(
    found: Iterable[LogBatches], part: SegmentSlice, storage: RemoteStorageManager
) -> Generator[LogBatches, None, int]:
    """Yield the batches of a slice, and return the offset at which the log ends."""
    reached, segment_end = part.start_offset, part.segment.end_offset
    for batches in found:
        is_first = batches["position"][0] == part.start_position > 0
        if is_first and part.previous_offset < 0:
            _check_index(storage, part, int(batches["base_offset"][0]))
        # The batch after the slice is checked as well.
        last = part.end_offset - 1  # an end may exceed int64
        inside = int(np.searchsorted(batches["base_offset"], last, side="right"))
        strays = np.flatnonzero(_strays(batches.take(slice(inside + 1)), part.segment))
        held = batches.take(slice(inside))
        skipped = int(np.searchsorted(held["last_offset"], part.start_offset))
        if skipped:
            held.take(slice(skipped)).check()
        wanted = held.take(slice(skipped, int(strays[0]) if strays.size else inside))
        wanted = wanted.within(part.start_offset, part.end_offset)
        others = np.flatnonzero(~_of_lineage(wanted, part))
        if others.size:
            if others[0]:
                yield wanted.take(slice(int(others[0])))
            raise _wrong_epoch(wanted, int(others[0]), part)
        if len(wanted):
            yield wanted
        if strays.size:
            batches.take([strays[0]]).check()
            raise _stray(batches, int(strays[0]), part.segment)
        if inside < len(batches):
            return part.end_offset
        reached = max(reached, int(batches["last_offset"][-1]) + 1)
        # After the end of the segment there must be no batch, which is checked.
        if reached >= part.end_offset and part.end_offset <= (segment_end or 0):
            return reached
    return reached


def _check_index(
    storage: RemoteStorageManager, part: SegmentSlice, base_offset: int
) -> None:
    if base_offset > part.start_offset:
        msg = (
            f"{storage.name_of(part.segment)}: the offset index has offset "
            f"{part.start_offset} at position {part.start_position}, but the log has "
            f"{base_offset} there"
        )
        raise CorruptIndexError(msg)


def _strays(batches: LogBatches, segment: SegmentMetadata) -> npt.NDArray[np.bool_]:
    """Return which batches have offsets outside their segment."""
    end = -1 if segment.end_offset is None else segment.end_offset
    strays: npt.NDArray[np.bool_] = (batches["base_offset"] < segment.start_offset) | (
        batches["last_offset"] > end
    )
    return strays


def _stray(
    batches: LogBatches, row: int, segment: SegmentMetadata
) -> CorruptBatchError:
    first, last = batches["base_offset"][row], batches["last_offset"][row]
    return CorruptBatchError(
        f"{batches.where(row)}: the offsets {first} to {last} are outside the "
        f"segment, {segment.start_offset} to {segment.end_offset}"
    )


def _of_lineage(batches: LogBatches, part: SegmentSlice) -> npt.NDArray[np.bool_]:
    """Return which batches were written under the lineage's epoch at their offset."""
    offsets = np.maximum(batches["base_offset"], part.start_offset)
    return part.lineage.accepts_each(batches["leader_epoch"], offsets)


def _wrong_epoch(
    batches: LogBatches, row: int, part: SegmentSlice
) -> CorruptBatchError:
    offset = max(int(batches["base_offset"][row]), part.start_offset)
    expected = part.lineage.epoch_at(offset)
    return CorruptBatchError(
        f"{batches.where(row)}: leader epoch {batches['leader_epoch'][row]} at offset "
        f"{offset}, where the lineage has "
        f"{'none' if expected == NO_EPOCH else expected}"
    )
