"""Encode the records of a batch with the compiled kernel, from Arrow's buffers."""

import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.kernel._kernel import RecordBody
from tieredfs.format.records.fields import RecordFields

__all__ = ["measure_with_kernel"]

_Payloads = tuple[pa.Buffer | None, pa.Buffer | None, int, pa.Buffer | None]
_Headers = tuple[pa.Buffer | None, pa.Buffer | None, int, int, _Payloads, _Payloads]


def measure_with_kernel(fields: RecordFields) -> RecordBody:
    """Measure the records of a batch and prepare to encode them.

    Raises:
        InvalidArgumentError: The offsets of an Arrow array decrease or are out of
            bounds.
    """
    try:
        return RecordBody(
            (fields.stamps, 0),
            (fields.offsets, 0),
            len(fields.offsets),
            fields.first,
            fields.base,
            None if fields.keys is None else _payloads(fields.keys),
            None if fields.values is None else _payloads(fields.values),
            None if fields.headers is None else _headers(fields.headers),
        )
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from error


def _payloads(array: pa.Array) -> _Payloads:
    valid, ends, data = array.buffers()
    return valid, ends, array.offset, data


def _headers(array: pa.Array) -> _Headers:
    valid, ends, *_ = array.buffers()
    headers = array.values
    return (
        valid,
        ends,
        array.offset,
        len(headers),
        _payloads(headers.field(0)),
        _payloads(headers.field(1)),
    )
