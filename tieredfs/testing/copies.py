"""The ways in which a segment is given to be stored."""

from collections.abc import Callable
from typing import Final, cast

from tieredfs.model import LogSegmentData, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.source import open_log
from tieredfs.testing.requirement import require

__all__ = [
    "COPIES",
    "Copy",
    "append_log_segment",
    "copy_log_segment",
    "copy_open_log",
]

Copy = Callable[[RemoteStorageManager, SegmentMetadata, LogSegmentData], bytes]
"""Copies a segment to a storage, and returns the custom metadata."""


def copy_log_segment(
    storage: RemoteStorageManager, metadata: SegmentMetadata, data: LogSegmentData
) -> bytes:
    """Copy a segment as a broker does."""
    return _as_bytes("copy_log_segment", storage.copy_log_segment(metadata, data))


def copy_open_log(
    storage: RemoteStorageManager, metadata: SegmentMetadata, data: LogSegmentData
) -> bytes:
    """Copy a segment as ``push`` does, which reads the log in its place."""
    with open_log(data.log, str(metadata)) as log:
        custom = storage.copy_open_log(metadata, log, data.indexes)
    return _as_bytes("copy_open_log", custom)


def append_log_segment(
    storage: RemoteStorageManager, metadata: SegmentMetadata, data: LogSegmentData
) -> bytes:
    """Append a segment."""
    return storage.append_log_segment(metadata, data)


def _as_bytes(method: str, custom: object) -> bytes:
    require(isinstance(custom, bytes), f"{method} returned {custom!r}, not bytes.")
    return cast("bytes", custom)


COPIES: Final[tuple[Copy, ...]] = (copy_log_segment, copy_open_log)
"""Every rule of copies holds for both; their names are those of the methods."""
