"""Logs with every offset, several of the same offsets."""

from typing import NamedTuple

import pyarrow as pa

from support.samples import new_store
from tieredfs import LogSegmentData, SegmentMetadata, Tier, open_storage

__all__ = ["RECORDS", "MadeLog", "made_logs"]

RECORDS = 3


class MadeLog(NamedTuple):
    """A segment to be copied."""

    metadata: SegmentMetadata
    data: LogSegmentData
    log: bytes


def made_logs(generation: str, count: int) -> list[MadeLog]:
    """Make segments one after the other; those of another generation differ."""
    storage = open_storage(new_store(), "single-object")
    tier = Tier(storage)
    topic = tier.create_topic("t")
    for number in range(count):
        values = [f"{generation} {number} {n}".encode() for n in range(RECORDS)]
        topic.append(pa.table({"value": values}))
    (partition,) = storage.list_partitions()
    found = []
    for segment in storage.list_segments(partition):
        log = bytes(storage.fetch_log_segment(segment))
        found.append(MadeLog(segment, LogSegmentData(log, {}), log))
    return found
