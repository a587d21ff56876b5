"""The Arrow columns of a record, those of Spark's Kafka source, and their decoders."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol

import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.batch.table import LogBatches

__all__ = [
    "COLUMNS",
    "FULL_BYTES",
    "HEADERS",
    "HEADER_BYTES",
    "MALFORMED_BYTES",
    "MAX_BYTES",
    "MAX_HEADERS",
    "MAX_ROWS",
    "OFFSET_BYTES",
    "SCHEMA",
    "ColumnBuilder",
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


FULL_BYTES: Final = 3 << 20
"""Bytes of the rows of a piece that is full: they still fit a processor's cache."""

MAX_BYTES: Final = (8 << 20) - 64
"""Bytes of the rows of a piece, unless a single record has more."""

MAX_ROWS: Final = 1 << 17
"""Rows of a piece: what is known of each takes more than a tiny record does."""

MAX_HEADERS: Final = 1 << 20
"""Headers of one record: more would be gigabytes from a small bomb."""

OFFSET_BYTES: Final = 5
"""What Arrow takes for a row of bytes beside them: an int32 and a bit."""

HEADER_BYTES: Final = 9
"""What Arrow takes for a header beside its bytes."""

MALFORMED_BYTES: Final = 3
"""What Arrow takes at most for a byte of a header: U+FFFD."""

_FIXED: Final = {
    "key": OFFSET_BYTES,
    "value": OFFSET_BYTES,
    "offset": 8,
    "timestamp": 8,
    "timestampType": 4,
    "headers": OFFSET_BYTES,
}


class RecordColumns(NamedTuple):
    """Some columns of some records.

    Attributes:
        rows: How many records they are.
        arrays: The columns that were asked for.
    """

    rows: int
    arrays: Mapping[str, pa.Array]


class ColumnBuilder(Protocol):
    """A function that decodes records; all of them give the same rows and errors."""

    def __call__(
        self, runs: Iterable[LogBatches], names: Iterable[str], other_bytes: int, /
    ) -> Iterator[RecordColumns]:
        """Yield the columns of the records that are wanted, in pieces of 1-8 MiB.

        Args:
            runs: Batches whose records lie uncompressed in their buffer, less than
                2 GiB of them in each; empty ones may be among them.
            names: The columns to build, of those that a record itself has.
            other_bytes: Bytes that a row takes beside these columns.

        Raises:
            CorruptBatchError: The records of a batch are malformed: one does not fill
                its length, they do not fill the batch, an offset does not rise; or its
                headers do so while they are asked for. This and any error of ``runs``
                is raised when the records before that batch have come out; of a batch
            that has more than a piece, some of its own may have, too.
        """


def fixed_bytes(names: Iterable[str]) -> int:
    """Return the bytes that a row of some columns takes beside its payloads."""
    return sum(_FIXED[name] for name in names)
