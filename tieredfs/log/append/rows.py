"""Records to append, cut into batches of about 1 MiB as they are taken."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, Self

import numpy as np
import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.records.schema import SCHEMA

__all__ = ["AppendRows"]

_BATCH_BYTES: Final = 1 << 20
_BATCH_ROWS: Final = 1 << 16
_WRITTEN: Final = ("key", "value", "headers", "timestamp")


@dataclass(frozen=True, slots=True)
class AppendRows:
    """The given records to append, without copying them.

    Attributes:
        records: The records, with some of the columns that are written.
        name: Partition name used in error messages.
    """

    records: pa.Table
    name: str

    @classmethod
    def of(cls, records: pa.Table | pa.RecordBatch, name: str) -> Self:
        """Create rows from records, after checking their columns.

        Raises:
            InvalidArgumentError: They are not a table, a column is unknown or
                duplicate, headers have other fields, or there is no record.
        """
        if isinstance(records, pa.RecordBatch):
            records = pa.Table.from_batches([records])
        if not isinstance(records, pa.Table):
            kind = type(records).__name__
            msg = f"{name}: records must be a pyarrow.Table, not {kind}"
            raise InvalidArgumentError(msg)
        names = Counter(records.schema.names)
        wrong = sorted(
            n for n, times in names.items() if n not in _WRITTEN or times > 1
        )
        if wrong or not records.num_rows:
            detail = f"column {wrong[0]!r}" if wrong else "no records"
            raise InvalidArgumentError(
                f"{name}: {detail}: give records with some of the columns "
                f"{', '.join(_WRITTEN)}, each once"
            )
        if "headers" in names:
            _check_headers(records.schema.field("headers").type, name)
        return cls(records, name)

    def __len__(self) -> int:
        """Return the number of records."""
        rows: int = self.records.num_rows
        return rows

    def skip(self, count: int) -> Self:
        """Return the records after the first ``count``."""
        return replace(self, records=self.records.slice(count))

    def batches(self, offset: int, now_ms: int) -> Iterator[pa.RecordBatch]:
        """Yield batches of about 1 MiB, with offsets and timestamps.

        Args:
            offset: Offset of the first record.
            now_ms: Timestamp of records without one, ms since 1970 UTC.

        Raises:
            InvalidArgumentError: A value does not fit the type of its column.
        """
        for window in self._windows():
            columns = [self._column(window, name, now_ms) for name in _WRITTEN]
            offsets = np.arange(offset, offset + window.num_rows, dtype=np.int64)
            offset += window.num_rows
            whole = pa.table([*columns, offsets], names=[*_WRITTEN, "offset"])
            yield from whole.combine_chunks().to_batches()

    def _windows(self) -> Iterator[pa.Table]:
        """Group the records: small neighbouring chunks together, large ones alone."""
        held: list[pa.RecordBatch] = []
        rows = size = 0
        for part in self._parts():
            rows, size = rows + part.num_rows, size + part.nbytes
            if held and (rows > _BATCH_ROWS or size > _BATCH_BYTES):
                yield pa.Table.from_batches(held)
                held, rows, size = [], part.num_rows, part.nbytes
            held.append(part)
        yield pa.Table.from_batches(held)

    def _parts(self) -> Iterator[pa.RecordBatch]:
        """Yield the chunks, split down to a batch's size or a single row."""
        for chunk in self.records.to_reader(max_chunksize=_BATCH_ROWS):
            left = chunk
            while left.num_rows:
                count = left.num_rows
                while count > 1 and left.slice(0, count).nbytes > _BATCH_BYTES:
                    count //= 2
                yield left.slice(0, count)
                left = left.slice(count)

    def _column(self, window: pa.Table, name: str, now_ms: int) -> pa.ChunkedArray:
        """Return one column in the type that is written, timestamps filled in."""
        kind = SCHEMA.field(name).type
        try:
            found = (
                window[name].cast(kind)
                if name in window.schema.names
                else pa.chunked_array([pa.nulls(window.num_rows, kind)])
            )
        except pa.ArrowException as error:
            msg = f"{self.name}: column {name!r} is not {kind}: {error}"
            raise InvalidArgumentError(msg) from error
        if name != "timestamp":
            return found
        return found.fill_null(pa.scalar(now_ms, pa.int64()).cast(kind))


def _check_headers(kind: pa.DataType, name: str) -> None:
    """Check the fields of headers: a cast leaves others out, and adds what is missing.

    Raises:
        InvalidArgumentError: They are not those that are written.
    """
    written = sorted(field.name for field in SCHEMA.field("headers").type.value_type)
    header = getattr(kind, "value_type", None)
    if header is None or not pa.types.is_struct(header):
        return  # null, a map, or what no cast takes
    found = sorted(field.name for field in header)
    if found != written:
        msg = (
            f"{name}: headers with the fields {', '.join(found) or 'none'}: "
            f"a header has {' and '.join(written)}, each once"
        )
        raise InvalidArgumentError(msg)
