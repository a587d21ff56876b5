"""The part of a followed topic that comes from its tier."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import pyarrow as pa

from tieredfs.errors import NotFoundError
from tieredfs.fetch import Attempts, RemoteLogFetcher
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.tiles import gaps
from tieredfs.log.read.partition_read import HeldBytes, PartitionRead, max_kept_bytes
from tieredfs.log.read.pipeline import read_records
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.log.read.replan import plan_despite_deletes
from tieredfs.log.read.turns import turns
from tieredfs.storage import RemoteStorageManager

__all__ = ["Held", "Read", "is_tiered", "plan_held", "read_held"]

_MAX_TURN_BYTES: Final = 4 << 20
"""Maximum stored bytes of a partition's turn, as in a fair scan."""


@dataclass(frozen=True, slots=True)
class Held:
    """What a tier holds of a partition from an offset on.

    Attributes:
        slices: What can be read, up to a hole or the end; empty if the offset is not
            there, or if its transaction does not end there.
        next_held: The offset itself if it is there; else the first later one, and None
            if there is none.
    """

    slices: Sequence[SegmentSlice] = ()
    next_held: int | None = None

    @property
    def end(self) -> int:
        """The end (exclusive) of the slices, of which there is one at least."""
        return self.slices[-1].end_offset


def plan_held(reader: TieredReader, position: int, *, committed: bool) -> Held:
    """List a partition's segments, and plan the reading from an offset on.

    Args:
        reader: Reader of the partition, which the tier need not have.
        position: The first offset wanted.
        committed: Whether only records below the last stable offset are wanted.

    Raises:
        NotFoundError: A listed segment does not exist.
        CorruptDataError: The segments are not one state of the log, or an index is
            malformed.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """

    def plan(reader: TieredReader) -> Held:
        return _plan(reader.keeping_indexes(), position, committed=committed)

    try:
        return plan_despite_deletes(plan, reader)
    except NotFoundError:
        if is_tiered(reader):
            raise
        return Held()


def is_tiered(reader: TieredReader) -> bool:
    """Return whether the tier has a partition."""
    partition = reader.partition
    return partition in reader.storage.list_partitions(partition.topic)


def _plan(reader: TieredReader, position: int, *, committed: bool) -> Held:
    segments = reader.segments()
    held = bounds_of(segments)
    if position >= held.end:
        return Held()
    if position < held.beginning:
        return Held((), held.beginning)
    tiles = reader.tiles(segments, position, held.end, skip_gaps=True)
    holes = gaps(tiles, position)
    if holes and holes[0][0] == position:
        return Held((), holes[0][1])
    slices = reader.slices_to_gap(segments, position)
    if committed:
        slices = _below(slices, reader.stable_offset(segments))
    return Held(slices, position)


def _below(slices: Sequence[SegmentSlice], end: int) -> Sequence[SegmentSlice]:
    """Return what is left of slices below an offset."""
    return [
        replace(part, end_offset=min(part.end_offset, end))
        for part in slices
        if part.start_offset < end
    ]


class Read(NamedTuple):
    """What was read of a partition.

    Attributes:
        partition: Its number.
        records: Some records; None when all that was planned of it was read.
    """

    partition: int
    records: pa.RecordBatch | None


def read_held(
    storage: RemoteStorageManager,
    plans: Sequence[Held],
    columns: tuple[str, ...],
    *,
    committed: bool,
) -> Generator[Read, None, None]:
    """Read what was planned of several partitions, a few MiB of each in turn.

    Args:
        storage: Where the segments are.
        plans: What to read of each partition, at least one slice.
        columns: The columns to build.
        committed: Whether records of aborted transactions are left out.

    Raises:
        NotFoundError: A segment was deleted since it was planned.
        CorruptDataError: The stored data is corrupt.
        StorageUnavailableError: The store failed in all attempts of its policy.
        DeadlineExceededError: The store did not answer in time.
    """
    options = storage.store.options
    size = min(options.fetch_bytes, _MAX_TURN_BYTES)
    kept = HeldBytes(max_kept_bytes(storage))
    with RemoteLogFetcher(storage, size, attempts=Attempts.of(storage)) as fetcher:
        reads = [
            PartitionRead(
                storage,
                plan.slices,
                fetch_size=size,
                skip_deleted=False,
                committed=committed,
                held=kept,
                fetcher=fetcher,
            )
            for plan in plans
        ]
        for read, slices in turns(reads, fetcher):
            topic, number = read.partition.topic, read.partition.partition
            decoder = RecordDecoder(topic, number, columns, options)
            for records in read_records(read, slices, decoder):
                yield Read(number, records)
            if read.is_done:
                yield Read(number, None)
