"""Records of batches → Arrow columns, with numpy and pyarrow.

Many batches are decoded at once, and payloads copied once, by Arrow. It is what decodes
where no kernel was compiled: at 1-4 GB/s for records of 1 KiB.
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
    MalformedRecordsError,
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
    MAX_BYTES,
    MAX_ROWS,
    RecordColumns,
    fixed_bytes,
)

__all__ = ["build_columns"]

_GROUP_BYTES: Final = 4 << 20
"""Bytes of records decoded at once: of fewer, numpy's calls would be the cost."""

_PART_BYTES: Final = 1 << 20
"""Bytes of records, unless a batch has more, by which a group grows."""


def build_columns(
    runs: Iterable[LogBatches], names: Iterable[str], other_bytes: int
) -> Iterator[RecordColumns]:
    """Yield the columns of records in pieces: see ColumnBuilder."""
    asked = tuple(names)
    for group in _groups(runs):
        yield from _build_group(group, asked, other_bytes)


def _groups(runs: Iterable[LogBatches]) -> Iterator[list[LogBatches]]:
    """Gather batches to decode together; a large one stays alone."""
    group: list[LogBatches] = []
    held = rows = 0
    try:
        for run in _checked(runs):
            for part, size, count in _parts(run):
                if group and (held + size > MAX_BYTES or rows + count > MAX_ROWS):
                    yield group
                    group, held, rows = [], 0, 0
                group.append(part)
                held += size
                rows += count
                if held >= _GROUP_BYTES:
                    yield group
                    group, held, rows = [], 0, 0
    except Exception:
        if group:  # what lies before the error comes out first
            yield group
        raise
    if group:
        yield group


def _checked(runs: Iterable[LogBatches]) -> Iterator[LogBatches]:
    """Yield batches whose checksums are right; those before one that is not as well."""
    for run in runs:
        right = run.count_valid()
        if right < len(run):
            yield run.take(slice(right))
            run.take(slice(right, None)).check()
        yield run


def _parts(run: LogBatches) -> Iterator[tuple[LogBatches, int, int]]:
    """Cut batches, empty ones left out, to parts no larger than a group may be.

    Yields them with the bytes and the number of their records.
    """
    filled = run.take(run["record_count"] > 0)
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
    group: Sequence[LogBatches], names: Sequence[str], other_bytes: int
) -> Iterator[RecordColumns]:
    """Decode whole batches together; one by one if something is wrong."""
    batches = sum(map(len, group))
    if batches > 1:
        try:
            whole = list(_build_runs(group, names, other_bytes))  # bounded, as it is
        except MalformedRecordsError:
            for run in group:  # what is right comes out, what is not is named
                for row in range(len(run)):
                    one = run.take(slice(row, row + 1))
                    yield from _build_group([one], names, other_bytes)
        else:
            yield from whole
        return
    try:
        yield from _build_runs(group, names, other_bytes)
    except MalformedRecordsError as error:
        msg = f"{group[0].where(0)}: {error}"
        raise CorruptBatchError(msg) from error


def _build_runs(
    group: Sequence[LogBatches], names: Sequence[str], other_bytes: int
) -> Iterator[RecordColumns]:
    for data, fields in _decode(group):
        wanted = _wanted(group, fields.offsets)
        kept = fields if wanted.all() else fields.take(wanted)
        for part in _row_slices(_sizes(kept, names, other_bytes), MAX_BYTES):
            piece = kept.take(part)
            arrays = {name: _column(data, piece, name) for name in names}
            yield RecordColumns(part.stop - part.start, arrays)


def _wanted(group: Sequence[LogBatches], offsets: Int64Array) -> npt.NDArray[np.bool_]:
    """Tell which of the records of some batches are wanted."""
    first = np.array([run.first_offset for run in group], np.int64)
    last = np.array([run.end_offset - 1 for run in group], np.int64)
    if len(group) > 1:
        counts = [int(run["record_count"].sum()) for run in group]
        first, last = np.repeat(first, counts), np.repeat(last, counts)
    wanted: npt.NDArray[np.bool_] = (offsets >= first) & (offsets <= last)
    return wanted


def _decode(group: Sequence[LogBatches]) -> Iterator[tuple[memoryview, RecordFields]]:
    """Decode several batches at once, or one batch some records at a time."""
    if len(group) == 1 and len(group[0]) == 1:
        yield from _decode_batch(group[0])
        return
    data = group[0].buffer
    # As plain numbers: numpy compares the types of structured arrays field by field.
    table = np.concatenate([run.table.view(np.int64) for run in group]).view(BATCH_ROW)
    if not all(run.buffer is data for run in group):
        data = memoryview(b"".join(_stored(run) for run in group))
        sizes = table["end"] - table["start"]
        table["end"] = np.cumsum(sizes)
        table["start"] = table["end"] - sizes
    yield data, decode_fields(RecordRange.whole(data, table))


def _stored(run: LogBatches) -> bytes:
    """Return the records of some batches, without what lies between."""
    places = zip(run["start"].tolist(), run["end"].tolist(), strict=True)
    return b"".join(run.buffer[start:end] for start, end in places)


def _decode_batch(run: LogBatches) -> Iterator[tuple[memoryview, RecordFields]]:
    table = run.table.copy()
    left, above = int(table["record_count"][0]), int(table["base_offset"][0]) - 1
    while left:
        rows = -(-left // -(-left // MAX_ROWS))  # of one length, none of them tiny
        numbers = (np.array([number]) for number in (rows, left, above))
        fields = decode_fields(RecordRange(run.buffer, table.copy(), *numbers))
        yield run.buffer, fields
        table["start"], above = fields.ends[-1], int(fields.offsets[-1])
        left -= rows


def _sizes(fields: RecordFields, names: Sequence[str], other_bytes: int) -> Int64Array:
    """Return the bytes that Arrow takes, at most, for each of some records."""
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
        case _:
            return _headers(data, fields)


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


def _row_slices(sizes: Int64Array, most: int) -> Iterator[slice]:
    """Cut rows into runs of at most ``most`` bytes, but at least one row.

    What is left for the last two is shared, so that none is small without need.
    """
    ends = np.cumsum(sizes)
    first, done, total = 0, 0, int(ends[-1]) if len(ends) else 0
    while first < len(ends):
        left = total - done
        room = left if left <= most else min(most, left // 2)
        last = int(np.searchsorted(ends, done + room, side="right"))
        last = max(last, first + 1)
        yield slice(first, last)
        first, done = last, int(ends[last - 1])
