"""Decode the records of batches to Arrow columns with numpy and pyarrow.

Many batches are decoded together, and Arrow copies the payloads once. This decoder is
used where the compiled kernel is not available; it decodes 1-4 GB/s for records of
1 KiB.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tieredfs.errors import CorruptBatchError
from tieredfs.format.batch.table import BATCH_ROW, LogBatches
from tieredfs.format.buffers import Int64Array
from tieredfs.format.records.fields_numpy import (
    Payloads,
    RecordFields,
    RecordRange,
    decode_fields,
    find_headers,
)
from tieredfs.format.records.header_keys import decode_text
from tieredfs.format.records.schema import (
    HEADER_BYTES,
    HEADERS,
    MALFORMED_BYTES,
    MAX_ROWS,
    MalformedRecordsError,
    OutputSize,
    RecordColumns,
    fixed_bytes,
)

__all__ = ["build_columns"]

_PART_BYTES: Final = 1 << 20
"""Bytes of records, unless a single batch has more, that are added to a group at a
time."""


def build_columns(
    batches: Iterable[LogBatches],
    names: Iterable[str],
    other_bytes: int,
    output: OutputSize,
) -> Iterator[RecordColumns]:
    """Yield the columns of records in chunks: see ColumnBuilder."""
    columns = tuple(names)
    for group in _groups(batches, output.maximum):
        yield from _build_group(group, columns, other_bytes, output.maximum)


def _groups(
    batches: Iterable[LogBatches], max_bytes: int
) -> Iterator[list[LogBatches]]:
    """Group batches to decode together; a large batch is its own group.

    A group has half of the maximum size, by default 4 MiB: with less, numpy's calls
    would dominate.
    """
    group: list[LogBatches] = []
    held = rows = 0
    try:
        for checked in _checked(batches):
            for part, size, count in _parts(checked):
                if group and (held + size > max_bytes or rows + count > MAX_ROWS):
                    yield group
                    group, held, rows = [], 0, 0
                group.append(part)
                held += size
                rows += count
                if held >= max_bytes // 2:
                    yield group
                    group, held, rows = [], 0, 0
    except Exception:
        if group:  # records before the error are yielded first
            yield group
        raise
    if group:
        yield group


def _checked(batches: Iterable[LogBatches]) -> Iterator[LogBatches]:
    """Yield batches up to the first whose checksum is wrong, which is raised."""
    for group in batches:
        valid = group.count_valid()
        if valid < len(group):
            yield group.take(slice(valid))
            group.take(slice(valid, None)).check()
        yield group


def _parts(batches: LogBatches) -> Iterator[tuple[LogBatches, int, int]]:
    """Split batches into parts for a group, without empty batches.

    Yields:
        A part, the bytes of its records, and the number of its records.
    """
    filled = batches.take(batches["record_count"] > 0)
    sizes = np.cumsum(filled["end"] - filled["start"])
    counts = np.cumsum(filled["record_count"])
    first, size, count = 0, 0, 0
    while first < len(filled):
        fits = min(
            int(np.searchsorted(sizes, size + _PART_BYTES, side="right")),
            int(np.searchsorted(counts, count + MAX_ROWS, side="right")),
        )
        end = max(fits, first + 1)
        total, rows = int(sizes[end - 1]), int(counts[end - 1])
        yield filled.take(slice(first, end)), total - size, rows - count
        first, size, count = end, total, rows


def _build_group(
    group: Sequence[LogBatches], names: Sequence[str], other_bytes: int, max_bytes: int
) -> Iterator[RecordColumns]:
    """Decode whole batches together; one by one when their records are malformed."""
    count = sum(map(len, group))
    if count > 1:
        try:
            whole = list(
                _build_columns(group, names, other_bytes, max_bytes)
            )  # a group is bounded
        except MalformedRecordsError:
            for (
                batches
            ) in group:  # yields the valid batches and names the malformed one
                for row in range(len(batches)):
                    one = batches.take(slice(row, row + 1))
                    yield from _build_group([one], names, other_bytes, max_bytes)
        else:
            yield from whole
        return
    try:
        yield from _build_columns(group, names, other_bytes, max_bytes)
    except MalformedRecordsError as error:
        msg = f"{group[0].where(0)}: {error}"
        raise CorruptBatchError(msg) from error


def _build_columns(
    group: Sequence[LogBatches], names: Sequence[str], other_bytes: int, max_bytes: int
) -> Iterator[RecordColumns]:
    for data, fields in _decode(group):
        wanted = _wanted(group, fields.offsets)
        kept = fields if wanted.all() else fields.take(wanted)
        for part in _row_slices(_sizes(kept, names, other_bytes), max_bytes):
            piece = kept.take(part)
            arrays = {name: _column(data, piece, name) for name in names}
            yield RecordColumns(part.stop - part.start, arrays)


def _wanted(group: Sequence[LogBatches], offsets: Int64Array) -> npt.NDArray[np.bool_]:
    """Return for each record whether its offset is in the wanted range."""
    first = np.array([batches.first_offset for batches in group], np.int64)
    last = np.array([batches.end_offset - 1 for batches in group], np.int64)
    if len(group) > 1:
        counts = [int(batches["record_count"].sum()) for batches in group]
        first, last = np.repeat(first, counts), np.repeat(last, counts)
    wanted: npt.NDArray[np.bool_] = (offsets >= first) & (offsets <= last)
    return wanted


def _decode(group: Sequence[LogBatches]) -> Iterator[tuple[memoryview, RecordFields]]:
    """Decode several batches together, or one batch a part of its records at a time."""
    if len(group) == 1 and len(group[0]) == 1:
        yield from _decode_batch(group[0])
        return
    data = group[0].buffer
    # As plain integers: numpy compares the types of structured arrays field by field.
    table = np.concatenate([batches.table.view(np.int64) for batches in group]).view(
        BATCH_ROW
    )
    if not all(batches.buffer is data for batches in group):
        data = memoryview(b"".join(_stored(batches) for batches in group))
        sizes = table["end"] - table["start"]
        table["end"] = np.cumsum(sizes)
        table["start"] = table["end"] - sizes
    yield data, decode_fields(RecordRange.whole(data, table))


def _stored(batches: LogBatches) -> bytes:
    """Return the records of some batches, without the bytes between batches."""
    places = zip(batches["start"].tolist(), batches["end"].tolist(), strict=True)
    return b"".join(batches.buffer[start:end] for start, end in places)


def _decode_batch(batches: LogBatches) -> Iterator[tuple[memoryview, RecordFields]]:
    table = batches.table.copy()
    left, above = int(table["record_count"][0]), int(table["base_offset"][0]) - 1
    while left:
        rows = -(-left // -(-left // MAX_ROWS))  # parts of equal length, none tiny
        numbers = (np.array([number]) for number in (rows, left, above))
        fields = decode_fields(RecordRange(batches.buffer, table.copy(), *numbers))
        yield batches.buffer, fields
        table["start"], above = fields.ends[-1], int(fields.offsets[-1])
        left -= rows


def _sizes(fields: RecordFields, names: Sequence[str], other_bytes: int) -> Int64Array:
    """Return the maximum number of bytes that Arrow needs for each record."""
    sizes = np.full(len(fields.offsets), other_bytes + fixed_bytes(names), np.int64)
    if "key" in names:
        sizes += np.maximum(fields.keys.lengths, 0)
    if "value" in names:
        sizes += np.maximum(fields.values.lengths, 0)
    if "headers" in names:
        sizes += MALFORMED_BYTES * (fields.ends - fields.header_starts)
        sizes += HEADER_BYTES * fields.header_counts
    return sizes


def _column(data: memoryview, fields: RecordFields, name: str) -> pa.Array:
    match name:
        case "key":
            return _binary(data, fields.keys)
        case "value":
            return _binary(data, fields.values)
        case "offset":
            return pa.array(fields.offsets)
        case "timestamp":
            return pa.array(fields.timestamps).view(pa.timestamp("ms", tz="UTC"))
        case "timestampType":
            return pa.array(fields.timestamp_types.astype(np.int32))
        case "headers":
            return _headers(data, fields)
    msg = f"no column {name!r} is decoded"
    raise ValueError(msg)


def _headers(data: memoryview, fields: RecordFields) -> pa.Array:
    counts = fields.header_counts
    if not counts.any():
        return pa.nulls(len(counts), HEADERS)
    keys, values = find_headers(data, fields.header_starts, counts, fields.ends)
    offsets = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=offsets[1:])
    return pa.ListArray.from_arrays(
        pa.array(offsets),
        pa.StructArray.from_arrays(
            [decode_text(_binary(data, keys)), _binary(data, values)],
            fields=[HEADERS.value_type.field(index) for index in range(2)],
        ),
        type=HEADERS,
        mask=pa.array(counts == 0),
    )


def _binary(data: memoryview, payload: Payloads) -> pa.Array:
    """Copy payloads in one pass: every other slot of an array that spans the gaps."""
    starts, lengths = payload
    count = len(starts)
    if not count:
        return pa.array([], pa.binary())
    base = int(starts[0])
    bounds = np.empty(2 * count, np.int32)
    bounds[0::2] = starts - base
    bounds[1::2] = starts + np.maximum(lengths, 0) - base
    spans = pa.Array.from_buffers(
        pa.binary(),
        2 * count - 1,
        [None, pa.py_buffer(bounds), pa.py_buffer(data[base : base + int(bounds[-1])])],
    )
    nulls = lengths < 0
    picks = pa.array(
        np.arange(0, 2 * count, 2, dtype=np.int32),
        mask=nulls if nulls.any() else None,
    )
    return spans.take(picks)


def _row_slices(sizes: Int64Array, max_bytes: int) -> Iterator[slice]:
    """Split rows into slices of at most ``max_bytes``, but at least one row each.

    The last two slices share what is left evenly, so that the last one is not small.
    """
    ends = np.cumsum(sizes)
    first, done, total = 0, 0, int(ends[-1]) if len(ends) else 0
    while first < len(ends):
        left = total - done
        room = left if left <= max_bytes else min(max_bytes, left // 2)
        last = int(np.searchsorted(ends, done + room, side="right"))
        last = max(last, first + 1)
        yield slice(first, last)
        first, done = last, int(ends[last - 1])
