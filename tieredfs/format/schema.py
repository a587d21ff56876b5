"""The Arrow columns of a record: those of Spark's Kafka source."""

from typing import Final

import pyarrow as pa

from tieredfs.errors import InvalidArgumentError

__all__ = ["COLUMNS", "HEADERS", "SCHEMA", "project"]

HEADERS: Final = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]),
    )
)
"""The headers of a record, in order; null when it has none."""

SCHEMA: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("ms", tz="UTC")),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
"""All columns. Milliseconds hold every timestamp that a broker accepts."""

COLUMNS: Final = tuple(SCHEMA.names)


def project(columns: tuple[str, ...] | None) -> pa.Schema:
    """Return the schema of the columns that are asked for, in the order given.

    Raises:
        InvalidArgumentError: A column does not exist or is named twice.
    """
    if columns is None:
        return SCHEMA
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or len(set(columns)) != len(columns):
        named = ", ".join(map(str, unknown or columns))
        msg = f"columns {named}: each must be one of {', '.join(COLUMNS)}, once"
        raise InvalidArgumentError(msg)
    return pa.schema([SCHEMA.field(name) for name in columns])
