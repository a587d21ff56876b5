"""Whether two copies of the same offsets are of one log.

Replicas of a partition have the same records at the same offsets under the same leader
epoch, and two logs that have parted never meet again. So of the offsets that two copies
share, those at the end decide: if a record differs there, one of the copies is of
another log, for example that of a topic which was made again without a topic id. A
cleaner removes records, and never changes or moves one. Source: KIP-101.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import AlreadyExistsError, NotFoundError
from tieredfs.format.batch_header import DELETE_HORIZON, MAGIC
from tieredfs.format.log_batches import LogBatches
from tieredfs.format.records import RecordDecoder
from tieredfs.log.positions import locate
from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.log_source import LogSource
from tieredfs.storage.log_stream import read_log

__all__ = ["BatchKey", "OtherLogCheck", "are_of_one_log", "batch_keys", "shared"]

BatchKey = tuple[int, int, int, int, int]
"""First and last offset, leader epoch, records and checksum of a batch; the checksum is
-1 where a cleaner may have changed it along with no record."""

_KEY: Final = ("base_offset", "last_offset", "leader_epoch", "record_count")

_COMPARED: Final = (64, 1 << 12)
"""Offsets at the end of what two copies share that are looked at; more of them where a
cleaner has left no record that both have."""


class OtherLogCheck:
    """Compare a log with what the target of a push has of its offsets."""

    def __init__(self, target: RemoteStorageManager) -> None:
        """Ask nothing yet."""
        self._target = target

    def check(
        self,
        segment: SegmentMetadata,
        log: LogSource,
        stored: Iterable[SegmentMetadata],
    ) -> None:
        """Check that a segment is of the log that the target has.

        One stored segment is compared: that with the last of the shared offsets.

        Args:
            segment: The segment, with its own leader epochs.
            log: Its log.
            stored: The segments that the target has of the partition.

        Raises:
            AlreadyExistsError: The target holds other records at its offsets.
        """
        others = [one for one in stored if _overlaps(one, segment)]
        if not others:
            return
        with suppress(NotFoundError):  # removed since it was listed
            self._compare(segment, log, max(others, key=_reach))

    def _compare(
        self, segment: SegmentMetadata, log: LogSource, listed: SegmentMetadata
    ) -> None:
        other = self._target.describe(listed)
        first = max(segment.start_offset, other.start_offset)
        ours = LeaderEpochs(segment.leader_epochs or ())
        theirs = LeaderEpochs(other.leader_epochs or ())
        ends = (segment.end_offset, other.end_offset)
        end = min(first if end is None else end + 1 for end in ends)
        end = ours.agreement_end(theirs, first, end)
        for count in _COMPARED:
            begin = max(first, end - count)
            held = read_log(log.fetch, log.size, name=log.name)
            mine = _records(held, begin, end)
            stored = _records(self._stored(other, begin, end), begin, end)
            common = np.intersect1d(mine["offset"], stored["offset"])
            if not _at(mine, common).equals(_at(stored, common)):
                raise AlreadyExistsError(
                    f"already exists: {self._target.name_of(other)} has other records "
                    f"than {log.name} at the offsets below {end}; a topic that was "
                    "made again without a topic id needs a URL of its own"
                )
            if len(common) or begin == first:
                return

    def _stored(
        self, segment: SegmentMetadata, start: int, end: int
    ) -> Iterator[LogBatches]:
        position, until = locate(self._target, segment, start, end)
        return read_log(
            lambda begin, stop: self._target.fetch_log_segment(segment, begin, stop),
            segment.size or 0,
            name=self._target.name_of(segment),
            start=position,
            until=until,
        )


def batch_keys(log: Iterable[LogBatches]) -> Iterator[BatchKey]:
    """Yield what tells the batches of a log apart.

    Batches before message format v2 are left out: brokers rewrote those.

    Args:
        log: Its batches, in order.
    """
    for batches in log:
        found = batches.take(batches["magic"] == MAGIC)
        # A cleaner that puts a horizon on tombstones writes their batch anew.
        cleaned = found["attributes"] & DELETE_HORIZON != 0
        crcs = np.where(cleaned, -1, found["crc"])
        columns = (found[name] for name in _KEY)
        yield from zip(*(c.tolist() for c in (*columns, crcs)), strict=True)


def shared(
    ours: Iterable[BatchKey], theirs: Iterable[BatchKey]
) -> Iterator[tuple[BatchKey, BatchKey]]:
    """Yield the batches that two copies have at the same offsets, in pairs.

    Args:
        ours: The batches of one copy, in order.
        theirs: Those of the other.
    """
    others = {other[:2]: other for other in theirs}
    for one in ours:
        if one[:2] in others:
            yield one, others[one[:2]]


def are_of_one_log(one: BatchKey, other: BatchKey) -> bool:
    """Tell whether two batches of the same offsets can be of one log.

    Of batches under different leader epochs the lineage says which one counts, and a
    batch of which a cleaner has removed records has another checksum.
    """
    return one[2:4] != other[2:4] or one[4] == other[4] or -1 in {one[4], other[4]}


def _records(log: Iterable[LogBatches], start: int, end: int) -> pa.Table:
    """Decode the records of some offsets."""
    decoder = RecordDecoder("", 0)
    wanted = (
        batches.take(
            (batches["last_offset"] >= start) & (batches["base_offset"] < end)
        ).within(start, end)
        for batches in takewhile(lambda one: one["base_offset"][0] < end, log)
    )
    return pa.Table.from_batches(decoder.decode(wanted), schema=decoder.schema)


def _at(records: pa.Table, offsets: npt.NDArray[np.int64]) -> pa.Table:
    """Return the records of some of their offsets."""
    rows = np.searchsorted(records["offset"].to_numpy(), offsets)
    return records.take(rows).combine_chunks()


def _overlaps(one: SegmentMetadata, segment: SegmentMetadata) -> bool:
    """Tell whether another segment surely shares an offset, as far as it was listed."""
    start, end = segment.start_offset, segment.end_offset or 0
    last = one.start_offset if one.end_offset is None else one.end_offset
    return one.id != segment.id and one.start_offset <= end and last >= start


def _reach(segment: SegmentMetadata) -> tuple[int, int]:
    """Order segments by how far they go, which not every listing says."""
    start = segment.start_offset
    return start if segment.end_offset is None else segment.end_offset, start
