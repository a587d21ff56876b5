"""The ways in which a segment is given to be stored."""

from collections.abc import Callable
from typing import Final

from tieredfs.model import LogSegmentData, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.segment_log.source import open_log

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
    return storage.copy_log_segment(metadata, data)


def copy_open_log(
    storage: RemoteStorageManager, metadata: SegmentMetadata, data: LogSegmentData
) -> bytes:
    """Copy a segment as ``push`` does, which reads the log in its place."""
    with open_log(data.log, str(metadata)) as log:
        return storage.copy_open_log(metadata, log, data.indexes)


def append_log_segment(
    storage: RemoteStorageManager, metadata: SegmentMetadata, data: LogSegmentData
) -> bytes:
    """Append a segment."""
    return storage.append_log_segment(metadata, data)


COPIES: Final[tuple[Copy, ...]] = (copy_log_segment, copy_open_log)
"""Every rule of copies holds for both; their names are those of the methods."""
