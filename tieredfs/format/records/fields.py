"""The columns of records to write, taken out of Arrow and checked."""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.buffers import Int64Array, int64s
from tieredfs.format.records.schema import HEADERS

__all__ = [
    "RecordFields",
    "offset_column",
    "payload_columns",
    "row_ends",
    "timestamp_column",
]

_INT32: Final = 4
_INT64: Final = 8


class RecordFields(NamedTuple):
    """What the records of a batch consist of.

    Attributes:
        stamps: Timestamps.
        offsets: Offsets.
        first: The batch's own timestamp: what stored ones are relative to.
        base: The batch's own offset, likewise.
        keys: Of each record, ``binary``; None when all are null.
        values: Likewise.
        headers: Of each record, ``HEADERS``, none without a key; None likewise.
    """

    stamps: Int64Array
    offsets: Int64Array
    first: int
    base: int
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
    return int64s(_cast(_required(records, "offset"), "offset", pa.int64()))


def timestamp_column(records: pa.RecordBatch) -> Int64Array:
    """Return the timestamps of some records, ms.

    Raises:
        InvalidArgumentError: The column is missing, has another type or a null, or a
            part of a millisecond.
    """
    array = _required(records, "timestamp")
    kind = pa.int64()
    if isinstance(array.type, pa.TimestampType):
        kind = pa.timestamp("ms", array.type.tz)
    return int64s(_cast(array, "timestamp", kind))


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


def _required(records: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column that must be there, without a null."""
    array = _column(records, name)
    if array is None or array.null_count:
        raise InvalidArgumentError(f"column {name}: every record needs one")
    return array


def _optional(records: pa.RecordBatch, name: str, kind: pa.DataType) -> pa.Array | None:
    array = _column(records, name)
    if array is None:
        return None
    array = _cast(array, name, kind)
    return None if array.null_count == len(array) else array


def _column(records: pa.RecordBatch, name: str) -> pa.Array | None:
    indices = records.schema.get_all_field_indices(name)
    if len(indices) > 1:
        raise InvalidArgumentError(f"column {name}: {len(indices)} have this name")
    return records.column(indices[0]) if indices else None


def _cast(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if array.type == kind:  # many a batch is small: Arrow's machinery costs more
        return array
    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        msg = f"column {name}: {error}"
        raise InvalidArgumentError(msg) from error


def row_ends(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return where each row of an array ends, the start of the first before them.

    Args:
        array: Of bytes or lists whose offsets have 32 bits. They may still fall or lie
            outside.
    """
    held = array.buffers()[1]
    if held is None or not len(array):  # Arrow may leave out what says nothing
        return np.zeros(1, np.int32)
    return np.frombuffer(held, np.int32, len(array) + 1, _INT32 * array.offset)
