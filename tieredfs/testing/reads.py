"""Every call that reads, to be made where something is wrong."""

from collections.abc import Callable
from dataclasses import replace

from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["Asked", "every_read"]

Asked = dict[str, Callable[[], object]]
"""Calls to make, by their descriptions."""


def every_read(storage: RemoteStorageManager, listed: SegmentMetadata) -> Asked:
    """Return every call that reads, by its name."""
    partition, start = listed.partition, listed.start_offset
    return {
        "list_partitions": storage.list_partitions,
        "list_partitions of a topic": lambda: storage.list_partitions(partition.topic),
        "list_segments": lambda: storage.list_segments(partition),
        "list_segments from an offset": lambda: storage.list_segments(partition, start),
        "list_segments_lazily": lambda: [*storage.list_segments_lazily(partition)],
        "seek": lambda: storage.seek(partition, start),
        "survey": lambda: list(storage.survey(partition)),
        "stored_sizes": lambda: storage.stored_sizes(partition),
        "describe": lambda: storage.describe(replace(listed, leader_epochs=None)),
        "fetch_log_segment": lambda: storage.fetch_log_segment(listed, 0, 1),
        "fetch_log_ahead": lambda: bytes(storage.fetch_log_ahead(listed, 0, 1))[:1],
        "stream_log": lambda: b"".join(storage.stream_log(listed)),
        "fetch_index": lambda: storage.fetch_index(listed, IndexType.OFFSET),
        "fetch_indexes": lambda: storage.fetch_indexes(listed, [IndexType.TIMESTAMP]),
        "fetch_all_indexes": lambda: storage.fetch_all_indexes(listed),
        "fetch_producers_before": lambda: storage.fetch_producers_before(listed),
        "is_current": lambda: storage.is_current(listed),
        "is_compacted": lambda: storage.is_compacted(partition),
        "scrub": lambda: list(storage.scrub(partition)),
        "leftover_partitions": storage.leftover_partitions,
    }
