"""Compare two copies of the same offsets: are they of one log?

Replicas of a partition have the same records at the same offsets under the same leader
epoch, and two logs that have diverged stay different. So the last of the offsets that
two copies share decide: if a record differs there, one of the copies is of another log,
for example that of a topic that was recreated without a topic id. A cleaner removes
records, and never changes or moves one. Source: KIP-101.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import AlreadyExistsError, NotFoundError
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log.planning.positions import read_offsets
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.stream import read_log

__all__ = ["LogCopy", "are_of_one_log", "check_same_log"]

_COMPARED: Final = (64, 1 << 12)
"""Number of compared offsets at the end of the shared range; the second is used if the
first contains no record that both copies have, as a cleaner removed it."""


@dataclass(frozen=True, slots=True)
class LogCopy:
    """A segment whose log can be read.

    Attributes:
        segment: The segment, with its end offset and leader epochs.
        read: Returns the batches that contain some of the offsets ``[from, to)``, and
            possibly further batches.
    """

    segment: SegmentMetadata
    read: Callable[[int, int], Iterator[LogBatches]]

    @classmethod
    def stored(
        cls, storage: RemoteStorageManager, segment: SegmentMetadata
    ) -> "LogCopy":
        """Return a copy that reads a described segment from its storage."""
        return cls(segment, partial(read_offsets, storage, segment))

    @classmethod
    def held(cls, segment: SegmentMetadata, log: LogSource) -> "LogCopy":
        """Return a copy that reads a described segment from its open log."""
        return cls(segment, lambda _, __: read_log(log))


def are_of_one_log(one: LogCopy, other: LogCopy) -> bool | None:
    """Compare two copies at the end of the offsets that they share.

    Returns:
        Whether their records there are the same; None if they share no record of one
        leader epoch and cannot be compared.

    Raises:
        CorruptDataError: A log is corrupt.
        NotFoundError: A segment is gone.
    """
    ours, theirs = one.segment, other.segment
    first = max(ours.start_offset, theirs.start_offset)
    end = min(_end(ours), _end(theirs))
    epochs = LeaderEpochs(ours.leader_epochs or ())
    end = epochs.agreement_end(LeaderEpochs(theirs.leader_epochs or ()), first, end)
    for count in _COMPARED:
        begin = max(first, end - count)
        if begin >= end:
            return None
        mine = _records(one.read(begin, end), begin, end)
        stored = _records(other.read(begin, end), begin, end)
        common = np.intersect1d(mine["offset"], stored["offset"])
        if len(common):
            return bool(_at(mine, common).equals(_at(stored, common)))
    return None


def check_same_log(
    copy: LogCopy,
    name: str,
    target: RemoteStorageManager,
    stored: Iterable[SegmentMetadata],
) -> bool:
    """Check that a segment is of the same log as those in the target of a push.

    It is compared with the stored segment that shares the last of its offsets with it,
    under the same leader epoch.

    Args:
        copy: The segment, with its own leader epochs.
        name: Log name used in error messages.
        target: The storage to push to.
        stored: The partition's segments in the target, as listed.

    Returns:
        True if that is verified; False if no record can be compared.

    Raises:
        AlreadyExistsError: The target has other records at its offsets.
    """
    others = (one for one in stored if _overlaps(one, copy.segment))
    for listed in sorted(others, key=_reach, reverse=True):
        with suppress(NotFoundError):  # removed since it was listed
            other = LogCopy.stored(target, target.describe(listed))
            same = are_of_one_log(copy, other)
            if same is False:
                raise AlreadyExistsError(
                    f"already exists: {target.name_of(listed)} has other records than "
                    f"{name} at the same offsets; a topic that was recreated without "
                    "a topic id needs its own URL"
                )
            if same:
                return True
    return False


def _records(log: Iterable[LogBatches], start: int, end: int) -> pa.Table:
    """Decode the records of some offsets."""
    decoder = RecordDecoder("", 0)
    wanted = (
        batches.within(start, end)
        for batches in log
        if batches["last_offset"][-1] >= start and batches["base_offset"][0] < end
    )
    return pa.Table.from_batches(decoder.decode(wanted), schema=decoder.schema)


def _at(records: pa.Table, offsets: npt.NDArray[np.int64]) -> pa.Table:
    """Return the records at some of the offsets."""
    rows = np.searchsorted(records["offset"].to_numpy(), offsets)
    return records.take(rows).combine_chunks()


def _overlaps(one: SegmentMetadata, segment: SegmentMetadata) -> bool:
    """Return whether another segment, as listed, is known to share an offset."""
    start, end = segment.start_offset, segment.end_offset or 0
    last = one.start_offset if one.end_offset is None else one.end_offset
    return one.id != segment.id and one.start_offset <= end and last >= start


def _reach(segment: SegmentMetadata) -> tuple[int, int]:
    """Sort key: the end offset, or the start offset if the end is not listed."""
    start = segment.start_offset
    return start if segment.end_offset is None else segment.end_offset, start


def _end(segment: SegmentMetadata) -> int:
    end = segment.end_offset
    return segment.start_offset if end is None else end + 1
