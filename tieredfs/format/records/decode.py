"""Record batches → Arrow record batches of bounded size.

A decoder takes whole batches, in any number and size, and gives Arrow in pieces of
1-8 MiB. The records are decoded by the kernel in use: ``records_compiled``, or
``records_numpy`` where nothing was compiled.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from tieredfs.format.batch.decompress import unpacked
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.kernel.select import Kernel, chosen_kernel
from tieredfs.format.records import decode_numpy as records_numpy
from tieredfs.format.records.schema import OFFSET_BYTES, ColumnBuilder, project

__all__ = ["RecordDecoder"]


@dataclass(frozen=True)
class RecordDecoder:
    """Decode the batches of one partition.

    Attributes:
        topic: What the topic column says.
        partition: What the partition column says.
        columns: Columns to build, in this order; None for all.
        max_batch_bytes: Most bytes that the records of a compressed batch may have;
            None for 256 MiB, and an error that names nothing to raise.
    """

    topic: str
    partition: int
    columns: tuple[str, ...] | None = None
    max_batch_bytes: int | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of every batch that comes out.

        Raises:
            InvalidArgumentError: A column does not exist or is named twice.
        """
        return project(self.columns)

    def decode(self, runs: Iterable[LogBatches]) -> Iterator[pa.RecordBatch]:
        """Yield the records of some batches in order, in pieces of 1-8 MiB.

        No piece of more than one record is larger. The last one, and one beside a
        record of several MiB, may be smaller; so are all when not all columns are asked
        for. Batches are taken as they are needed, about 4 MiB of records at a time, in
        memory of a few times that size.

        Args:
            runs: Whole batches with rising offsets. Control batches come out like any
                other: leave out what is not wanted.

        Raises:
            CorruptBatchError: The records of a batch are malformed or decompress to
                more than a batch may have. This and any error of ``runs`` is raised
                when the records before it have come out.
        """
        same = {
            "topic": _Repeated(partial(_same_text, self.topic.encode())),
            "partition": _Repeated(partial(_same_number, self.partition)),
        }
        names = self.schema.names
        topic_bytes = OFFSET_BYTES + len(self.topic.encode())
        other_bytes = topic_bytes * ("topic" in names) + 4 * ("partition" in names)
        built = [name for name in names if name not in same]
        build = _column_builder()
        # An error would keep its thread alive for as long as somebody keeps the error.
        with closing(unpacked(runs, self.max_batch_bytes)) as ready:
            for rows, arrays in build(ready, built, other_bytes):
                if names:
                    columns = [
                        same[name].take(rows) if name in same else arrays[name]
                        for name in names
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
                else:  # without a column Arrow counts no rows, unless told so
                    yield pa.RecordBatch.from_arrays([pa.nulls(rows)], [""]).select([])


class _Repeated:
    """A value that all rows have: made once, for as many rows as a piece has had."""

    def __init__(self, make: Callable[[int], pa.Array]) -> None:
        self._make = make
        self._array = make(0)

    def take(self, rows: int) -> pa.Array:
        """Return it as a column of so many rows."""
        if len(self._array) < rows:
            self._array = self._make(rows + rows // 8)
        return self._array.slice(0, rows)


# pa.repeat and pa.array would import pandas, where it is installed.
def _same_text(text: bytes, rows: int) -> pa.Array:
    ends = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(len(text)))
    return pa.Array.from_buffers(
        pa.string(), rows, [None, ends, pa.py_buffer(text * rows)]
    )


def _same_number(number: int, rows: int) -> pa.Array:
    numbers = pa.py_buffer(np.full(rows, number, np.int32))
    return pa.Array.from_buffers(pa.int32(), rows, [None, numbers])


def _column_builder() -> ColumnBuilder:
    """Return what decodes by the kernel in use."""
    if chosen_kernel() is Kernel.COMPILED:
        # It may not be there.
        from tieredfs.format.records import decode_compiled as records_compiled  # noqa: PLC0415

        return records_compiled.build_columns
    return records_numpy.build_columns
