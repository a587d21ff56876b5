"""Locate the fields of records with numpy.

Only the chain of record lengths is followed one by one; each field is then decoded for
all records together.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from tieredfs.format.batch.header import LOG_APPEND_TIME
from tieredfs.format.batch.table import BatchTable
from tieredfs.format.buffers import Int64Array
from tieredfs.format.records.schema import MAX_HEADERS, MalformedRecordsError
from tieredfs.format.varints import VARINT, VARLONG, VarintError, read_varint, varints

__all__ = [
    "Payloads",
    "RecordFields",
    "RecordRange",
    "decode_fields",
    "find_headers",
]

_MORE = 0x80
_LOW = 0x7F
_MIN_LANES = 500  # with fewer lanes a Python loop is faster than numpy
_MIN_BATCHES = 64  # the same limit for batches with equal numbers of records


class RecordRange(NamedTuple):
    """Consecutive records of each of some batches, decoded together.

    Attributes:
        data: Bytes that contain the records, uncompressed.
        table: The batches; ``start`` is that of the first record in the range, ``end``
            is that of the batch.
        rows: Number of records in the range, for each batch.
        left: Number of records from the start of the range to the end of the batch.
        above: Offset that the first record in the range must be above, for each batch.
    """

    data: memoryview
    table: BatchTable
    rows: Int64Array
    left: Int64Array
    above: Int64Array

    @classmethod
    def whole(cls, data: memoryview, table: BatchTable) -> "RecordRange":
        """Return the range of all records of some batches."""
        count = table["record_count"]
        return cls(data, table, count, count, table["base_offset"] - 1)

    def each(self, values: npt.NDArray[np.int64]) -> Int64Array:
        """Repeat a value of each batch for each of its records."""
        return np.repeat(values, self.rows)


class Payloads(NamedTuple):
    """The positions of a field in each record; a length of -1 is null."""

    starts: Int64Array
    lengths: Int64Array

    def take(self, rows: slice | npt.NDArray[np.bool_]) -> "Payloads":
        """Return the positions for the selected records."""
        return Payloads(self.starts[rows], self.lengths[rows])


class RecordFields(NamedTuple):
    """The decoded fields of records; payloads and headers are only located.

    Attributes:
        offsets: Offset of each record, strictly increasing within a batch.
        timestamps: Timestamp of each record, ms.
        timestamp_types: Timestamp type of each record.
        ends: Position after each record.
        keys: Position of each key.
        values: Position of each value.
        header_counts: Number of headers of each record.
        header_starts: Position of the first header of each record.
    """

    offsets: Int64Array
    timestamps: Int64Array
    timestamp_types: Int64Array
    ends: Int64Array
    keys: Payloads
    values: Payloads
    header_counts: Int64Array
    header_starts: Int64Array

    def take(self, rows: slice | npt.NDArray[np.bool_]) -> "RecordFields":
        """Return the fields of the selected records."""
        return RecordFields(
            self.offsets[rows],
            self.timestamps[rows],
            self.timestamp_types[rows],
            self.ends[rows],
            self.keys.take(rows),
            self.values.take(rows),
            self.header_counts[rows],
            self.header_starts[rows],
        )


def decode_fields(records: RecordRange) -> RecordFields:
    """Decode records, except for their headers.

    Raises:
        MalformedRecordsError: A record does not fill its length, the records do not
            fill their batch, or the offsets do not increase.
    """
    try:
        return _decode(records)
    except (VarintError, IndexError) as error:
        msg = "a varint is too long or runs past the end"
        raise MalformedRecordsError(msg) from error


def _decode(records: RecordRange) -> RecordFields:
    octets = np.frombuffer(records.data, np.uint8)
    bodies, ends = _bodies(octets, records)
    # Every record has one byte of attributes, unused so far.
    time_deltas, at = varints(octets, bodies + 1, VARLONG)
    offset_deltas, at = varints(octets, at, VARINT)
    keys, at = _payload(octets, at, ends)
    values, at = _payload(octets, at, ends)
    header_counts, at = varints(octets, at, VARINT)
    _require(
        bool(np.all((header_counts >= 0) & (header_counts <= (ends - at) // 2))),
        "a header count does not fit its record",
    )
    bare = header_counts == 0
    _require(bool(np.all(at[bare] == ends[bare])), "a record does not fill its length")
    return RecordFields(
        _offsets(records, offset_deltas),
        *_timestamps(records, time_deltas),
        ends,
        keys,
        values,
        header_counts,
        at,
    )


def _bodies(
    octets: npt.NDArray[np.uint8], records: RecordRange
) -> tuple[Int64Array, Int64Array]:
    """Return the start of each record, after its length field, and its end."""
    table, rows = records.table, records.rows
    places = _chains(records.data, octets, table["start"], table["end"], rows)
    bodies, ends = _payload(octets, places, records.each(table["end"]))
    _require(bool(np.all(bodies.lengths >= 0)), "a record has a negative length")
    last = ends[np.cumsum(rows) - 1]
    fills = np.where(records.left == rows, last == table["end"], last < table["end"])
    _require(bool(np.all(fills)), "the records do not fill the batch")
    return bodies.starts, ends


def _chain(
    data: memoryview, starts: Int64Array, ends: Int64Array, counts: Int64Array
) -> Int64Array:
    """Follow chains of length-prefixed fields; return the position of each length.

    This is the only serial part, and it checks nothing: the caller decodes all lengths
    again together, which detects a chain that followed a wrong length.

    Args:
        data: Bytes that contain the fields.
        starts: Start of each chain.
        ends: Position that no field of a chain may extend past.
        counts: Number of fields in each chain.
    """
    places: list[int] = []
    add = places.append
    walks = zip(starts.tolist(), ends.tolist(), counts.tolist(), strict=True)
    for start, end, count in walks:
        position = start
        for _ in range(count):
            add(position)
            zigzag = data[position]
            if zigzag < _MORE:
                position += (zigzag >> 1) + 1  # no bytes follow the -1 of a null
                continue
            second = data[position + 1]
            if second < _MORE:
                position += (second << 6 | (zigzag & _LOW) >> 1) + 2
            else:
                length, position = read_varint(data, position, end)
                position += max(length, 0)
    return np.array(places, np.int64)


def _chains(
    data: memoryview,
    octets: npt.NDArray[np.uint8],
    starts: Int64Array,
    ends: Int64Array,
    counts: Int64Array,
) -> Int64Array:
    """Do the same as ``_chain``: many chains together, the last few one by one."""
    places = np.empty(int(counts.sum()), np.int64)
    slots = np.cumsum(counts) - counts
    at, left = starts, counts
    while len(at) >= _MIN_BATCHES:
        places[slots] = at
        lengths, at = varints(octets, at, VARINT)
        at += np.maximum(lengths, 0)
        slots, left = slots + 1, left - 1
        more = left > 0
        if not more.all():
            at, slots, left, ends = at[more], slots[more], left[more], ends[more]
    within = np.arange(int(left.sum())) - np.repeat(np.cumsum(left) - left, left)
    places[np.repeat(slots, left) + within] = _chain(data, at, ends, left)
    return places


def _payload(
    octets: npt.NDArray[np.uint8], at: Int64Array, ends: Int64Array | int
) -> tuple[Payloads, Int64Array]:
    lengths, starts = varints(octets, at, VARINT)
    _require(
        bool(np.all((lengths >= -1) & (lengths <= ends - starts))),
        "a length does not fit its record",
    )
    return Payloads(starts, lengths), starts + np.maximum(lengths, 0)


def _offsets(records: RecordRange, deltas: Int64Array) -> Int64Array:
    table = records.table
    offsets: Int64Array = deltas + records.each(table["base_offset"])
    _require(
        bool(np.all((deltas >= 0) & (offsets <= records.each(table["last_offset"])))),
        "an offset is outside its batch",
    )
    before = np.empty_like(offsets)
    before[1:] = offsets[:-1]
    before[np.cumsum(records.rows) - records.rows] = records.above
    _require(bool(np.all(before < offsets)), "offsets do not increase")
    return offsets


def _timestamps(
    records: RecordRange, deltas: Int64Array
) -> tuple[Int64Array, Int64Array]:
    """Return the timestamps and their types."""
    table = records.table
    none = table["magic"] == 0
    by_broker = ~none & (table["attributes"] & LOG_APPEND_TIME != 0)
    base = np.where(by_broker, table["max_timestamp"], table["base_timestamp"])
    # Wraps like Java's long: the producer's subtraction wrapped in the same way.
    stamps: Int64Array = records.each(base) + deltas * records.each(1 - by_broker)
    return stamps, records.each(by_broker.astype(np.int64) - none)


def find_headers(
    data: memoryview, starts: Int64Array, counts: Int64Array, ends: Int64Array
) -> tuple[Payloads, Payloads]:
    """Locate the keys and values of all headers of some records.

    Raises:
        MalformedRecordsError: The headers of a record do not fill it, a header has no
            key, or a record has more headers than any producer writes.
    """
    try:
        return _walk_headers(data, starts, counts, ends)
    except (VarintError, IndexError) as error:
        msg = "a header is too long or runs past the end"
        raise MalformedRecordsError(msg) from error


def _walk_headers(
    data: memoryview, starts: Int64Array, counts: Int64Array, ends: Int64Array
) -> tuple[Payloads, Payloads]:
    """Follow the headers of all records together, then of the few that have many."""
    _require(
        int(counts.max()) <= MAX_HEADERS,
        "a record has more headers than any producer writes",
    )
    octets = np.frombuffer(data, np.uint8)
    firsts = np.cumsum(counts) - counts
    total = int(counts.sum())
    # Keys and values alternate.
    found = Payloads(np.empty(2 * total, np.int64), np.empty(2 * total, np.int64))
    at = starts.copy()
    lanes = np.flatnonzero(counts)
    step = 0
    while lanes.size > _MIN_LANES:
        slots = 2 * (firsts[lanes] + step)
        position = at[lanes]
        for turn in range(2):
            field, position = _payload(octets, position, ends[lanes])
            found.starts[slots + turn], found.lengths[slots + turn] = field
        at[lanes] = position
        step += 1
        lanes = lanes[counts[lanes] > step]
    many = 2 * (counts[lanes] - step)
    places = _chain(data, at[lanes], ends[lanes], many)
    lasts = np.cumsum(many)
    slots = np.arange(len(places)) + np.repeat(
        2 * (firsts[lanes] + step) - (lasts - many), many
    )
    field, position = _payload(octets, places, np.repeat(ends[lanes], many))
    found.starts[slots], found.lengths[slots] = field
    at[lanes] = position[lasts - 1]
    _require(bool(np.all(found.lengths[0::2] >= 0)), "a header has no key")
    held = counts > 0
    _require(bool(np.all(at[held] == ends[held])), "a record does not fill its length")
    return (
        Payloads(found.starts[0::2], found.lengths[0::2]),
        Payloads(found.starts[1::2], found.lengths[1::2]),
    )


def _require(held: bool, detail: str) -> None:  # noqa: FBT001 - it is the subject
    if not held:
        raise MalformedRecordsError(detail)
