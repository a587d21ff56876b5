"""Logs with every offset, several of the same offsets."""

from collections.abc import Sequence
from dataclasses import replace
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


def made_logs(
    generation: str, count: int, batches: Sequence[int] = (RECORDS,)
) -> list[MadeLog]:
    """Make segments one after the other; those of another generation differ.

    Args:
        generation: Part of each record.
        count: Number of segments.
        batches: Number of records of each batch of a segment.
    """
    storage = open_storage(new_store(), "single-object")
    tier = Tier(storage)
    topic = tier.create_topic("t")
    for number in range(count):
        for batch, records in enumerate(batches):
            names = range(records)
            values = [f"{generation} {number} {batch} {n}".encode() for n in names]
            topic.append(pa.table({"value": values}))
    (partition,) = storage.list_partitions()
    segments = iter(storage.list_segments(partition))
    found = []
    for parts in zip(*[segments] * len(batches), strict=True):
        log = b"".join(storage.fetch_log_segment(part) for part in parts)
        whole = replace(parts[0], end_offset=parts[-1].end_offset, size=None)
        whole = replace(whole, max_timestamp_ms=None)
        found.append(MadeLog(whole, LogSegmentData(log, {}), log))
    return found
