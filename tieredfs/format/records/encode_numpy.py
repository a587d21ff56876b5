"""Encode the records of a batch with numpy and pyarrow, without a loop over records.

Each field of all records is an Arrow array of its encoded bytes, and Arrow joins the
fields of each record. The data buffer of the joined array is the encoded batch.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.batch.header import seal_batch
from tieredfs.format.buffers import Int64Array
from tieredfs.format.records.fields import RecordFields, row_ends
from tieredfs.format.varints import encode_varints, varint_sizes

__all__ = ["NumpyRecordBody", "measure_with_numpy"]

_NOTHING: Final = pa.scalar(b"", pa.binary())
_ATTRIBUTES: Final = pa.scalar(b"\0", pa.binary())  # unused so far


class _Headers(NamedTuple):
    """The headers of all records, and the number of headers of each record."""

    counts: Int64Array
    keys: pa.Array
    values: pa.Array
    key_lengths: Int64Array
    value_lengths: Int64Array

    @property
    def sizes(self) -> Int64Array:
        """The encoded size of each record's headers."""
        sizes = self.key_lengths + self.value_lengths.clip(0)
        sizes += varint_sizes(self.key_lengths) + varint_sizes(self.value_lengths)
        bytes_before: Int64Array = _before(sizes)[_before(self.counts)]
        return np.diff(bytes_before)

    def of_each_record(self) -> pa.Array:
        """Return the encoded headers of each record."""
        key_lengths, value_lengths = _varints(self.key_lengths, self.value_lengths)
        each = _join(key_lengths, self.keys, value_lengths, self.values)
        ends = row_ends(each)[_before(self.counts)]
        buffers = [None, pa.py_buffer(ends), each.buffers()[2]]
        return pa.Array.from_buffers(pa.binary(), len(self.counts), buffers)


class NumpyRecordBody(NamedTuple):
    """The records of a batch, measured and not yet encoded.

    Attributes:
        size: Size of the encoded records in bytes.
        sizes: Size of each record in bytes, without its length field.
        fields: The fields of the records.
        stamps: Timestamps as stored, relative to the batch's first.
        offsets: Offsets as stored, relative to the batch's base offset.
        key_lengths: Length of each key; -1 for null.
        value_lengths: Length of each value; -1 for null.
        headers: The headers of all records; None when no record has any.
    """

    size: int
    sizes: Int64Array
    fields: RecordFields
    stamps: Int64Array
    offsets: Int64Array
    key_lengths: Int64Array
    value_lengths: Int64Array
    headers: _Headers | None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp; the smallest int64 when there are no records."""
        return int(self.fields.stamps.max(initial=np.iinfo(np.int64).min))

    @property
    def offsets_increase(self) -> bool:
        """Whether the offsets strictly increase."""
        offsets = self.fields.offsets
        return bool((offsets[:-1] < offsets[1:]).all())

    def encode_records(self) -> memoryview:
        """Return the encoded records."""
        if not self.size:
            return memoryview(b"")
        headers = self.headers
        size, stamp, offset, key_length, value_length, count = _varints(
            self.sizes,
            self.stamps,
            self.offsets,
            self.key_lengths,
            self.value_lengths,
            np.zeros_like(self.sizes) if headers is None else headers.counts,
        )
        records = _join(
            size,
            _ATTRIBUTES,
            stamp,
            offset,
            key_length,
            _NOTHING if self.fields.keys is None else self.fields.keys,
            value_length,
            _NOTHING if self.fields.values is None else self.fields.values,
            count,
            _NOTHING if headers is None else headers.of_each_record(),
        )
        return memoryview(records.buffers()[2])[: self.size]

    def encode_batch(self, header: bytes) -> bytes:
        """Join a header and the encoded records into a batch, and set its checksum."""
        return seal_batch(header, self.encode_records())


def measure_with_numpy(fields: RecordFields) -> NumpyRecordBody:
    """Measure the records of a batch and prepare to encode them.

    Raises:
        InvalidArgumentError: The offsets of an Arrow array decrease or are out of
            bounds.
    """
    rows = len(fields.offsets)
    nulls = np.full(rows, -1, np.int64)
    keys = nulls if fields.keys is None else _lengths("key", fields.keys)
    values = nulls if fields.values is None else _lengths("value", fields.values)
    headers = None if fields.headers is None else _headers(fields.headers)
    # Differences past 64 bits wrap, as the reader's sum does.
    stamps = fields.stamps - np.int64(fields.first)
    offsets = fields.offsets - np.int64(fields.base)
    numbers = np.stack((stamps, offsets, keys, values))
    sizes = 1 + varint_sizes(numbers).sum(axis=0) + keys.clip(0) + values.clip(0)
    sizes += 1 if headers is None else varint_sizes(headers.counts) + headers.sizes
    size = int(sizes.sum() + varint_sizes(sizes).sum())
    return NumpyRecordBody(size, sizes, fields, stamps, offsets, keys, values, headers)


def _headers(array: pa.Array) -> _Headers:
    bounds = _bounds("headers", array, len(array.values))
    counts = np.where(_nulls(array), 0, np.diff(bounds))
    held = array.flatten()
    keys, values = held.field(0).cast(pa.binary()), held.field(1)
    return _Headers(
        counts, keys, values, _lengths("headers", keys), _lengths("headers", values)
    )


def _lengths(name: str, array: pa.Array) -> Int64Array:
    data = array.buffers()[2]
    lengths = np.diff(_bounds(name, array, 0 if data is None else data.size))
    if array.null_count:
        lengths[_nulls(array)] = -1
    return lengths


def _nulls(array: pa.Array) -> npt.NDArray[np.bool_]:
    nulls: npt.NDArray[np.bool_] = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _bounds(name: str, array: pa.Array, max_end: int) -> Int64Array:
    ends = row_ends(array)
    if ends[0] < 0 or ends[-1] > max_end or (ends[1:] < ends[:-1]).any():
        msg = f"column {name}: Arrow offsets decrease or are out of bounds"
        raise InvalidArgumentError(msg)
    return ends.astype(np.int64)


def _before(counts: Int64Array) -> Int64Array:
    """Return the sum of the counts before each item, and of all counts."""
    return np.append(0, np.cumsum(counts))


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Join the parts of each row; a null has no bytes."""
    return pc.binary_join_element_wise(
        *parts, _NOTHING, null_handling="replace", null_replacement=""
    )


def _varints(*columns: Int64Array) -> list[pa.Array]:
    """Encode columns of equal length together, which is faster for small batches."""
    octets, sizes = encode_varints(np.concatenate(columns))
    ends = np.append(np.int32(0), np.cumsum(sizes, dtype=np.int32))
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(octets)]
    varints = pa.Array.from_buffers(pa.binary(), len(sizes), buffers)
    rows = len(columns[0])
    return [varints.slice(rows * column, rows) for column in range(len(columns))]
