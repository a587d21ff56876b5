"""Write records as lines of JSON in Python."""

from collections.abc import Iterator, Sequence
from itertools import islice, repeat
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.cli.output.escapes import harmless_json, quote
from tieredfs.cli.output.text_encoder import TIMESTAMP_TYPES, TextEncoder

__all__ = ["NAMES", "lines_of", "quoted"]

NAMES: Final = {"timestampType": "timestamp_type"}
"""What a field is called where its column has another name."""


def lines_of(batch: pa.RecordBatch, encode: TextEncoder) -> bytes:
    """Return the records of a batch, each with an end of line behind it."""
    fields, columns = [], []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = _values(name, column, encode)
        # What all records have in common is written into the line once.
        field = _common(values).replace("%", "%%")
        if not field:
            columns.append(values)
        fields.append(f"{quote(NAMES.get(name, name))}: {field or '%s'}")
    line = "{" + ", ".join(fields) + "}"
    rows = zip(*columns, strict=True) if columns else repeat((), len(batch))
    lines = [harmless_json(line % row) for row in rows]
    lines.append("")
    return "\n".join(lines).encode()


def _values(name: str, column: pa.Array, encode: TextEncoder) -> Sequence[object]:
    """Return the fields of a column as JSON."""
    match name:
        case "key" | "value":
            return _quoted_column(encode.column(column))
        case "topic":
            return _quoted_column(column)
        case "timestampType":
            types = {number: quoted(text) for number, text in TIMESTAMP_TYPES.items()}
            return list(map(types.__getitem__, column.to_pylist()))
        case "headers":
            return list(_headers(column, encode))
        case _:  # a timestamp need not be a date
            numbers: list[int] = column.cast(pa.int64()).to_pylist()
            return numbers


def _headers(column: pa.Array, encode: TextEncoder) -> Iterator[str]:
    """Yield the headers of each record as JSON."""
    pairs = column.flatten()
    keys = _quoted_column(pairs.field("key"))
    values = _quoted_column(encode.column(pairs.field("value")))
    shown = map('{"key": %s, "value": %s}'.__mod__, zip(keys, values, strict=True))
    for count in pc.list_value_length(column).to_pylist():
        yield f"[{', '.join(islice(shown, count))}]" if count else "[]"


def _common(values: Sequence[object]) -> str:
    """Return what all values are; nothing if they differ, or if there is none."""
    if not values or values.count(values[0]) < len(values):
        return ""
    return str(values[0])


def _quoted_column(texts: pa.Array | list[str | None]) -> list[str]:
    held = texts if isinstance(texts, list) else texts.to_pylist()
    return list(map(quoted, held))


def quoted(text: str | None) -> str:
    """Return a text, or null, as JSON."""
    return "null" if text is None else quote(text)
