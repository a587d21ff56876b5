"""Record batches in a buffer: a single one, or a table of many."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tieredfs.format.batch.header import (
    CODEC_MASK,
    CONTROL,
    CRC_END,
    HEADER_SIZE,
    MAGIC,
    TRANSACTIONAL,
    BatchHeader,
)
from tieredfs.format.checksum import check_crc32c, crc32c
from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["BATCH_ROW", "MAX_END", "BatchTable", "LogBatch", "LogBatches"]

BATCH_ROW: Final = np.dtype(
    [(name, np.int64) for name in (*BatchHeader._fields, "start", "end")]
)
"""A batch as a row of a table: the fields of its header, and the start and end in the
buffer of its records, or of the data to decompress or convert to get them. The kernel
relies on this order."""

BatchTable = npt.NDArray[np.void]
"""Rows of BATCH_ROW."""

MAX_END: Final = 1 << 63
_FIELDS: Final = len(BatchHeader._fields)


class LogBatch(NamedTuple):
    """A record batch and the buffer that holds it.

    Attributes:
        header: The batch's header, checked.
        buffer: Log bytes that contain the whole batch.
        start: Position of the batch in ``buffer``.
        name: Log name used in error messages.
    """

    header: BatchHeader
    buffer: memoryview
    start: int
    name: str

    @property
    def where(self) -> str:
        """Batch name used in error messages."""
        return f"{self.name}: batch at position {self.header.position}"


@dataclass(frozen=True, slots=True, eq=False)
class LogBatches:
    """Record batches with increasing offsets, their checked headers in columns.

    No object per batch is made until the batches are iterated over. Checksums that are
    not yet verified are checked then, or when the records are decoded: a caller that
    drops a batch because of its header calls ``check`` first.

    Attributes:
        table: One row per batch.
        buffer: Bytes that contain all batches.
        name: Log name used in error messages.
        is_checked: Whether the checksums are verified; when they are not, ``buffer``
            contains each batch whole.
        first_offset: Records below this offset are left out.
        end_offset: Records at or above this offset are left out.
    """

    table: BatchTable
    buffer: memoryview
    name: str
    is_checked: bool = False
    first_offset: int = 0
    end_offset: int = MAX_END

    @classmethod
    def of(cls, batch: LogBatch) -> "LogBatches":
        """Make a table of one batch, whose checksum must be verified."""
        header, end = batch.header, batch.start + batch.header.size
        start = batch.start + (HEADER_SIZE if header.magic == MAGIC else 0)
        table = np.array([(*header, start, end)], BATCH_ROW)
        return cls(table, batch.buffer, batch.name, is_checked=True)

    def __len__(self) -> int:
        """Return the number of batches."""
        return len(self.table)

    def __iter__(self) -> Iterator[LogBatch]:
        """Yield each batch after checking its checksum.

        Raises:
            CorruptBatchError: A checksum does not match.
        """
        for row in self.table.tolist():
            header = BatchHeader._make(row[:_FIELDS])
            start, end = row[-1] - header.size, row[-1]
            batch = LogBatch(header, self.buffer, start, self.name)
            if not self.is_checked:
                checked = self.buffer[start + CRC_END : end]
                check_crc32c(checked, header.crc, where=batch.where)
            yield batch

    def check(self) -> None:
        """Check the checksums of all batches.

        Raises:
            CorruptBatchError: A checksum does not match.
        """
        wrong = self.count_valid()
        if wrong < len(self):
            for _ in self.take(slice(wrong, None)):  # raises the error
                pass

    def count_valid(self) -> int:
        """Return the number of batches before the first whose checksum is wrong."""
        if self.is_checked:
            return len(self)
        if chosen_kernel() is Kernel.COMPILED:
            from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - may be missing

            return _kernel.count_valid(self.buffer, self.table)
        columns = (self[name].tolist() for name in ("size", "end", "crc"))
        for row, (size, end, crc) in enumerate(zip(*columns, strict=True)):
            if crc32c(self.buffer[end - size + CRC_END : end]) != crc:
                return row
        return len(self)

    @property
    def is_packed(self) -> npt.NDArray[np.bool_]:
        """For each batch, whether it is compressed or of a version before 2."""
        packed: npt.NDArray[np.bool_] = (self["attributes"] & CODEC_MASK != 0) | (
            self["magic"] < MAGIC
        )
        return packed

    @property
    def is_dense(self) -> npt.NDArray[np.bool_]:
        """For each batch, whether it has a record at each offset (version 2)."""
        span = self["last_offset"] - self["base_offset"] + 1  # 2^63 wraps to no count
        dense: npt.NDArray[np.bool_] = (self["record_count"] == span) & (
            self["magic"] == MAGIC
        )
        return dense

    def __getitem__(self, field: str) -> npt.NDArray[np.int64]:
        """Return one header field of all batches."""
        column: npt.NDArray[np.int64] = self.table[field]
        return column

    def take(self, rows: Any) -> "LogBatches":  # noqa: ANN401 - what numpy takes
        """Return the batches that a slice, a mask or a list of rows selects."""
        return LogBatches(
            self.table[rows],
            self.buffer,
            self.name,
            self.is_checked,
            self.first_offset,
            self.end_offset,
        )

    def split(self, turns: npt.NDArray[np.bool_]) -> Iterator["LogBatches"]:
        """Split the batches into consecutive parts.

        Args:
            turns: For each batch but the first, whether it begins a new part.
        """
        places = np.flatnonzero(turns) + 1
        for first, end in zip([0, *places], [*places, len(self)], strict=True):
            yield self.take(slice(first, end))

    def with_records(self, table: BatchTable, data: memoryview) -> "LogBatches":
        """Return the same batches as verified, with their records in another buffer."""
        return LogBatches(
            table,
            data,
            self.name,
            is_checked=True,
            first_offset=self.first_offset,
            end_offset=self.end_offset,
        )

    def within(self, first_offset: int, end_offset: int) -> "LogBatches":
        """Return the same batches, limited to a range of offsets."""
        return replace(self, first_offset=first_offset, end_offset=end_offset)

    @property
    def is_control(self) -> npt.NDArray[np.bool_]:
        """For each batch, whether its records are the broker's own."""
        control: npt.NDArray[np.bool_] = self["attributes"] & CONTROL != 0
        return control

    @property
    def is_transactional(self) -> npt.NDArray[np.bool_]:
        """For each batch, whether it has records that a transaction has written."""
        flags = self["attributes"] & (TRANSACTIONAL | CONTROL)
        transactional: npt.NDArray[np.bool_] = flags == TRANSACTIONAL
        return transactional

    def without(self, hidden: npt.NDArray[np.bool_]) -> Iterator["LogBatches"]:
        """Yield the batches that are not hidden, in order.

        Args:
            hidden: For each batch, whether it is left out.

        Raises:
            CorruptBatchError: The checksum of a batch that is left out does not match.
                The batches before it have been yielded.
        """
        if not hidden.any():
            yield self
            return
        left_out = self.take(hidden)
        valid = left_out.count_valid()
        if valid < len(left_out):
            end = np.flatnonzero(hidden)[valid]
            yield self.take(slice(end)).take(~hidden[:end])
            left_out.take([valid]).check()
        yield self.take(~hidden)

    def where(self, row: int) -> str:
        """The batch name used in error messages."""
        return f"{self.name}: batch at position {self.table['position'][row]}"
