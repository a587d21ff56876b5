"""Write records as lines of JSON with the compiled kernel, from Arrow's own buffers."""

from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.cli.output import json_lines_python
from tieredfs.cli.output.escapes import quote, steers
from tieredfs.cli.output.json_lines_python import NAMES, quoted
from tieredfs.cli.output.text_encoder import TIMESTAMP_TYPES, TextEncoder
from tieredfs.format.buffers import int64s
from tieredfs.format.compression.bounded_output import allocate
from tieredfs.format.kernel import _kernel
from tieredfs.integers import MAX_INT32

if TYPE_CHECKING:
    from tieredfs.format.kernel._kernel import JsonColumn, JsonTexts

__all__ = ["lines_of"]

_ROOM: Final = 1 << 20
_MAX_ROOM: Final = 64 << 20
"""The most that the kernel is given for a line, which may take six times the bytes of
its record."""

_POINTS: Final = 256
"""Code points that are looked up together: texts of one language have them nearby."""


def lines_of(
    batch: pa.RecordBatch, encode: TextEncoder
) -> Iterator[bytes | memoryview]:
    """Yield the records of a batch, each with an end of line behind it.

    Args:
        batch: The records.
        encode: Turns keys and values into text.

    Yields:
        Whole lines, to be used before the next ones are taken.
    """
    fields, before = [], ""
    try:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            prefix = f"{before}{quote(NAMES.get(name, name))}: "
            kind, constant, shown = _column(name, column, encode)
            fields.append((kind, f"{prefix}{constant}".encode(), shown))
            before = ", "
    except OverflowError:  # texts that no column can have
        yield json_lines_python.lines_of(batch, encode)
        return
    lines = _kernel.JsonLines(len(batch), _known_points(), fields)
    row, room = 0, allocate(_ROOM)
    while row < len(batch):
        row, size, needed, asked = lines.write(row, room)
        if size:
            yield room[:size]
        if asked:
            _look_up(asked)
        elif needed > _MAX_ROOM:
            yield json_lines_python.lines_of(batch.slice(row, 1), encode)
            row += 1
        elif needed > len(room):
            room = allocate(needed)


def _column(
    name: str, column: pa.Array, encode: TextEncoder
) -> "tuple[int, str, JsonColumn]":
    """Return a column as the kernel takes it.

    Returns:
        Its kind; what all records have, as JSON, or nothing; and the column, or None.

    Raises:
        OverflowError: Its texts have more bytes than Arrow's can.
    """
    match name:
        case "key" | "value":
            return _kernel.JSON_TEXT, "", _texts(encode.column(column))
        case "topic":
            return _kernel.JSON_TEXT, "", _texts(column)
        case "timestampType":
            return _types(_int32s(column))
        case "headers":
            return _headers(column, encode)
        case "partition":
            return _kernel.JSON_INT32, "", _int32s(column)
        case _:  # a timestamp need not be a date
            return _kernel.JSON_INT64, "", int64s(column)


def _types(numbers: npt.NDArray[np.int32]) -> "tuple[int, str, JsonColumn]":
    if len(numbers) and (numbers == numbers[0]).all():
        return _kernel.JSON_NOTHING, quoted(TIMESTAMP_TYPES[int(numbers[0])]), None
    texts = _texts([TIMESTAMP_TYPES[number] for number in numbers.tolist()])
    return _kernel.JSON_TEXT, "", texts


def _headers(column: pa.Array, encode: TextEncoder) -> "tuple[int, str, JsonColumn]":
    pairs = column.flatten()
    if not len(pairs):
        return _kernel.JSON_NOTHING, "[]", None
    begins = np.zeros(len(column) + 1, np.int32)
    # Not by a scalar, for which pyarrow would import pandas where it is installed.
    none = pa.Array.from_buffers(pa.int32(), len(column), [None, pa.py_buffer(begins)])
    counts = pc.if_else(column.is_valid(), pc.list_value_length(column), none)
    np.cumsum(_int32s(counts), out=begins[1:])
    values = _texts(encode.column(pairs.field("value")))
    return _kernel.JSON_HEADERS, "", (begins, _texts(pairs.field("key")), values)


def _int32s(array: pa.Array) -> npt.NDArray[np.int32]:
    """Return an Arrow array of 32-bit integers as numpy, without a copy."""
    held = array.buffers()[1]
    if held is None or not len(array):
        return np.zeros(0, np.int32)
    return np.frombuffer(held, np.int32, len(array), 4 * array.offset)


def _texts(texts: pa.Array | list[str | None]) -> "JsonTexts":
    """Return texts as the kernel takes them."""
    if not isinstance(texts, list):
        valid, offsets, data = texts.buffers()
        offsets = b"" if offsets is None else offsets  # there is no text
        return valid, offsets, data, texts.offset, len(texts)
    parts = [b"" if text is None else text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, parts)])
    if ends[-1] > MAX_INT32:
        raise OverflowError
    there = np.array([text is not None for text in texts], np.bool_)
    held = np.packbits(there, bitorder="little")
    return held, ends.astype(np.int32), b"".join(parts), 0, len(texts)


@cache
def _known_points() -> bytearray:
    """Return what is known of each code point: nothing, until it is looked up."""
    return bytearray(_kernel.JSON_KNOWN_SIZE)


def _look_up(point: int) -> None:
    """Note which code points near one would steer a terminal."""
    known, first = _known_points(), point - point % _POINTS
    for code in range(first, first + _POINTS):
        escaped = steers(chr(code))
        known[code] = _kernel.JSON_ESCAPED if escaped else _kernel.JSON_PLAIN
