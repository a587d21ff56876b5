"""Records that have only an offset, in place of those of a compressed batch.

A batch that has a record at each of its offsets need not be decompressed to know them.
Its records are replaced by placeholders: without key, value and headers, and equal for
all such batches, since an offset is stored relative to the batch's first. So they are
made once, and decoded like any others. The records of an uncompressed batch are not
replaced: beside the checksum it costs next to nothing to parse them.
"""

from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tieredfs.format.batch.table import LogBatches
from tieredfs.format.buffers import Int64Array, byte_view

__all__ = ["MAX_COUNT", "replaceable", "with_placeholders"]

MAX_COUNT: Final = 1 << 17
"""Records of a batch that is replaced, more than Kafka's default size can hold."""

_MIN_RUN_BYTES: Final = 16 << 10
"""Stored bytes of consecutive batches that are decoded slower than they are replaced,
where others are between them."""

_MORE: Final = 0x80
_LOW: Final = 0x7F


class _Placeholders(NamedTuple):
    """Placeholders of the offsets from a batch's first on.

    Attributes:
        data: The records.
        ends: Position after the last record, for each number of records.
    """

    data: memoryview
    ends: Int64Array


def replaceable(batches: LogBatches) -> npt.NDArray[np.bool_]:
    """Return for each batch whether it is one to replace."""
    wanted = batches.is_packed & batches.is_dense
    wanted &= batches["record_count"] <= MAX_COUNT
    if wanted.all() or not wanted.any():
        return wanted
    turns = np.flatnonzero(wanted[1:] != wanted[:-1]) + 1
    starts = np.concatenate([[0], turns])
    sizes = np.add.reduceat(batches["size"], starts)
    lengths = np.diff(np.append(starts, len(batches)))
    worth: npt.NDArray[np.bool_] = wanted & np.repeat(sizes >= _MIN_RUN_BYTES, lengths)
    return worth


def with_placeholders(batches: LogBatches) -> Iterator[LogBatches]:
    """Replace the records of batches that are all ``replaceable``.

    Raises:
        CorruptBatchError: A checksum does not match. The batches before it have been
            yielded.
    """
    valid = batches.count_valid()
    if valid:
        table = batches.table[:valid].copy()
        data, ends = _placeholders()
        table["start"] = 0
        table["end"] = ends[table["record_count"]]
        yield batches.with_records(table, data)
    batches.take(slice(valid, None)).check()


@cache
def _placeholders() -> _Placeholders:
    """Write the placeholders of the largest batch, of which others have the first."""
    zigzag = np.arange(MAX_COUNT, dtype=np.int64) * 2
    widths = 1 + (zigzag > _LOW) + (zigzag >> 14 > 0)
    ends = np.concatenate([[0], np.cumsum(widths + 6)])
    starts = ends[:-1]
    octets = np.zeros(int(ends[-1]), np.uint8)
    octets[starts] = (widths + 5) * 2  # length; attributes and time delta are 0
    for place in range(3):
        held = widths > place
        more = np.where(widths > place + 1, _MORE, 0)
        octets[(starts + 3 + place)[held]] = (zigzag >> 7 * place & _LOW | more)[held]
    for place in (3, 2):  # a key and a value of -1, which is null; no headers
        octets[ends[1:] - place] = 1
    return _Placeholders(byte_view(octets.data), ends)
