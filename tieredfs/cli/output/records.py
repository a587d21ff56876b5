"""Records as text, JSON lines, an Arrow stream or Parquet."""

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, BinaryIO, ClassVar, Final, Self

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from tieredfs.cli.output.escapes import escape_field, to_json
from tieredfs.cli.output.json_lines import json_lines
from tieredfs.cli.output.tables import show_time
from tieredfs.cli.output.text_encoder import TIMESTAMP_TYPES, TextEncoder

__all__ = ["FORMATS", "RecordWriter"]

_NULL: Final = "\\N"  # a backslash of a record itself is written twice


class RecordWriter(ABC):
    """Write batches of records to a binary stream, in a with block.

    When the block ends the output is whole. When an error ends it, the output is cut
    off, and is recognisably incomplete if the format allows that.

    Attributes:
        binary: Whether a terminal should be spared what it writes.
        columns: The columns that it is given if no others are asked for; None for all.
    """

    binary = False
    columns: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, out: BinaryIO, schema: pa.Schema, encode: TextEncoder) -> None:
        """Take the stream; it stays open."""
        self.out = out
        self.schema = schema
        self.encode = encode

    @abstractmethod
    def write(self, batch: pa.RecordBatch) -> None:
        """Write the records of one batch."""

    def finish(self) -> None:
        """Write what makes the output whole."""
        self.out.flush()

    def abandon(self) -> None:  # noqa: B027 - most formats have nothing to undo
        """Leave the output incomplete."""

    def __enter__(self) -> Self:
        """Write in a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Finish, or abandon when there was an error."""
        if exc_type is None:
            self.finish()
        else:
            self.abandon()


class _Text(RecordWriter):
    """The fields of a record in a line, with tabs between them."""

    columns = ("partition", "offset", "timestamp", "key", "value")

    def write(self, batch: pa.RecordBatch) -> None:
        for row in _rows(batch):
            fields = (self._field(name, value) for name, value in row.items())
            self.out.write(("\t".join(fields) + "\n").encode())

    def _field(self, name: str, value: Any) -> str:  # noqa: ANN401 - as Arrow gives it
        match name:
            case "key" | "value":
                text = self.encode(value)
            case "timestamp":
                return show_time(value)
            case "timestampType":
                text = TIMESTAMP_TYPES[value]
            case "headers":
                text = to_json(self.encode.headers(value))
            case _:
                return str(value)
        return _NULL if text is None else escape_field(text)


class _JsonLines(RecordWriter):
    """One JSON object a record."""

    columns = (
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "key",
        "value",
        "headers",
    )

    def write(self, batch: pa.RecordBatch) -> None:
        for lines in json_lines(batch, self.encode):
            self.out.write(lines)


class _Arrow(RecordWriter):
    """An Arrow IPC stream."""

    binary = True

    def __init__(self, out: BinaryIO, schema: pa.Schema, encode: TextEncoder) -> None:
        super().__init__(out, schema, encode)
        self._writer = pa.ipc.new_stream(out, schema)

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def finish(self) -> None:
        self._writer.close()
        super().finish()


class _Parquet(RecordWriter):
    """A Parquet file."""

    binary = True

    def __init__(self, out: BinaryIO, schema: pa.Schema, encode: TextEncoder) -> None:
        super().__init__(out, schema, encode)
        self._tap = _Tap(out)
        self._writer = pq.ParquetWriter(self._tap, schema, compression="zstd")

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def finish(self) -> None:
        self._writer.close()
        super().finish()

    def abandon(self) -> None:
        # Arrow writes the footer even when it only forgets the file.
        self._tap.shut = True
        self._writer.close()


class _Tap:
    """Pass on what Arrow writes, until it is shut.

    Attributes:
        closed: Never; Arrow asks.
        shut: Whether what is written goes nowhere.
    """

    closed = False

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.shut = False

    def write(self, data: bytes) -> None:
        """Pass it on."""
        if not self.shut:
            self._out.write(data)

    def flush(self) -> None:
        """Leave it to the stream itself."""

    def close(self) -> None:
        """Leave the stream open."""


FORMATS: Final[dict[str, type[RecordWriter]]] = {
    "text": _Text,
    "jsonl": _JsonLines,
    "arrow": _Arrow,
    "parquet": _Parquet,
}
"""The formats by name."""


def _rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Return the records with their timestamps in ms: not every one is a date."""
    at = batch.schema.get_field_index("timestamp")
    if at >= 0:
        stamps = batch.column(at).cast(pa.int64())
        batch = batch.set_column(at, "timestamp", stamps)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows
