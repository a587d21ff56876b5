"""Compressed batches opened many at a time, block by block, into one piece of memory.

The kernel finds what a codec's library is to decompress, and how much can come out of
it; so nothing is done here for each batch but to call that library, which for a batch
of a few KiB takes hardly longer than a few steps of Python. Batches that are not as
usual are left to ``codecs``, as all are without the kernel.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs.format.batch.header import CODEC_MASK
from tieredfs.format.batch.table import BATCH_ROW, BatchTable, LogBatches
from tieredfs.format.compression.bounded_output import MalformedDataError, allocate
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.codecs import MAX_DECOMPRESSED
from tieredfs.format.compression.registry import block_decompressor
from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["open_blocks"]

_MAX_BLOCKS: Final = 1024
_STORED: Final = 256 << 10
"""Bytes of batches that are opened at once: what comes out of them still is in a
processor's cache when it is decoded."""

_ROOM: Final = 2 << 20
"""Bytes that may come out of several batches."""

_IN_PLACE: Final = (Codec.SNAPPY, Codec.LZ4)
"""What is decompressed straight into its place; else it is copied there."""

_CODECS: Final = tuple(Codec)
_NAMES: Final = list(BATCH_ROW.names or ())
_START, _END = _NAMES.index("start"), _NAMES.index("end")


def open_blocks(
    run: LogBatches, first: int, limit: int = MAX_DECOMPRESSED
) -> LogBatches | None:
    """Decompress batches from one on, as many as are done together.

    Args:
        run: The batches.
        first: The row of the first.
        limit: Most bytes that may come out of one.

    Returns:
        Them, their records side by side; None when the first is not as usual: its
        checksum may be wrong, its codec's library may take what is not found here, or
        more than the limit may come out.

    Raises:
        InvalidArgumentError: A kernel is asked for that is not there.
    """
    table = run.table[first:]
    codec = _CODECS[int(table["attributes"][0]) & CODEC_MASK]
    if chosen_kernel() is not Kernel.COMPILED:
        return None
    decompress = block_decompressor(codec)
    if decompress is None:
        return None
    if codec not in _IN_PLACE and table["end"][0] - table["start"][0] > _STORED:
        return None
    # It may not be there.
    from tieredfs.format.kernel import _kernel  # noqa: PLC0415

    blocks = np.empty((_MAX_BLOCKS, _kernel.BLOCK_SIZE), np.int64)
    rows, count, room = _kernel.scan_packed(
        run.buffer, table, blocks, _STORED, _ROOM, is_checked=run.is_checked
    )
    if not rows or room > limit:  # several have no more than _ROOM
        return None
    data = allocate(room)
    ends = _decompressed(run.buffer, blocks[:count], data, decompress)
    if not ends:
        return None
    return run.with_records(_moved(table, ends), data.toreadonly())


def _decompressed(
    source: memoryview,
    blocks: npt.NDArray[np.int64],
    data: memoryview,
    decompress: Callable[[memoryview, memoryview], int],
) -> list[int]:
    """Decompress blocks behind one another; return where each batch ends.

    Those that come before one which is not what its codec writes, or too short.
    """
    ends: list[int] = []
    begin = at = 0
    try:
        for start, end, least, most, needed in zip(*blocks.T.tolist(), strict=True):
            if least < 0:  # stored as it is
                data[at : at + most] = source[start:end]
                at += most
            else:
                size = decompress(source[start:end], data[at : at + most])
                if size < least:
                    break
                at += size
            if needed:
                if at - begin < needed:
                    break
                ends.append(at)
                begin = at
    except MalformedDataError:
        pass  # whoever is asked about this batch alone says what is wrong
    return ends


def _moved(table: BatchTable, ends: list[int]) -> BatchTable:
    """Return the first batches of a table, their records behind one another."""
    # As plain numbers: numpy copies rows field by field.
    numbers = table.view(np.int64).reshape(-1, len(_NAMES))[: len(ends)].copy()
    numbers[:, _END] = ends
    numbers[0, _START] = 0
    numbers[1:, _START] = ends[:-1]
    return numbers.view(BATCH_ROW)[:, 0]
