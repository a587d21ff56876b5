"""The columns of records to write, taken out of Arrow and checked."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.schema import HEADERS
from tieredfs.format.varints import Int64Array

__all__ = ["RecordFields", "offset_column", "payload_columns", "timestamp_column"]

_MS = "ms"


class RecordFields(NamedTuple):
    """What the records of a batch consist of.

    Attributes:
        stamps: Timestamps as they are stored, less the batch's own.
        offsets: Offsets likewise.
        keys: Of each record, ``binary``; None when all are null.
        values: Likewise.
        headers: Of each record, ``HEADERS``, none without a key; None likewise.
    """

    stamps: Int64Array
    offsets: Int64Array
    keys: pa.Array | None
    values: pa.Array | None
    headers: pa.Array | None


def offset_column(records: pa.RecordBatch) -> Int64Array:
    """Return the offsets of some records.

    Raises:
        InvalidArgumentError: A column is no Arrow array for its buffers, or that of
            offsets is missing, has another type or a null.
    """
    try:
        # Cheap, as it looks at no row: from here on Arrow may be trusted with them.
        records.validate()
    except pa.ArrowException as error:
        raise InvalidArgumentError(str(error)) from error
    return _numbers(_column(records, "offset", pa.int64()))


def timestamp_column(records: pa.RecordBatch) -> Int64Array:
    """Return the timestamps of some records, ms.

    Raises:
        InvalidArgumentError: The column is missing, has another type or a null, or a
            part of a millisecond.
    """
    kind: pa.DataType = pa.int64()
    if "timestamp" in records.schema.names:
        held = records.schema.field("timestamp").type
        kind = pa.timestamp(_MS, held.tz) if pa.types.is_timestamp(held) else kind
    return _numbers(_column(records, "timestamp", kind).view(pa.int64()))


def payload_columns(
    records: pa.RecordBatch, offsets: Int64Array
) -> tuple[pa.Array | None, pa.Array | None, pa.Array | None]:
    """Return keys, values and headers of some records; None where all are null.

    Args:
        records: The columns, where there are any.
        offsets: Of the records, for an error.

    Raises:
        InvalidArgumentError: A column has another type, or a header has no key.
    """
    keys = _optional(records, "key", pa.binary())
    values = _optional(records, "value", pa.binary())
    headers = _optional(records, "headers", HEADERS)
    if headers is not None:
        _check_header_keys(headers, offsets)
    return keys, values, headers


def _check_header_keys(headers: pa.Array, offsets: Int64Array) -> None:
    held = headers.values
    if not held.null_count and not held.field(0).null_count:
        return
    # It may be one that belongs to no record.
    for offset, named in zip(offsets.tolist(), headers.to_pylist(), strict=True):
        if any(header is None or header["key"] is None for header in named or ()):
            raise InvalidArgumentError(f"offset {offset}: a header has no key")


def _column(records: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array:
    """Return a column that must be there, without a null."""
    if name not in records.schema.names or records[name].null_count:
        msg = f"column {name}: every record needs one"
        raise InvalidArgumentError(msg)
    return _cast(records[name], name, kind)


def _optional(records: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array | None:
    if name not in records.schema.names:
        return None
    array = _cast(records[name], name, kind)
    return None if array.null_count == len(array) else array


def _cast(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if array.type == kind:  # many a batch is small: Arrow's machinery costs more
        return array
    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        msg = f"column {name}: {error}"
        raise InvalidArgumentError(msg) from error


def _numbers(array: pa.Array) -> Int64Array:
    numbers: Int64Array = array.to_numpy()
    return numbers.astype(np.int64, copy=False)
