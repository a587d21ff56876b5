"""Decompress many small batches at a time, block by block, into one buffer.

The kernel finds the blocks that a codec's library has to decompress and the maximum
size of each block's output. The only work per batch in Python is then the call of that
library: for a batch of a few KiB the call takes hardly longer than a few Python
operations. Batches that are compressed in an unusual way are left to ``codecs``, and so
are all batches when the kernel is not available.
"""

from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tieredfs.format.batch.header import CODEC_MASK
from tieredfs.format.batch.table import BATCH_ROW, BatchTable, LogBatches
from tieredfs.format.compression.bounded_output import MalformedDataError, allocate
from tieredfs.format.compression.codec import Codec
from tieredfs.format.compression.compress import MAX_DECOMPRESSED
from tieredfs.format.compression.registry import block_decompressor
from tieredfs.format.kernel.select import Kernel, chosen_kernel

__all__ = ["decompress_blocks"]

_MAX_BLOCKS: Final = 1024
_MAX_STORED_BYTES: Final = 256 << 10
"""Compressed bytes of the batches that are decompressed together: their output is still
in a processor's cache when it is decoded."""

_MAX_OUTPUT_BYTES: Final = 2 << 20
"""Decompressed bytes of several batches that are decompressed together."""

_IN_PLACE: Final = (Codec.SNAPPY, Codec.LZ4)
"""Codecs that write straight into the output buffer; the output of others is copied."""

_CODECS: Final = tuple(Codec)
_NAMES: Final = list(BATCH_ROW.names or ())
_START, _END = _NAMES.index("start"), _NAMES.index("end")


def decompress_blocks(
    batches: LogBatches, first: int, limit: int = MAX_DECOMPRESSED
) -> LogBatches | None:
    """Decompress the next batches, as many as are decompressed together.

    Args:
        batches: The batches.
        first: Row of the first batch to decompress.
        limit: Maximum decompressed size of one batch, in bytes.

    Returns:
        The decompressed batches, their records in one buffer. None when the first one
        has to be decompressed on its own: its checksum may be wrong, its data may have
        a form that only its codec's library recognises, or its output may exceed the
        limit.

    Raises:
        InvalidArgumentError: The requested kernel is not available.
    """
    table = batches.table[first:]
    codec = _CODECS[int(table["attributes"][0]) & CODEC_MASK]
    if chosen_kernel() is not Kernel.COMPILED:
        return None
    decompress = block_decompressor(codec)
    if decompress is None:
        return None
    if codec not in _IN_PLACE:
        stored = table["end"][0] - table["start"][0]
        if stored > _MAX_STORED_BYTES:
            return None
    # It may be missing.
    from tieredfs.format.kernel import _kernel  # noqa: PLC0415

    blocks = np.empty((_MAX_BLOCKS, _kernel.BLOCK_SIZE), np.int64)
    rows, count, room = _kernel.scan_packed(
        batches.buffer,
        table,
        blocks,
        _MAX_STORED_BYTES,
        _MAX_OUTPUT_BYTES,
        is_checked=batches.is_checked,
    )
    if not rows or room > limit:  # several batches have at most _MAX_OUTPUT_BYTES
        return None
    data = allocate(room)
    ends = _decompressed(batches.buffer, blocks[:count], data, decompress)
    if not ends:
        return None
    return batches.with_records(_moved(table, ends), data.toreadonly())


def _decompressed(
    source: memoryview,
    blocks: npt.NDArray[np.int64],
    data: memoryview,
    decompress: Callable[[memoryview, memoryview], int],
) -> list[int]:
    """Decompress blocks one after another; return the end of each batch's output.

    Stops before a batch that is malformed or whose output is too short.
    """
    ends: list[int] = []
    begin = at = 0
    try:
        for start, end, lower, upper, needed in zip(*blocks.T.tolist(), strict=True):
            if lower < 0:  # stored uncompressed
                data[at : at + upper] = source[start:end]
                at += upper
            else:
                size = decompress(source[start:end], data[at : at + upper])
                if size < lower:
                    break
                at += size
            if needed:
                if at - begin < needed:
                    break
                ends.append(at)
                begin = at
    except MalformedDataError:
        pass  # decompressing this batch on its own raises the error
    return ends


def _moved(table: BatchTable, ends: list[int]) -> BatchTable:
    """Return the first rows of a table, their records laid out one after another."""
    # As plain integers: numpy copies structured rows field by field.
    numbers = table.view(np.int64).reshape(-1, len(_NAMES))[: len(ends)].copy()
    numbers[:, _END] = ends
    numbers[0, _START] = 0
    numbers[1:, _START] = ends[:-1]
    return numbers.view(BATCH_ROW)[:, 0]
