"""Every call that reads, to be made where something is wrong."""

from dataclasses import replace

from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.testing.case import Asked

__all__ = ["every_read"]


def every_read(storage: RemoteStorageManager, listed: SegmentMetadata) -> Asked:
    """Return every call that reads, by its name."""
    partition = listed.partition
    return {
        "list_partitions": storage.list_partitions,
        "list_segments": lambda: storage.list_segments(partition),
        "seek": lambda: storage.seek(partition, listed.start_offset),
        "survey": lambda: list(storage.survey(partition)),
        "describe": lambda: storage.describe(replace(listed, leader_epochs=None)),
        "fetch_log_segment": lambda: storage.fetch_log_segment(listed, 0, 1),
        "fetch_index": lambda: storage.fetch_index(listed, IndexType.OFFSET),
        "fetch_indexes": lambda: storage.fetch_indexes(listed, [IndexType.TIMESTAMP]),
        "fetch_all_indexes": lambda: storage.fetch_all_indexes(listed),
        "stream_log": lambda: list(storage.stream_log(listed)),
        "is_current": lambda: storage.is_current(listed),
        "is_compacted": lambda: storage.is_compacted(partition),
        "scrub": lambda: list(storage.scrub(partition)),
    }
