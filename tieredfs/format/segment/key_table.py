"""The keys of many segments, in columns."""

import base64
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tieredfs.format.segment.key import SegmentFlag, SegmentKey
from tieredfs.model import SegmentId

__all__ = ["KEY_DTYPE", "KeyTable", "RowMask", "key_at", "row_of"]

KeyTable = npt.NDArray[np.void]
"""Rows of ``KEY_DTYPE``."""

RowMask = npt.NDArray[np.bool_]
"""One boolean for each row."""

KEY_DTYPE: Final = np.dtype(
    [
        ("end_offset", "<i8"),
        ("start_offset", "<i8"),
        ("max_timestamp_ms", "<i8"),
        ("epoch", "<i4"),
        ("log_length", "<i8"),
        ("tail_length", "<i8"),
        ("flags", "u1"),
        ("id", "V16"),
    ]
)
"""The fields of a ``SegmentKey``: 61 bytes."""


def key_at(table: KeyTable, row: int) -> SegmentKey:
    """Return one row of a table as a key."""
    end, start, stamp, epoch, log, tail, flags, identity = table[row].item()
    segment_id = SegmentId.from_bytes(identity)
    return SegmentKey(
        end, start, stamp, epoch, log, tail, SegmentFlag(flags), segment_id
    )


def row_of(key: SegmentKey) -> tuple[Any, ...]:
    """Return a key as a row of a table."""
    return (
        key.end_offset,
        key.start_offset,
        key.max_timestamp_ms,
        key.epoch,
        key.log_length,
        key.tail_length,
        int(key.flags),
        base64.urlsafe_b64decode(f"{key.id}=="),
    )
