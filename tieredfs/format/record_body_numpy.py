"""The records of a batch, written with numpy and pyarrow: no loop over records.

Each field of all records is an Arrow array of its bytes, and Arrow joins the fields of
each record; the bytes that lie behind the array of records are then those of the batch.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.errors import InvalidArgumentError
from tieredfs.format.record_fields import RecordFields
from tieredfs.format.seal import seal_batch
from tieredfs.format.varints import Int64Array, encode_varints, varint_sizes

__all__ = ["measure_with_numpy"]

_NOTHING: Final = pa.scalar(b"", pa.binary())
_ATTRIBUTES: Final = pa.scalar(b"\0", pa.binary())  # unused so far
_INT32: Final = 4


def measure_with_numpy(fields: RecordFields) -> "_NumpyBody":
    """Measure the records of a batch, and make ready to write them.

    Raises:
        InvalidArgumentError: The ends of an Arrow array's rows fall or lie outside its
            bytes.
    """
    rows = len(fields.offsets)
    keys = _Payloads.of("key", fields.keys, rows)
    values = _Payloads.of("value", fields.values, rows)
    headers = None if fields.headers is None else _Headers.of(fields.headers)
    sizes = 1 + varint_sizes(fields.stamps) + varint_sizes(fields.offsets)
    sizes += keys.sizes + values.sizes + (1 if headers is None else headers.sizes)
    total = int(sizes.sum() + varint_sizes(sizes).sum())
    return _NumpyBody(total, sizes, fields, keys, values, headers)


@dataclass(frozen=True, slots=True)
class _Payloads:
    """A field of each record that its length precedes."""

    lengths: Int64Array  # -1 for null
    held: pa.Array | pa.Scalar

    @classmethod
    def of(cls, name: str, array: pa.Array | None, rows: int) -> "_Payloads":
        if array is None:
            return cls(np.full(rows, -1, np.int64), _NOTHING)
        data = array.buffers()[2]
        lengths = np.diff(_ends(name, array, 0 if data is None else data.size))
        if array.null_count:
            lengths[array.is_null().to_numpy(zero_copy_only=False)] = -1
        return cls(lengths, array)

    @property
    def sizes(self) -> Int64Array:
        """The bytes that each takes, its length included."""
        sizes: Int64Array = varint_sizes(self.lengths) + np.maximum(self.lengths, 0)
        return sizes

    @property
    def parts(self) -> tuple[pa.Array, pa.Array | pa.Scalar]:
        """What is to be joined."""
        return _varint_array(self.lengths), self.held


@dataclass(frozen=True, slots=True)
class _Headers:
    """The headers of each record, and how many they are."""

    counts: Int64Array
    keys: _Payloads
    values: _Payloads

    @classmethod
    def of(cls, array: pa.Array) -> "_Headers":
        counts = np.diff(_ends("headers", array, len(array.values)))
        if array.null_count:
            counts[array.is_null().to_numpy(zero_copy_only=False)] = 0
        held = array.flatten()
        keys = _Payloads.of("headers", held.field(0).cast(pa.binary()), len(held))
        return cls(counts, keys, _Payloads.of("headers", held.field(1), len(held)))

    @property
    def sizes(self) -> Int64Array:
        """The bytes that those of each record take, their count included."""
        ends = np.cumsum(np.append(0, self.keys.sizes + self.values.sizes))
        lasts = np.cumsum(self.counts)
        sizes: Int64Array = ends[lasts] - ends[lasts - self.counts]
        return sizes + varint_sizes(self.counts)

    @property
    def parts(self) -> tuple[pa.Array, pa.Array]:
        """What is to be joined."""
        each = _join(*self.keys.parts, *self.values.parts)
        ends = np.frombuffer(each.buffers()[1], np.int32, len(each) + 1)
        bounds = pa.py_buffer(ends[np.append(0, np.cumsum(self.counts))])
        buffers = [None, bounds, each.buffers()[2]]
        together = pa.Array.from_buffers(pa.binary(), len(self.counts), buffers)
        return _varint_array(self.counts), together


@dataclass(frozen=True, slots=True)
class _NumpyBody:
    """The records of a batch, measured and not yet written."""

    size: int
    sizes: Int64Array
    fields: RecordFields
    keys: _Payloads
    values: _Payloads
    headers: _Headers | None

    def alone(self) -> memoryview:
        """Return the records."""
        if not self.size:
            return memoryview(b"")
        none = (_varint_array(np.zeros_like(self.sizes)),)
        records = _join(
            _varint_array(self.sizes),
            _ATTRIBUTES,
            _varint_array(self.fields.stamps),
            _varint_array(self.fields.offsets),
            *self.keys.parts,
            *self.values.parts,
            *(none if self.headers is None else self.headers.parts),
        )
        return memoryview(records.buffers()[2])[: self.size]

    def behind(self, header: bytes) -> bytes:
        """Return a batch: its header, whose checksum is computed, and the records."""
        return seal_batch(header, self.alone())


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    """Put what belongs to one row together; a null has no bytes."""
    return pc.binary_join_element_wise(
        *parts, _NOTHING, null_handling="replace", null_replacement=""
    )


def _varint_array(values: Int64Array) -> pa.Array:
    octets, sizes = encode_varints(values)
    ends = np.zeros(len(values) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(octets)]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def _ends(name: str, array: pa.Array, bound: int) -> npt.NDArray[np.int64]:
    """Return where each row ends, the start of the first before them."""
    if not len(array):  # Arrow may leave out what says it
        return np.zeros(1, np.int64)
    held = array.buffers()[1]
    ends = np.frombuffer(held, np.int32, len(array) + 1, _INT32 * array.offset)
    if ends[0] < 0 or ends[-1] > bound or np.any(ends[1:] < ends[:-1]):
        msg = f"column {name}: its ends fall, or lie outside its bytes"
        raise InvalidArgumentError(msg)
    return ends.astype(np.int64)
