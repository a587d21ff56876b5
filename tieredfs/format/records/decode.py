"""Decode Kafka record batches to Arrow record batches of bounded size.

A decoder takes whole Kafka batches, of any number and size, and yields Arrow batches of
about one size. The kernel in use decodes the records: ``decode_compiled``, or
``decode_numpy`` where the compiled kernel is not available.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import pyarrow as pa

from tieredfs.format.batch.decompress import decompress_batches
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.kernel.select import Kernel, chosen_kernel
from tieredfs.format.records import decode_numpy
from tieredfs.format.records.schema import (
    OFFSET_BYTES,
    OFFSET_COLUMNS,
    ColumnBuilder,
    OutputSize,
    project,
)
from tieredfs.options import DEFAULTS, Options

__all__ = ["RecordDecoder"]


@dataclass(frozen=True)
class RecordDecoder:
    """Decode the batches of one partition.

    Attributes:
        topic: Value of the topic column.
        partition: Value of the partition column.
        columns: Columns to build, in this order; None for all.
        options: How large an Arrow batch and a decompressed one may be; None for the
            defaults, and an error that does not name an option to raise.
    """

    topic: str
    partition: int
    columns: tuple[str, ...] | None = None
    options: Options | None = None

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of the Arrow batches.

        Raises:
            InvalidArgumentError: A column does not exist or is repeated.
        """
        return project(self.columns)

    def decode(self, batches: Iterable[LogBatches]) -> Iterator[pa.RecordBatch]:
        """Decompress Kafka batches, and yield their records as Arrow batches.

        See ``decompress`` and ``decode_uncompressed``.

        Args:
            batches: Whole batches with increasing offsets.

        Raises:
            CorruptBatchError: The records of a batch are malformed or decompress to
                more than the options allow. This error and any error of ``batches``
                is raised after the records before it have been yielded.
        """
        # Closed explicitly: a reference to an error would keep the thread alive.
        with closing(self.decompress(batches)) as uncompressed:
            yield from self.decode_uncompressed(uncompressed)

    def decompress(self, batches: Iterable[LogBatches]) -> Generator[LogBatches]:
        """Decompress Kafka batches, as far as the columns need it.

        See ``decompress_batches``: no column may need more than the offsets.

        Args:
            batches: Whole batches with increasing offsets.

        Raises:
            CorruptBatchError: As in ``decompress_batches``.
        """
        limit = None if self.options is None else self.options.max_decompressed_bytes
        offsets_only = OFFSET_COLUMNS.issuperset(self.schema.names)
        return decompress_batches(batches, limit, offsets_only=offsets_only)

    def decode_uncompressed(
        self, batches: Iterable[LogBatches]
    ) -> Iterator[pa.RecordBatch]:
        """Yield the records of Kafka batches in order, as Arrow batches.

        They have 1-8 MiB by default. One is larger only when it has a single record.
        The last one, and one next to a record of several MiB, may be smaller; all may
        be smaller when only some columns are built. Kafka batches are taken as needed,
        about 4 MiB of records at a time, and use a few times that much memory.

        Args:
            batches: Whole batches with increasing offsets, as ``decompress`` yields
                them. Control batches are decoded like any other; the caller leaves out
                those it does not want.

        Raises:
            CorruptBatchError: The records of a batch are malformed. This error and any
                error of ``batches`` is raised after the records before it have been
                yielded.
        """
        same = {
            "topic": _Repeated(partial(_same_text, self.topic.encode())),
            "partition": _Repeated(partial(_same_number, self.partition)),
        }
        names = self.schema.names
        topic_bytes = OFFSET_BYTES + len(self.topic.encode())
        other_bytes = topic_bytes * ("topic" in names) + 4 * ("partition" in names)
        built = [name for name in names if name not in same]
        output = OutputSize.of((self.options or DEFAULTS).output_batch_bytes)
        for rows, arrays in _column_builder()(batches, built, other_bytes, output):
            if names:
                columns = [
                    same[name].take(rows) if name in same else arrays[name]
                    for name in names
                ]
                yield pa.RecordBatch.from_arrays(columns, schema=self.schema)
            else:  # a batch without columns gets its row count this way
                yield pa.RecordBatch.from_arrays([pa.nulls(rows)], [""]).select([])


class _Repeated:
    """A column with the same value in all rows, made once and sliced."""

    def __init__(self, make: Callable[[int], pa.Array]) -> None:
        self._make = make
        self._array = make(0)

    def take(self, rows: int) -> pa.Array:
        """Return the column with ``rows`` rows."""
        if len(self._array) < rows:
            self._array = self._make(rows + rows // 8)
        return self._array.slice(0, rows)


# pa.repeat and pa.array would import pandas where it is installed.
def _same_text(text: bytes, rows: int) -> pa.Array:
    ends = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * np.int32(len(text)))
    return pa.Array.from_buffers(
        pa.string(), rows, [None, ends, pa.py_buffer(text * rows)]
    )


def _same_number(number: int, rows: int) -> pa.Array:
    numbers = pa.py_buffer(np.full(rows, number, np.int32))
    return pa.Array.from_buffers(pa.int32(), rows, [None, numbers])


def _column_builder() -> ColumnBuilder:
    """Return the column builder of the kernel in use."""
    if chosen_kernel() is Kernel.COMPILED:
        # It may be missing.
        from tieredfs.format.records import decode_compiled  # noqa: PLC0415

        return decode_compiled.build_columns
    return decode_numpy.build_columns
