"""Record batches where they lie: one, or many that share a buffer."""

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
    BatchHeader,
)
from tieredfs.format.checksum import check_crc32c, crc32c

__all__ = ["BATCH_ROW", "MAX_END", "BatchTable", "LogBatch", "LogBatches"]

BATCH_ROW: Final = np.dtype(
    [(name, np.int64) for name in (*BatchHeader._fields, "start", "end")]
)
"""A batch as a row of a table: the fields of its header; and where in the buffer its
records lie, or what has to be unpacked to get them. The kernel knows this order."""

BatchTable = npt.NDArray[np.void]
"""Rows of BATCH_ROW."""

MAX_END: Final = 1 << 63
_FIELDS: Final = len(BatchHeader._fields)


class LogBatch(NamedTuple):
    """A record batch and where its bytes are.

    Attributes:
        header: The batch's header, checked.
        buffer: Log bytes that hold the whole batch.
        start: Position of the batch in ``buffer``.
        name: How to call the log in an error.
    """

    header: BatchHeader
    buffer: memoryview
    start: int
    name: str

    @property
    def where(self) -> str:
        """How to call the batch in an error."""
        return f"{self.name}: batch at position {self.header.position}"


@dataclass(frozen=True, slots=True, eq=False)
class LogBatches:
    """Record batches with rising offsets, their headers checked and in columns.

    Nothing is made for each of them until they are iterated over. Unless their
    checksums are known to be right, they are looked at then, or when the records are
    decoded: whoever drops a batch for what its header says calls ``check`` first.

    Attributes:
        table: A row for each.
        buffer: Bytes that hold them all.
        name: How to call the log in an error.
        is_checked: Whether their checksums are known to be right; otherwise each batch
            lies whole in ``buffer``.
        first_offset: Records below this offset are not wanted.
        end_offset: Records at or above this offset are not wanted.
    """

    table: BatchTable
    buffer: memoryview
    name: str
    is_checked: bool = False
    first_offset: int = 0
    end_offset: int = MAX_END

    @classmethod
    def of(cls, batch: LogBatch) -> "LogBatches":
        """Return one batch, its checksum known to be right, as a table of one row."""
        header, end = batch.header, batch.start + batch.header.size
        start = batch.start + (HEADER_SIZE if header.magic == MAGIC else 0)
        table = np.array([(*header, start, end)], BATCH_ROW)
        return cls(table, batch.buffer, batch.name, is_checked=True)

    def __len__(self) -> int:
        """Return how many batches they are."""
        return len(self.table)

    def __iter__(self) -> Iterator[LogBatch]:
        """Yield each batch, its checksum looked at.

        Raises:
            CorruptBatchError: A checksum is wrong.
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
        """Look at the checksums of all.

        Raises:
            CorruptBatchError: One is wrong.
        """
        wrong = self.count_valid()
        if wrong < len(self):
            for _ in self.take(slice(wrong, None)):  # says what is wrong
                pass

    def count_valid(self) -> int:
        """Return how many of them come before the first whose checksum is wrong."""
        if self.is_checked:
            return len(self)
        columns = (self[name].tolist() for name in ("size", "end", "crc"))
        for row, (size, end, crc) in enumerate(zip(*columns, strict=True)):
            if crc32c(self.buffer[end - size + CRC_END : end]) != crc:
                return row
        return len(self)

    @property
    def is_packed(self) -> npt.NDArray[np.bool_]:
        """Which of them are compressed, or not of the version that is decoded."""
        packed: npt.NDArray[np.bool_] = (self["attributes"] & CODEC_MASK != 0) | (
            self["magic"] < MAGIC
        )
        return packed

    def __getitem__(self, field: str) -> npt.NDArray[np.int64]:
        """Return one field of every batch."""
        column: npt.NDArray[np.int64] = self.table[field]
        return column

    def take(self, rows: Any) -> "LogBatches":  # noqa: ANN401 - what numpy takes
        """Return some of the batches: those of a slice, or where a mask is true."""
        return LogBatches(
            self.table[rows],
            self.buffer,
            self.name,
            self.is_checked,
            self.first_offset,
            self.end_offset,
        )

    def split(self, turns: npt.NDArray[np.bool_]) -> Iterator["LogBatches"]:
        """Yield the batches in parts.

        Args:
            turns: For each batch but the first, whether a part begins with it.
        """
        places = np.flatnonzero(turns) + 1
        for first, end in zip([0, *places], [*places, len(self)], strict=True):
            yield self.take(slice(first, end))

    def with_records(self, table: BatchTable, data: memoryview) -> "LogBatches":
        """Return the same batches, checked, whose records are elsewhere."""
        return LogBatches(
            table,
            data,
            self.name,
            is_checked=True,
            first_offset=self.first_offset,
            end_offset=self.end_offset,
        )

    def within(self, first_offset: int, end_offset: int) -> "LogBatches":
        """Return the same batches, of whose records only some are wanted."""
        return replace(self, first_offset=first_offset, end_offset=end_offset)

    def without_control(self) -> "LogBatches":
        """Return those whose records are a producer's, not the broker's own.

        Raises:
            CorruptBatchError: The checksum of one that is left out is wrong.
        """
        control = self["attributes"] & CONTROL != 0
        if not control.any():
            return self
        self.take(control).check()
        return self.take(~control)

    def where(self, row: int) -> str:
        """How to call a batch in an error."""
        return f"{self.name}: batch at position {self.table['position'][row]}"
