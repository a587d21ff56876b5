"""Extract and check the columns of records to encode from an Arrow batch."""

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
    """The fields of a batch's records.

    Attributes:
        stamps: Timestamps.
        offsets: Offsets.
        first: Timestamp of the batch, which stored timestamps are relative to.
        base: Offset of the batch, which stored offsets are relative to.
        keys: Keys as ``binary``; None when all are null.
        values: Values as ``binary``; None when all are null.
        headers: Headers as ``HEADERS``, each with a key; None when all are null.
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
        InvalidArgumentError: The buffers of a column are not a valid Arrow array; or
            the offset column is missing, has another type or contains a null.
    """
    try:
        # Cheap, as it reads no rows; Arrow can be trusted with the columns afterwards.
        records.validate()
    except pa.ArrowException as error:
        raise InvalidArgumentError(str(error)) from error
    return int64s(_cast(_required(records, "offset"), "offset", pa.int64()))


def timestamp_column(records: pa.RecordBatch) -> Int64Array:
    """Return the timestamps of some records, ms.

    Raises:
        InvalidArgumentError: The column is missing, has another type, contains a null,
            or contains a fraction of a millisecond.
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
        records: The records; each of the columns is optional.
        offsets: Offsets of the records, used in error messages.

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
    # The null may be in a header that belongs to no record.
    for offset, named in zip(offsets.tolist(), headers.to_pylist(), strict=True):
        if any(header is None or header["key"] is None for header in named or ()):
            raise InvalidArgumentError(f"offset {offset}: a header has no key")


def _required(records: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column that must exist and have no nulls."""
    array = _column(records, name)
    if array is None:
        raise InvalidArgumentError(f"column {name}: missing")
    if array.null_count:
        msg = f"column {name}: contains nulls: every record needs a value"
        raise InvalidArgumentError(msg)
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
        msg = f"column {name}: appears {len(indices)} times: names must be unique"
        raise InvalidArgumentError(msg)
    return records.column(indices[0]) if indices else None


def _cast(array: pa.Array, name: str, kind: pa.DataType) -> pa.Array:
    if array.type == kind:  # saves the overhead of Arrow's cast for small batches
        return array
    try:
        return array.cast(kind)
    except pa.ArrowException as error:
        msg = f"column {name}: {error}"
        raise InvalidArgumentError(msg) from error


def row_ends(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return the start of an array's first row, and the end of each row.

    Args:
        array: Bytes or lists with 32-bit offsets. The offsets are not checked: they may
            decrease or be out of bounds.
    """
    held = array.buffers()[1]
    if held is None or not len(array):  # Arrow may leave out the offsets of no rows
        return np.zeros(1, np.int32)
    return np.frombuffer(held, np.int32, len(array) + 1, _INT32 * array.offset)
