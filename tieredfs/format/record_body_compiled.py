"""The records of a batch, written by the compiled kernel out of Arrow's own buffers."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tieredfs.errors import InvalidArgumentError
from tieredfs.format._kernel import RecordBody
from tieredfs.format.record_fields import RecordFields, row_ends

__all__ = ["measure_with_kernel"]

_Payloads = tuple[pa.Buffer | None, int, npt.NDArray[np.int32], pa.Buffer | bytes]
_Headers = tuple[
    pa.Buffer | None, int, npt.NDArray[np.int32], int, _Payloads, _Payloads
]


def measure_with_kernel(fields: RecordFields) -> RecordBody:
    """Measure the records of a batch, and make ready to write them.

    Raises:
        InvalidArgumentError: The ends of an Arrow array's rows fall or lie outside its
            bytes.
    """
    try:
        return RecordBody(
            fields.stamps,
            fields.offsets,
            len(fields.offsets),
            None if fields.keys is None else _payloads(fields.keys),
            None if fields.values is None else _payloads(fields.values),
            None if fields.headers is None else _headers(fields.headers),
        )
    except ValueError as error:
        raise InvalidArgumentError(str(error)) from error


def _payloads(array: pa.Array) -> _Payloads:
    valid, _, data = array.buffers()
    return valid, array.offset, row_ends(array), b"" if data is None else data


def _headers(array: pa.Array) -> _Headers:
    valid = array.buffers()[0]
    headers = array.values
    names, contents = headers.field(0), headers.field(1)
    return (
        valid,
        array.offset,
        row_ends(array),
        len(headers),
        _payloads(names),
        _payloads(contents),
    )
