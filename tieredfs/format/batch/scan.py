"""The headers of many batches at once: those of version 2 that are right.

What is found is what ``batch.read_header`` would accept, one batch after the other, but
for their checksums, which are left to whoever reads on. The search ends before a batch
that it would not accept, and does not say why.
"""

import struct
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs.format.batch.header import CODEC_MASK, HEADER_SIZE, MAGIC, MIN_RECORD
from tieredfs.format.batch.table import BATCH_ROW, BatchTable
from tieredfs.format.compression.codec import Codec
from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["HeaderScanner", "header_scanner"]

HeaderScanner = Callable[[memoryview, int, int, int], BatchTable]
"""Find batches: in some bytes; from this place in them; the position of the first byte
in the log; the offset that the first batch must lie above. Returns their rows, each
with start and end of its records in the bytes."""

_MAX: Final = 512  # rows: a table of 64 KiB
_LENGTH: Final = struct.Struct(">i")
_LENGTH_FROM: Final = 8
_LENGTH_AT: Final = 12
_MAGIC_AT: Final = 16
_MAX_INT64: Final = (1 << 63) - 1
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


def header_scanner() -> HeaderScanner:
    """Return what scans headers by the kernel in use.

    Raises:
        InvalidArgumentError: A kernel is asked for that is not there.
    """
    return _scan_compiled if chosen_kernel() is Kernel.COMPILED else _scan


def _scan_compiled(
    view: memoryview, start: int, offset: int, previous: int
) -> BatchTable:
    from tieredfs.format.kernel import _kernel  # noqa: PLC0415 - it may not be there

    table = np.empty(_MAX, BATCH_ROW)
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
    # Past 64 bits it wraps to less than the base, and is found wrong.
    table["last_offset"] = table["base_offset"] + fields["last_offset_delta"]
    wrong = np.flatnonzero(~_right(table, previous))
    return table[: wrong[0]] if wrong.size else table


def _chain(view: memoryview, start: int) -> list[int]:
    """Follow the lengths of batches: where each whole one begins, and the last ends."""
    places = [start]
    position = start
    while len(view) - position >= HEADER_SIZE and len(places) <= _MAX:
        (length,) = _LENGTH.unpack_from(view, position + _LENGTH_FROM)
        size = length + _LENGTH_AT
        if not HEADER_SIZE <= size <= len(view) - position:
            break
        if view[position + _MAGIC_AT] != MAGIC:
            break
        position += size
        places.append(position)
    return places


def _right(table: BatchTable, previous: int) -> npt.NDArray[np.bool_]:
    """Tell of each batch whether its fields make sense, and follow the one before."""
    base, last = table["base_offset"], table["last_offset"]
    before = np.concatenate([[previous], last[:-1]])
    codec = table["attributes"] & CODEC_MASK
    fits = (table["end"] - table["start"]) // MIN_RECORD
    # An offset of 2^63 - 1 above one of 0 makes 2^63 of them.
    span = (last - base).astype(np.uint64) + np.uint64(1)
    most = np.where(codec == Codec.NONE, fits, np.minimum(span, _MAX_INT64))
    count = table["record_count"]
    right: npt.NDArray[np.bool_] = (
        (codec <= Codec.ZSTD)
        & (table["leader_epoch"] >= -1)
        & (base >= 0)
        & (base > before)
        & (last >= base)
        & (count >= 0)
        & (count <= most)
        & (count.astype(np.uint64) <= span)
    )
    return right
