"""Record batches → Arrow record batches of bounded size.

This is the seam between the log and the machine: a decoder takes whole batches, in any
number and size, and gives Arrow in pieces of 1-8 MiB. The fields are decoded by
``records_numpy``; a compiled kernel takes its place behind the same functions.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch import HEADER_SIZE, MIN_RECORD
from tieredfs.format.batch_header import MAGIC, BatchHeader, Codec
from tieredfs.format.codecs import MAX_DECOMPRESSED, decompress
from tieredfs.format.message_set import upgraded_records
from tieredfs.format.records_numpy import (
    OFFSET_SIZE,
    DecodedRecords,
    MalformedRecordsError,
    Run,
    decode_records,
    row_slices,
)
from tieredfs.format.schema import project
from tieredfs.format.varints import Int64Array

__all__ = ["LogBatch", "RecordDecoder"]

_GROUP = 4 << 20
"""Bytes of records decoded at once: the output then fits a processor's cache."""

_MOST = (8 << 20) - 64
"""Bytes of the rows of one Arrow batch, unless a single record has more."""

_ROWS = 1 << 17
"""Records decoded at once: what is known of each takes more than a tiny record does."""

_MAX_END = 1 << 63


class LogBatch(NamedTuple):
    """A record batch and where its bytes are.

    Attributes:
        header: The batch's header, checked.
        buffer: Log bytes that hold the whole batch.
        start: Position of the batch in ``buffer``.
        name: How to call the log in an error.
        first_offset: Records below this offset are not wanted.
        end_offset: Records at or above this offset are not wanted.
    """

    header: BatchHeader
    buffer: memoryview
    start: int
    name: str
    first_offset: int = 0
    end_offset: int = _MAX_END

    @property
    def is_cut(self) -> bool:
        """Whether some of its records may not be wanted."""
        return (
            self.header.base_offset < self.first_offset
            or self.header.last_offset >= self.end_offset
        )

    @property
    def where(self) -> str:
        """How to call the batch in an error."""
        return f"{self.name}: batch at position {self.header.position}"


class _Piece(NamedTuple):
    """The uncompressed records of one batch: ``[start, end)`` of a buffer."""

    batch: LogBatch
    data: memoryview
    start: int
    end: int

    @property
    def size(self) -> int:
        """Bytes of records."""
        return self.end - self.start


@dataclass(frozen=True)
class RecordDecoder:
    """Decode the batches of one partition.

    Attributes:
        topic: What the topic column says.
        partition: What the partition column says.
        columns: Columns to build, in this order; None for all.
    """

    topic: str
    partition: int
    columns: tuple[str, ...] | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of every batch that comes out.

        Raises:
            InvalidArgumentError: A column does not exist or is named twice.
        """
        return project(self.columns)

    def decode(self, batches: Iterable[LogBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records of ``batches`` in order, in pieces of 1-8 MiB.

        No piece of more than one record is larger. The last one, and one beside a batch
        that is cut or beside a record of several MiB, may be smaller; so are all when
        not all columns are asked for. Batches are decoded as they are needed, about
        4 MiB of records at a time, in memory of a few times that size.

        Args:
            batches: Whole batches with rising offsets. Control batches come out like
                any other: leave out what is not wanted.

        Raises:
            CorruptBatchError: The records of a batch are malformed or decompress to
                more than a batch may have. This and any error of ``batches`` is raised
                when the records before it have come out.
        """
        for group in _groups(batches):
            yield from self._decode_group(group)

    def _decode_group(self, group: list[_Piece]) -> Iterator[pa.RecordBatch]:
        """Decode whole batches together, or one alone that is cut or large."""
        if len(group) > 1:
            try:
                whole = list(self._decode_runs(group))  # bounded, as the group is
            except MalformedRecordsError:
                for piece in group:  # what is right comes out, what is not is named
                    yield from self._decode_group([piece])
            else:
                yield from whole
            return
        try:
            yield from self._decode_runs(group)
        except MalformedRecordsError as error:
            msg = f"{group[0].batch.where}: {error}"
            raise CorruptBatchError(msg) from error

    def _decode_runs(self, group: list[_Piece]) -> Iterator[pa.RecordBatch]:
        first, end = group[0].batch.first_offset, group[-1].batch.end_offset
        for records in _decode(group):
            start = int(np.searchsorted(records.offsets, first))
            # An end of 2^63 is no int64.
            stop = int(np.searchsorted(records.offsets, end - 1, side="right"))
            yield from self._build(records, slice(start, max(start, stop)))

    def _build(
        self, records: DecodedRecords, wanted: slice
    ) -> Iterator[pa.RecordBatch]:
        """Build the columns of some records, in pieces."""
        sizes = np.zeros(wanted.stop - wanted.start, np.int64)
        for name in self.schema.names:
            sizes += self._column_sizes(records, name, wanted)
        for part in row_slices(sizes, _MOST):
            rows = slice(wanted.start + part.start, wanted.start + part.stop)
            arrays = [self._column(records, name, rows) for name in self.schema.names]
            if arrays:
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
            else:  # without a column Arrow counts no rows, unless told so
                count = pa.nulls(part.stop - part.start)
                yield pa.RecordBatch.from_arrays([count], [""]).select([])

    def _column_sizes(
        self, records: DecodedRecords, name: str, rows: slice
    ) -> Int64Array | int:
        if name == "topic":
            return OFFSET_SIZE + len(self.topic.encode())
        return records.column_sizes(name, rows)

    def _column(self, records: DecodedRecords, name: str, rows: slice) -> pa.Array:
        count = rows.stop - rows.start
        if name == "topic":
            return pa.repeat(pa.scalar(self.topic), count)
        if name == "partition":
            return pa.repeat(pa.scalar(self.partition, pa.int32()), count)
        return records.column(name, rows)


