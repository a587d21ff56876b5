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
from tieredfs.format.batch import HEADER_SIZE, BatchHeader, Codec
from tieredfs.format.codecs import decompress
from tieredfs.format.records_numpy import (
    DecodedRecords,
    MalformedRecordsError,
    decode_records,
    row_slices,
)
from tieredfs.format.schema import project

__all__ = ["LogBatch", "RecordDecoder"]

_GROUP = 4 << 20
"""Bytes of records decoded at once: the output then fits a processor's cache."""

_MOST = 8 << 20
"""Bytes of records in one Arrow batch, unless a single record has more."""

_MAX_OFFSET = (1 << 63) - 1


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
    end_offset: int = _MAX_OFFSET

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

        The last piece, and one beside a batch that is cut, may be smaller; a single
        record is never split. Batches are decoded as they are needed, about 4 MiB of
        records at a time.

        Args:
            batches: Whole batches with rising offsets. Control batches come out like
                any other: leave out what is not wanted.

        Raises:
            CorruptBatchError: The records of a batch are malformed or decompress to
                more than a batch may have.
        """
        group: list[_Piece] = []
        held = 0
        for batch in batches:
            if not batch.header.record_count:
                continue
            piece = _open(batch)
            if held and (batch.is_cut or held + piece.size > _MOST):
                yield from self._decode_group(group)
                group, held = [], 0
            group.append(piece)
            held += piece.size
            if held >= _GROUP or batch.is_cut:
                yield from self._decode_group(group)
                group, held = [], 0
        if group:
            yield from self._decode_group(group)

    def _decode_group(self, group: list[_Piece]) -> Iterator[pa.RecordBatch]:
        """Decode whole batches together, or one that is cut alone."""
        records = _decode(group, headers="headers" in self.schema.names)
        window = (group[0].batch.first_offset, group[-1].batch.end_offset)
        first, last = np.searchsorted(records.offsets, window).tolist()
        lead = int(records.ends[first - 1]) if first else records.start
        for rows in row_slices(lead, records.ends[first:last], _MOST):
            yield self._build(records, slice(rows.start + first, rows.stop + first))

    def _build(self, records: DecodedRecords, rows: slice) -> pa.RecordBatch:
        count = rows.stop - rows.start
        arrays = []
        for name in self.schema.names:
            if name == "topic":
                arrays.append(pa.repeat(pa.scalar(self.topic), count))
            elif name == "partition":
                arrays.append(pa.repeat(pa.scalar(self.partition, pa.int32()), count))
            else:
                arrays.append(records.column(name, rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def _open(batch: LogBatch) -> _Piece:
    """Find the records of a batch, decompressed if need be."""
    start, end = batch.start + HEADER_SIZE, batch.start + batch.header.size
    codec = batch.header.codec
    if codec is Codec.NONE:
        return _Piece(batch, batch.buffer, start, end)
    data = decompress(codec, batch.buffer[start:end], name=batch.where)
    return _Piece(batch, data, 0, len(data))


def _decode(group: list[_Piece], *, headers: bool) -> DecodedRecords:
    data = group[0].data
    if all(piece.data is data for piece in group):
        regions = [(piece.start, piece.end) for piece in group]
    else:
        ends = np.cumsum([piece.size for piece in group]).tolist()
        regions = list(zip([0, *ends], ends, strict=False))
        parts = (piece.data[piece.start : piece.end] for piece in group)
        data = memoryview(b"".join(parts))
    headers_of = [piece.batch.header for piece in group]
    try:
        return decode_records(headers_of, data, regions, headers=headers)
    except MalformedRecordsError as error:
        if len(group) == 1:
            msg = f"{group[0].batch.where}: {error}"
            raise CorruptBatchError(msg) from error
        for piece in group:  # find the one to name
            _decode([piece], headers=headers)
        raise
