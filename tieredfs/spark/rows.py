"""Rows: batches of records with the columns and the types of Spark's Kafka source."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.errors import UnsupportedOperationError

__all__ = ["HEADERS", "TYPES", "decoded_columns", "to_rows"]

HEADERS: Final = "headers"
TYPES: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}
"""Spark's type of each column."""

_SPARK_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_MAX_MILLISECONDS: Final = ((1 << 63) - 1) // 1000


def decoded_columns(columns: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns that have to be decoded for the columns of a query."""
    # The error about a timestamp that Spark cannot hold names the record by them.
    named = ("partition", "offset") if "timestamp" in columns else ()
    return tuple(dict.fromkeys((*columns, *named)))


def to_rows(
    batch: pa.RecordBatch, topic: str, columns: tuple[str, ...]
) -> pa.RecordBatch:
    """Give a batch the columns and the types that the query's schema has."""
    arrays = [
        _microseconds(batch, topic) if name == "timestamp" else batch[name]
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _microseconds(batch: pa.RecordBatch, topic: str) -> pa.Array:
    """Return the timestamps in Spark's unit.

    Raises:
        UnsupportedOperationError: One does not fit into it.
    """
    stamps = batch["timestamp"]
    try:
        return stamps.cast(_SPARK_TIMESTAMP)
    except pa.ArrowInvalid as error:
        raw = stamps.cast(pa.int64())
        late = pc.or_(
            pc.greater(raw, _MAX_MILLISECONDS), pc.less(raw, -_MAX_MILLISECONDS)
        )
        row = late.index(True).as_py()
        raise UnsupportedOperationError(
            f"topic {topic} partition {batch['partition'][row]} offset "
            f"{batch['offset'][row]}: Spark cannot hold a timestamp of "
            f"{stamps.cast(pa.int64())[row]} ms; load with a schema without timestamp, "
            "such as .schema('partition int, offset bigint')"
        ) from error
