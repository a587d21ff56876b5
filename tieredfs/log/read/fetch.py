"""One fetch of a partition, as Kafka's consumer makes it: records up to a size."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tieredfs.errors import CorruptDataError, UnsupportedFormatError
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.aborts import AbortedBatches
from tieredfs.log.read.pipeline import read_records
from tieredfs.log.read.slice_batches import fetch_slice
from tieredfs.model import TopicIdPartition
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.stream import LogFetch

__all__ = ["Fetched", "fetch_records"]


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records of one fetch, and the offset at which the next fetch continues.

    It supports ``len()``, ``num_rows``, ``fetched["offset"]``, and Arrow's stream
    protocol, so that any Arrow library takes it; for everything else use ``records``.

    Offsets may have no record: compaction leaves holes, and control records are hidden.
    ``next_offset`` is past all offsets that were read, which may be more than one past
    the last record. A fetch without records means that the log ends at ``next_offset``.

    Attributes:
        records: The records, with all columns, in offset order.
        next_offset: One past the last offset that was read: every record below it, from
            the offset of the fetch on, is in ``records``.
    """

    records: pa.Table
    next_offset: int

    @property
    def num_rows(self) -> int:
        """Number of records."""
        return len(self)

    def __len__(self) -> int:
        """Return the number of records."""
        rows: int = self.records.num_rows
        return rows

    def __getitem__(self, column: str) -> pa.ChunkedArray:
        """Return one column of the records.

        Raises:
            KeyError: There is no such column.
        """
        return self.records[column]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the records as an Arrow stream."""
        return self.records.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        """Show the number of records and the next offset."""
        return f"Fetched(num_rows={len(self)}, next_offset={self.next_offset})"


def fetch_records(  # noqa: PLR0913 - what a fetch was asked for
    storage: RemoteStorageManager,
    partition: TopicIdPartition,
    slices: Sequence[SegmentSlice],
    offset: int,
    max_bytes: int,
    aborts: AbortedBatches | None = None,
    *,
    min_one_message: bool = True,
) -> Fetched:
    """Read the first batches of slices up to a size.

    Args:
        storage: Where the segments are.
        partition: The partition.
        slices: The slices to read, the first of which begins at ``offset``.
        offset: First offset wanted.
        max_bytes: Stored bytes of the batches to return.
        aborts: Determines which batches were aborted, and are left out; None to return
            them.
        min_one_message: Whether the first batch with a wanted record is returned,
            however large it is.

    Returns:
        The records, which are empty if no slice has a wanted one, and the next offset.
        Before a corrupt batch the records end: the next fetch raises its error.

    Raises:
        NotFoundError: A segment is gone.
        CorruptDataError: The first batch is corrupt.
        UnsupportedFormatError: The first batch is of an unsupported format.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """
    options = storage.store.options
    decoder = RecordDecoder(partition.topic, partition.partition, None, options)
    read = _LimitedRead(
        storage, offset, max_bytes, aborts, min_one_message=min_one_message
    )
    found: list[pa.RecordBatch] = []
    try:
        for records in read_records(read, read.limited(slices), decoder):
            found.append(records)  # noqa: PERF402 - kept if a later one is corrupt
    except (CorruptDataError, UnsupportedFormatError):
        if not found:
            raise
        next_offset = found[-1]["offset"][-1].as_py() + 1
    else:
        next_offset = read.next_offset
    return Fetched(pa.Table.from_batches(found, schema=decoder.schema), next_offset)


class _LimitedRead:
    """A read that ends at a size, perhaps after at least one batch with wanted records.

    Attributes:
        storage: Where the segments are.
        is_begun_small: False: all is returned together.
        next_offset: One past the last offset that the batches so far cover.
    """

    is_begun_small = False

    def __init__(
        self,
        storage: RemoteStorageManager,
        offset: int,
        max_bytes: int,
        aborts: AbortedBatches | None,
        *,
        min_one_message: bool,
    ) -> None:
        """Create a read, without sending a request."""
        self.storage = storage
        self.next_offset = offset
        self._decoder = RecordDecoder("", 0, ("offset",), storage.store.options)
        self._aborts = aborts
        self._max_bytes = max(max_bytes, 1)
        self._taken = 0
        self._is_full = False
        self._min_one_message = min_one_message

    def limited(self, slices: Iterable[SegmentSlice]) -> Iterator[SegmentSlice]:
        """Yield the slices up to the size, of which little more is fetched."""
        for part in slices:
            limit = part.start_position + self._max_bytes - self._taken
            yield replace(part, end_position=min(limit, part.end_position))
            if self._is_full:
                return
            self.next_offset = part.end_offset

    def fetch(self, part: SegmentSlice) -> LogFetch:
        """Fetch the log of a slice."""
        return fetch_slice(self.storage, part, self.storage.store.options.fetch_bytes)

    def follow(self, batches: Iterable[LogBatches]) -> Iterator[LogBatches]:
        """Yield the batches of a slice up to the size."""
        for found in batches:
            hidden = found.is_control
            if self._aborts is not None:
                hidden = hidden | self._aborts.hidden(found)
            sizes = found["size"] * _hold_wanted(found, hidden, self._decoder)
            ends = self._taken + np.cumsum(sizes)
            fitting = ends <= self._max_bytes
            if self._min_one_message:  # the first with a wanted record
                fitting |= ends == sizes
            count = int(np.count_nonzero(fitting))
            if count:
                last = int(found["last_offset"][count - 1])
                self.next_offset = min(last + 1, found.end_offset)
                self._taken = int(ends[count - 1])
                yield from found.take(slice(count)).without(hidden[:count])
            self._is_full = self._taken >= self._max_bytes or count < len(found)
            if self._is_full:
                return


def _hold_wanted(
    batches: LogBatches, hidden: npt.NDArray[np.bool_], decoder: RecordDecoder
) -> npt.NDArray[np.bool_]:
    """Return which batches have a wanted record and are not hidden.

    The header of a batch that extends beyond the wanted offsets does not show at which
    offsets the cleaner has left records: such a batch is decoded.
    """
    base, last = batches["base_offset"], batches["last_offset"]
    count = batches["record_count"]
    holding: npt.NDArray[np.bool_] = (count > 0) & ~hidden
    reaching = (base < batches.first_offset) | (last > batches.end_offset - 1)
    for row in np.flatnonzero(holding & reaching & (count <= last - base)):
        decoded = decoder.decode([batches.take([row])])
        with suppress(CorruptDataError):  # raised where it is decoded to be returned
            holding[row] = any(records.num_rows for records in decoded)
    return holding
