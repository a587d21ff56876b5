"""Scan the headers of many version 2 batches at a time.

The scan accepts the same batches as ``reader.read_header``, but does not check their
checksums; the caller does. It stops before the first batch that is not valid, without
an error.
"""

import struct
from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs.format.batch.header import CODEC_MASK, HEADER_SIZE, MAGIC, MIN_RECORD
from tieredfs.format.batch.table import BATCH_ROW, BatchTable
from tieredfs.format.compression.codec import MAX_CODEC, Codec
from tieredfs.format.kernel.select import Kernel, chosen_kernel
from tieredfs.integers import MAX_INT64

__all__ = ["scan_headers"]

_MAX_ROWS: Final = 512  # a table of 64 KiB
_LENGTH: Final = struct.Struct(">i")
_LENGTH_FROM: Final = 8
_LENGTH_AT: Final = 12
_MAGIC_AT: Final = 16
_WIRE: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp", ">i8"),
        ("max_timestamp", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)


def scan_headers(
    view: memoryview, start: int, offset: int, previous: int
) -> BatchTable:
    """Find batches with the kernel in use.

    Args:
        view: Log bytes.
        start: Position in the bytes of the first batch.
        offset: Position of the first byte in the log.
        previous: Offset that the first batch must be above.

    Returns:
        A row for each batch, with the start and end of the batch's records in the
        bytes; at most 512.

    Raises:
        InvalidArgumentError: The requested kernel is not available.
    """
    if chosen_kernel() is not Kernel.COMPILED:
        return _scan(view, start, offset, previous)
    from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may be missing

    table = np.empty(_MAX_ROWS, BATCH_ROW)
    return table[: _kernel.scan_headers(view, start, offset, previous, table)]


def _scan(view: memoryview, start: int, offset: int, previous: int) -> BatchTable:
    starts = _chain(view, start)
    octets = np.frombuffer(view, np.uint8)
    places = np.array(starts[:-1], np.int64)
    fields = octets[places[:, None] + np.arange(HEADER_SIZE)].view(_WIRE)[:, 0]
    table = np.zeros(len(places), BATCH_ROW)
    for name in set(_WIRE.names or ()).intersection(BATCH_ROW.names or ()):
        table[name] = fields[name]
    table["position"] = places + offset
    table["start"] = places + HEADER_SIZE
    table["end"] = starts[1:]
    table["size"] = table["end"] - places
    # Past 64 bits the sum wraps to less than the base, and so is invalid.
    table["last_offset"] = table["base_offset"] + fields["last_offset_delta"]
    wrong = np.flatnonzero(~_are_valid(table, previous))
    return table[: wrong[0]] if wrong.size else table


def _chain(view: memoryview, start: int) -> list[int]:
    """Return the start of each whole batch and the end of the last one."""
    places = [start]
    position = start
    while len(view) - position >= HEADER_SIZE and len(places) <= _MAX_ROWS:
        (length,) = _LENGTH.unpack_from(view, position + _LENGTH_FROM)
        size = length + _LENGTH_AT
        if not HEADER_SIZE <= size <= len(view) - position:
            break
        if view[position + _MAGIC_AT] != MAGIC:
            break
        position += size
        places.append(position)
    return places


def _are_valid(table: BatchTable, previous: int) -> npt.NDArray[np.bool_]:
    """Return for each batch whether its fields are valid and follow the one before."""
    base, last = table["base_offset"], table["last_offset"]
    before = np.concatenate([[previous], last[:-1]])
    codec = table["attributes"] & CODEC_MASK
    fits = (table["end"] - table["start"]) // MIN_RECORD
    # Offsets 0 to 2^63 - 1 are 2^63 offsets, too many for an int64.
    span = (last - base).astype(np.uint64) + np.uint64(1)
    max_count = np.where(codec == Codec.NONE, fits, np.minimum(span, MAX_INT64))
    count = table["record_count"]
    valid: npt.NDArray[np.bool_] = (
        (codec <= MAX_CODEC)
        & (table["leader_epoch"] >= -1)
        & (base >= 0)
        & (base > before)
        & (last >= base)
        & (count >= 0)
        & (count <= max_count)
        & (count.astype(np.uint64) <= span)
    )
    return valid
