"""Records as text, JSON lines, an Arrow stream or Parquet."""

import base64
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Any, BinaryIO, Final, Self

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from tieredfs.cli.escapes import escape_field, to_json
from tieredfs.cli.output import show_time

__all__ = ["ENCODINGS", "FORMATS", "RecordWriter", "TextEncoder"]

_TIMESTAMP_TYPES: Final = {-1: None, 0: "CreateTime", 1: "LogAppendTime"}


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


ENCODINGS: Final[dict[str, Callable[[bytes], str]]] = {
    "utf8": bytes.decode,
    "base64": lambda data: base64.b64encode(data).decode("ascii"),
    "hex": bytes.hex,
}
"""How bytes become text; each raises UnicodeDecodeError for what it cannot tell."""


class RecordWriter(ABC):
    """Write batches of records to a binary stream, in a with block.

    When the block ends the output is whole; when an error ends it, the output is as
    short as it is and does not look whole, if the format can tell.

    Attributes:
        binary: Whether a terminal should be spared what it writes.
    """

    binary = False

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
        """Let go of the output as it is."""

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
    """Partition, offset, time, key and value, with tabs between them."""

    def write(self, batch: pa.RecordBatch) -> None:
        for row in _rows(batch):
            stamp = show_time(row["timestamp"])
            key, value = self._shown(row["key"]), self._shown(row["value"])
            line = f"{row['partition']}\t{row['offset']}\t{stamp}\t{key}\t{value}\n"
            self.out.write(line.encode())

    def _shown(self, data: bytes | None) -> str:
        text = self.encode(data)
        return "-" if text is None else escape_field(text)


class _JsonLines(RecordWriter):
    """One JSON object a record."""

    def write(self, batch: pa.RecordBatch) -> None:
        for row in _rows(batch):
            record = {
                "topic": row["topic"],
                "partition": row["partition"],
                "offset": row["offset"],
                "timestamp": row["timestamp"],
                "timestamp_type": _TIMESTAMP_TYPES[row["timestampType"]],
                "key": self.encode(row["key"]),
                "value": self.encode(row["value"]),
                "headers": [
                    {"key": header["key"], "value": self.encode(header["value"])}
                    for header in row["headers"] or ()
                ],
            }
            self.out.write(to_json(record).encode() + b"\n")


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
    stamps = batch.column(at).cast(pa.int64())
    rows: list[dict[str, Any]] = batch.set_column(at, "timestamp", stamps).to_pylist()
    return rows
