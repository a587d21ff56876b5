"""What is left of a log behind a batch whose length is wrong."""

from typing import Final

import numpy as np

from tieredfs.format.batch.header import CRC_END, HEADER_SIZE
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.checksum import crc32c

__all__ = ["holds_batch"]

_SIZE_AT: Final = 8
_SIZE_END: Final = 12
_MAGIC_AT: Final = 16
_CRC_AT: Final = 17
_MAGIC: Final = 2


def holds_batch(data: Buffer, first_offset: int, last_offset: int) -> bool:
    """Return whether a whole batch of version 2 is somewhere in some bytes of a log.

    Its checksum has to be right. The bytes may begin with it, or with a batch whose
    length alone is wrong.

    Args:
        data: The bytes.
        first_offset: Smallest offset that the batch can begin with.
        last_offset: Largest.
    """
    view = byte_view(data)
    found = np.frombuffer(view, np.uint8)
    if len(found) < HEADER_SIZE:
        return False
    if found[_MAGIC_AT] == _MAGIC and _is_right(view, len(view)):
        return True
    starts = np.flatnonzero(found[_MAGIC_AT : len(found) - HEADER_SIZE + 17] == _MAGIC)
    sizes = _numbers(found, starts + _SIZE_AT, 4) + _SIZE_END
    fits = (sizes >= HEADER_SIZE) & (sizes <= len(found) - starts)
    starts, sizes = starts[fits], sizes[fits]
    offsets = _numbers(found, starts, 8)
    known = (offsets >= first_offset) & (offsets <= last_offset)
    return any(
        _is_right(view[start:], size)
        for start, size in zip(
            starts[known].tolist(), sizes[known].tolist(), strict=True
        )
    )


def _numbers(
    data: np.ndarray[tuple[int], np.dtype[np.uint8]],
    starts: np.ndarray[tuple[int], np.dtype[np.int64]],
    width: int,
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return the big-endian numbers of some bytes that begin at some positions."""
    digits = data[starts[:, None] + np.arange(width)].astype(np.uint64)
    shifts = np.arange(width - 1, -1, -1, dtype=np.uint64) * np.uint64(8)
    numbers: np.ndarray[tuple[int], np.dtype[np.int64]]
    numbers = (digits << shifts).sum(axis=1, dtype=np.uint64).astype(np.int64)
    return numbers


def _is_right(data: memoryview, size: int) -> bool:
    """Return whether the checksum of a batch of ``size`` bytes is right."""
    stored = int.from_bytes(data[_CRC_AT:CRC_END])
    return crc32c(data[CRC_END:size]) == stored
