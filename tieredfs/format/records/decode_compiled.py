"""Decode the records of batches to Arrow columns with the compiled kernel.

Each record is read once, and each payload is copied once, straight into the buffers of
the columns. The interpreter's lock is released meanwhile.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.header import MIN_RECORD
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.kernel import _kernel
from tieredfs.format.records.header_keys import MAX_REPLACED_BYTES, decode_text
from tieredfs.format.records.schema import (
    HEADERS,
    MAX_ROWS,
    SCHEMA,
    MalformedRecordsError,
    OutputSize,
    RecordColumns,
    fixed_bytes,
)
from tieredfs.integers import MAX_INT32

__all__ = ["build_columns"]

# The kernel's counters of the contents of an output chunk.
_ROWS, _KEYS, _VALUES, _HEADERS, _HEADER_KEYS, _HEADER_VALUES = range(6)
_NULLS: Final = (6, 7, 8, 9)  # keys, values, rows without headers, values of headers
_ROW_BYTES: Final = 10  # bytes that Arrow needs for the rows
_BITS, _OFFSETS, _INT64, _INT32, _BYTES = range(5)  # types of the items in a buffer

# The buffers of each column: the counter of their items, and the items' type.
_COLUMNS: Final = {
    "key": ((_ROWS, _BITS), (_ROWS, _OFFSETS), (_KEYS, _BYTES)),
    "value": ((_ROWS, _BITS), (_ROWS, _OFFSETS), (_VALUES, _BYTES)),
    "offset": ((_ROWS, _INT64),),
    "timestamp": ((_ROWS, _INT64),),
    "timestampType": ((_ROWS, _INT32),),
    "headers": (
        (_ROWS, _BITS),
        (_ROWS, _OFFSETS),
        (_HEADERS, _OFFSETS),
        (_HEADER_KEYS, _BYTES),
        (_HEADERS, _BITS),
        (_HEADERS, _OFFSETS),
        (_HEADER_VALUES, _BYTES),
    ),
}
_MIN_ROOM: Final = (64, 1 << 10, 1 << 10, 16, 256, 256)
_MAX_GROWTH: Final = 16  # factor by which a buffer may outgrow the current need
_MAX_ROOM: Final = MAX_INT32  # of any buffer: Arrow's offsets are int32
_TYPES: Final = {field.name: field.type for field in SCHEMA}
_BINARY: Final = pa.binary()
_HEADER: Final = HEADERS.value_type
_SPARE: Final = 16  # spare bytes let the kernel copy short payloads without a call


def build_columns(
    batches: Iterable[LogBatches],
    names: Iterable[str],
    other_bytes: int,
    output: OutputSize,
) -> Iterator[RecordColumns]:
    """Yield the columns of records in chunks: see ColumnBuilder."""
    chunk = _OutputChunk(frozenset(names), other_bytes, output)
    try:
        for group in batches:
            yield from chunk.add(group)
    except Exception:
        if chunk.rows:  # records before the error are yielded first
            yield chunk.take()
        raise
    if chunk.rows:
        yield chunk.take()


class _OutputChunk:
    """Columns under construction."""

    def __init__(
        self, names: frozenset[str], other_bytes: int, output: OutputSize
    ) -> None:
        self._names = names
        self._full = output.full
        fixed = other_bytes + fixed_bytes(names)
        self._limits = np.array([0, 0, fixed, *output, MAX_ROWS], np.int64)
        self._state = np.zeros(_kernel.STATE_SIZE, np.int64)
        self._room: list[int] = []
        self._buffers: dict[str, list[pa.Buffer]] = {}
        self._grown_for = ""  # the last batch that needed more room

    @property
    def rows(self) -> int:
        """Number of records in the chunk."""
        return int(self._state[_ROWS])

    def add(self, batches: LogBatches) -> Iterator[RecordColumns]:
        """Decode the records of some batches; yield each chunk that gets full."""
        if not self._room:
            self._room = _first_room(batches, self._full)
        self._limits[:2] = batches.first_offset, batches.end_offset - 1
        self._state[_kernel.STATE_BATCH] = 0
        self._state[_kernel.STATE_POSITION] = -1
        while ended := self._fill(batches):
            if ended == _kernel.IS_FULL:
                yield self.take()
            elif ended == _kernel.HAS_NO_ROOM:
                self._grow(batches)
            else:
                row = int(self._state[_kernel.STATE_BATCH])
                batches.take([row]).check()  # a wrong checksum has a better message
                msg = f"{batches.where(row)}: {_kernel.FAULTS[ended]}"
                raise CorruptBatchError(msg)

    def take(self) -> RecordColumns:
        """Return the columns of the chunk, and start a new one.

        Raises:
            CorruptBatchError: The header keys of its only record are too large as text.
        """
        held: list[int] = self._state[: _kernel.COUNTER_COUNT].tolist()
        self._trim(held)
        buffers, self._buffers = self._buffers, {}
        self._state[: 2 * _kernel.COUNTER_COUNT] = 0
        # Chunks of a log are similar: a little more room than the last one used.
        self._room = [
            min(max(minimum, count + count // 8), _MAX_ROOM)
            for minimum, count in zip(_MIN_ROOM, held, strict=False)
        ]
        # Keys that may be too large as text need more, which gives their batch's name.
        self._room[_HEADER_KEYS] = min(self._room[_HEADER_KEYS], MAX_REPLACED_BYTES)
        try:
            columns = {name: _column(name, buffers[name], held) for name in buffers}
        except MalformedRecordsError as error:
            msg = f"{self._grown_for}: {error}"
            raise CorruptBatchError(msg) from error
        return RecordColumns(held[_ROWS], columns)

    def _fill(self, batches: LogBatches) -> int:
        if not self._buffers:
            self._buffers = self._allocate()
        buffers: list[pa.Buffer | None] = []
        for name, items in _COLUMNS.items():
            buffers += self._buffers.get(name, [None] * len(items))
        return _kernel.fill(
            batches.buffer,
            batches.table,
            self._limits,
            self._state,
            buffers,
            is_checked=batches.is_checked,
        )

    def _allocate(self) -> dict[str, list[pa.Buffer]]:
        # From Arrow's pool, which reuses memory that is already mapped.
        return {
            name: [
                pa.allocate_buffer(_size(kind, self._room[held]), resizable=True)
                for held, kind in items
            ]
            for name, items in _COLUMNS.items()
            if name in self._names
        }

    def _trim(self, held: list[int]) -> None:
        """Truncate each buffer to the bytes that were written.

        A buffer that is far from full gives memory back: a chunk may live long.
        """
        for name, buffers in self._buffers.items():
            for (holds, kind), buffer in zip(_COLUMNS[name], buffers, strict=True):
                count = held[holds]
                size = _size(kind, count) - _SPARE * (kind == _BYTES)
                wasteful = 4 * count < 3 * self._room[holds]
                buffer.resize(size, shrink_to_fit=wasteful)

    def _grow(self, batches: LogBatches) -> None:
        """Enlarge the buffers for what the kernel needs now and is likely to need.

        Raises:
            CorruptBatchError: A record is too large for a column.
        """
        held = int(self._state[_kernel.STATE_NEEDED_COUNTER])
        need = int(self._state[_kernel.STATE_NEEDED_ROOM])
        self._grown_for = batches.where(int(self._state[_kernel.STATE_BATCH]))
        if need > _MAX_ROOM:
            most = _MAX_ROOM - _SPARE
            msg = f"{self._grown_for}: a record has more than {most} bytes in a column"
            raise CorruptBatchError(msg)
        # The need of a full chunk if all its records are like those so far.
        full = self._full
        filled = max(int(self._state[_ROW_BYTES]), full // _MAX_GROWTH)
        whole = min(need * full // filled * 9 // 8, _full_room(full)[held])
        self._room[held] = min(max(2 * self._room[held], need, whole), _MAX_ROOM)
        for name, buffers in self._buffers.items():
            for (holds, kind), buffer in zip(_COLUMNS[name], buffers, strict=True):
                if holds == held:
                    buffer.resize(_size(kind, self._room[held]))


def _full_room(full: int) -> tuple[int, ...]:
    """Return the most that the buffers of a complete chunk are likely to hold."""
    return (MAX_ROWS, full, full, full // 8, full, full)


def _first_room(batches: LogBatches, full: int) -> list[int]:
    """Estimate the contents of the first chunk: memory that it does not use is free."""
    size = min(int((batches["end"] - batches["start"]).sum()), full)
    rows = min(int(batches["record_count"].sum()), size // MIN_RECORD, MAX_ROWS)
    guess = (rows, size // 8, size, rows, size // 8, size // 8)
    return list(map(max, _MIN_ROOM, guess))


def _size(kind: int, count: int) -> int:
    """Return the size in bytes of a buffer of ``count`` items."""
    if kind == _BITS:
        return (count + 7) // 8
    if kind == _BYTES:
        return count + _SPARE
    if kind == _OFFSETS:
        count += 1
    return count * (8 if kind == _INT64 else 4)


def _column(name: str, buffers: list[pa.Buffer], held: list[int]) -> pa.Array:
    rows = held[_ROWS]
    no_keys, no_values, bare, no_header_values = (held[at] for at in _NULLS)
    if name == "key":
        return _binary(rows, no_keys, buffers)
    if name == "value":
        return _binary(rows, no_values, buffers)
    if name != "headers":
        return pa.Array.from_buffers(_TYPES[name], rows, [None, *buffers])
    if bare == rows:
        return pa.nulls(rows, HEADERS)
    is_there, ends, key_ends, keys, *values = buffers
    count = held[_HEADERS]
    texts = decode_text(_binary(count, 0, [None, key_ends, keys]))
    pairs = [texts, _binary(count, no_header_values, values)]
    structs = pa.Array.from_buffers(_HEADER, count, [None], 0, children=pairs)
    return pa.Array.from_buffers(
        HEADERS, rows, [is_there if bare else None, ends], bare, children=[structs]
    )


def _binary(count: int, nulls: int, buffers: list[pa.Buffer | None]) -> pa.Array:
    valid, *rest = buffers
    return pa.Array.from_buffers(
        _BINARY, count, [valid if nulls else None, *rest], nulls
    )
