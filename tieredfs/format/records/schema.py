"""The Arrow schema of records, that of Spark's Kafka source, and the batch limits."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.batch.table import LogBatches

__all__ = [
    "COLUMNS",
    "HEADERS",
    "HEADER_BYTES",
    "MALFORMED_BYTES",
    "MAX_HEADERS",
    "MAX_ROWS",
    "OFFSET_BYTES",
    "OFFSET_COLUMNS",
    "SCHEMA",
    "ColumnBuilder",
    "MalformedRecordsError",
    "OutputSize",
    "RecordColumns",
    "fixed_bytes",
    "project",
]

HEADERS: Final = pa.list_(
    pa.field(
        "element",
        pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]),
    )
)
"""Type of a record's headers, in order; null when the record has none."""

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
"""All columns. Milliseconds represent every timestamp that a broker accepts."""

COLUMNS: Final = tuple(SCHEMA.names)

OFFSET_COLUMNS: Final = frozenset({"topic", "partition", "offset", "timestampType"})
"""Columns that need nothing of a record but its offset."""


def project(columns: tuple[str, ...] | None) -> pa.Schema:
    """Return the schema of the given columns, in their order.

    Raises:
        InvalidArgumentError: A column does not exist or is repeated.
    """
    if columns is None:
        return SCHEMA
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown or len(set(columns)) != len(columns):
        named = ", ".join(str(name) or "''" for name in unknown or columns)
        known = ", ".join(COLUMNS)
        msg = f"unknown or repeated columns {named}: choose from {known}, each once"
        raise InvalidArgumentError(msg)
    return pa.schema([SCHEMA.field(name) for name in columns])


MAX_ROWS: Final = 1 << 17
"""Maximum rows of an Arrow batch: the fields of tiny records take more memory than the
records themselves."""

MAX_HEADERS: Final = 1 << 20
"""Maximum headers of a record: more could expand a small batch to gigabytes."""

OFFSET_BYTES: Final = 5
"""Bytes that Arrow needs for a binary value beside its data: an int32 and a bit."""

HEADER_BYTES: Final = 9
"""Bytes that Arrow needs for a header beside its data."""

MALFORMED_BYTES: Final = 3
"""Maximum bytes that Arrow needs for one byte of a header: U+FFFD in UTF-8."""

_FIXED: Final = {
    "key": OFFSET_BYTES,
    "value": OFFSET_BYTES,
    "offset": 8,
    "timestamp": 8,
    "timestampType": 4,
    "headers": OFFSET_BYTES,
}


class MalformedRecordsError(ValueError):
    """The records of a batch do not follow the format, or their columns' limits."""


class RecordColumns(NamedTuple):
    """Columns of some records.

    Attributes:
        rows: Number of records.
        arrays: The requested columns, by name.
    """

    rows: int
    arrays: Mapping[str, pa.Array]


class OutputSize(NamedTuple):
    """When an Arrow batch is complete.

    Attributes:
        full: Bytes at which it is complete: by default, it still fits a processor's
            cache.
        maximum: Maximum bytes, unless a single record is larger.
    """

    full: int
    maximum: int

    @classmethod
    def of(cls, batch_bytes: int) -> "OutputSize":
        """Return the sizes for a maximum, of which Arrow's own padding is a part."""
        return cls(batch_bytes * 3 // 8, batch_bytes - 64)


class ColumnBuilder(Protocol):
    """A function that decodes records; all of them give the same rows and errors."""

    def __call__(
        self,
        batches: Iterable[LogBatches],
        names: Iterable[str],
        other_bytes: int,
        output: OutputSize,
        /,
    ) -> Iterator[RecordColumns]:
        """Yield the columns of the wanted records, in chunks.

        Args:
            batches: Batches whose records are uncompressed in their buffer, less than
                2 GiB in each; batches may be empty.
            names: Columns to build, other than topic and partition.
            other_bytes: Bytes of a row in other columns than these.
            output: Size of a chunk, with the other columns.

        Raises:
            CorruptBatchError: The records of a batch are malformed: a record does not
                fill its length, the records do not fill the batch, the offsets do not
                increase, or the headers are malformed, or exceed 2 GiB as text, and
                ``names`` includes them. This error and any error of ``batches`` is
                raised after the records before that batch have been yielded. When that
                batch is larger than a chunk, some of its own records may have been
                yielded as well.
        """


def fixed_bytes(names: Iterable[str]) -> int:
    """Return the bytes of a row in some columns without its payloads."""
    return sum(_FIXED[name] for name in names)
