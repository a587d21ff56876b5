"""Records as text, JSON lines, an Arrow stream or Parquet."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice, repeat
from types import TracebackType
from typing import Any, BinaryIO, ClassVar, Final, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq

from tieredfs.cli.output.escapes import escape_field, harmless_json, quote, to_json
from tieredfs.cli.output.tables import show_time

__all__ = ["DECODINGS", "ENCODINGS", "FORMATS", "RecordWriter", "TextEncoder"]

_TIMESTAMP_TYPES: Final = {-1: None, 0: "CreateTime", 1: "LogAppendTime"}
_JSON_NAMES: Final = {"timestampType": "timestamp_type"}
_NULL: Final = "\\N"  # a backslash of a record itself is written twice


class TextEncoder:
    """Turn keys and values into text.

    Attributes:
        lossy: Whether some bytes were not UTF-8 and were shown as U+FFFD.
    """

    def __init__(self, encoding: str) -> None:
        """Choose one of ENCODINGS."""
        self._encode = ENCODINGS[encoding]
        self.lossy = False

    def __call__(self, data: bytes | None) -> str | None:
        """Return ``data`` as text; None stays None."""
        if data is None:
            return None
        try:
            return self._encode(data)
        except UnicodeDecodeError:
            self.lossy = True
            return data.decode("utf-8", "replace")

    def column(self, column: pa.Array) -> list[str | None]:
        """Return each of a column's bytes as text."""
        if self._encode is ENCODINGS["utf8"]:
            with suppress(pa.ArrowInvalid):  # some are not UTF-8
                texts: list[str | None] = column.cast(pa.string()).to_pylist()
                return texts
        return [self(data) for data in column.to_pylist()]

    def headers(self, pairs: list[dict[str, Any]] | None) -> list[dict[str, Any]]:
        """Return the headers of a record with their values as text."""
        return [
            {"key": pair["key"], "value": self(pair["value"])} for pair in pairs or ()
        ]


ENCODINGS: Final[dict[str, Callable[[bytes], str]]] = {
    "utf8": bytes.decode,
    "base64": lambda data: base64.b64encode(data).decode("ascii"),
    "hex": bytes.hex,
}
"""How bytes become text; each raises UnicodeDecodeError for undecodable bytes."""

DECODINGS: Final[dict[str, Callable[[str], bytes]]] = {
    # As given on a command line, where a byte that is not text is half of a pair.
    "utf8": lambda text: text.encode("utf-8", "surrogateescape"),
    "base64": lambda text: base64.b64decode(text, validate=True),
    "hex": bytes.fromhex,
}
"""How text becomes the bytes that it shows; each raises ValueError for any other."""


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
                text = _TIMESTAMP_TYPES[value]
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
        fields, columns = [], []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            values = self._values(name, column)
            # What all records have in common is written into the line once.
            field = _common(values).replace("%", "%%")
            if not field:
                columns.append(values)
            fields.append(f"{quote(_JSON_NAMES.get(name, name))}: {field or '%s'}")
        line = "{" + ", ".join(fields) + "}"
        rows = zip(*columns, strict=True) if columns else repeat((), len(batch))
        lines = [harmless_json(line % row) for row in rows]
        lines.append("")
        self.out.write("\n".join(lines).encode())

    def _values(self, name: str, column: pa.Array) -> Sequence[object]:
        """Return the fields of a column as JSON."""
        match name:
            case "key" | "value":
                return list(map(_quoted, self.encode.column(column)))
            case "topic":
                return list(map(_quoted, column.to_pylist()))
            case "timestampType":
                types = {n: _quoted(text) for n, text in _TIMESTAMP_TYPES.items()}
                return list(map(types.__getitem__, column.to_pylist()))
            case "headers":
                return list(self._headers(column))
            case _:  # a timestamp need not be a date
                numbers: list[int] = column.cast(pa.int64()).to_pylist()
                return numbers

    def _headers(self, column: pa.Array) -> Iterator[str]:
        """Yield the headers of each record as JSON."""
        pairs = column.flatten()
        keys = map(_quoted, pairs.field("key").to_pylist())
        values = map(_quoted, self.encode.column(pairs.field("value")))
        shown = map('{"key": %s, "value": %s}'.__mod__, zip(keys, values, strict=True))
        for count in pc.list_value_length(column).to_pylist():
            yield f"[{', '.join(islice(shown, count))}]" if count else "[]"


def _common(values: Sequence[object]) -> str:
    """Return what all values are; nothing if they differ, or if there is none."""
    if not values or values.count(values[0]) < len(values):
        return ""
    return str(values[0])


def _quoted(text: str | None) -> str:
    return "null" if text is None else quote(text)


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