def _groups(batches: Iterable[LogBatch]) -> Iterator[list[_Piece]]:
    """Gather batches to decode together; one that is cut stays alone."""
    group: list[_Piece] = []
    held = rows = 0
    try:
        for batch in batches:
            if not batch.header.record_count:
                continue
            piece = _open(batch)
            held += piece.size
            rows += batch.header.record_count
            if group and (batch.is_cut or held > _MOST or rows > _ROWS):
                yield group
                group, held, rows = [], piece.size, batch.header.record_count
            group.append(piece)
            if held >= _GROUP or batch.is_cut:
                yield group
                group, held, rows = [], 0, 0
    except Exception:
        if group:  # what lies before the error comes out first
            yield group
        raise
    if group:
        yield group


def _open(batch: LogBatch) -> _Piece:
    """Find the records of a batch, decompressed if need be."""
    start, end = batch.start + HEADER_SIZE, batch.start + batch.header.size
    if batch.header.magic < MAGIC:
        message = batch.buffer[batch.start : end]
        data = upgraded_records(message, batch.header, name=batch.where)
        return _Piece(batch, data, 0, len(data))
    codec, least = batch.header.codec, MIN_RECORD * batch.header.record_count
    if codec is Codec.NONE:
        return _Piece(batch, batch.buffer, start, end)
    if least > MAX_DECOMPRESSED:
        raise _too_few(batch, MAX_DECOMPRESSED)
    data = decompress(codec, batch.buffer[start:end], name=batch.where)
    if least > len(data):
        raise _too_few(batch, len(data))
    return _Piece(batch, data, 0, len(data))


def _too_few(batch: LogBatch, size: int) -> CorruptBatchError:
    count = batch.header.record_count
    return CorruptBatchError(f"{batch.where}: {size} bytes cannot hold {count} records")


def _decode(group: list[_Piece]) -> Iterator[DecodedRecords]:
    """Decode several batches at once, or one batch a run of records at a time."""
    if len(group) == 1:
        yield from _decode_runs(group[0])
        return
    data = group[0].data
    starts = [piece.start for piece in group]
    if not all(piece.data is data for piece in group):
        starts = np.cumsum([0, *(piece.size for piece in group[:-1])]).tolist()
        parts = (piece.data[piece.start : piece.end] for piece in group)
        data = memoryview(b"".join(parts))
    runs = []
    for piece, start in zip(group, starts, strict=True):
        header = piece.batch.header
        count, above = header.record_count, header.base_offset - 1
        runs.append(Run(header, start, start + piece.size, count, count, above))
    yield decode_records(data, runs)


def _decode_runs(piece: _Piece) -> Iterator[DecodedRecords]:
    header = piece.batch.header
    start, above, left = piece.start, header.base_offset - 1, header.record_count
    while left:
        rows = -(-left // -(-left // _ROWS))  # runs of one length, none of them tiny
        run = Run(header, start, piece.end, rows, left, above)
        records = decode_records(piece.data, [run])
        yield records
        start, above = int(records.ends[-1]), int(records.offsets[-1])
        left -= rows
