"""Tasks: what is read together, in one go, by one executor."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, pairwise
from typing import Final

import pyarrow as pa

from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.offset_cut import cut_slices, locate_edges
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.scan import Scan
from tieredfs.spark.prefetch import read_in_turn

__all__ = ["TASK_BYTES", "Task", "make_tasks"]

TASK_BYTES: Final = 128 << 20
"""Stored bytes of a task: it costs 60-120 ms before it has read anything."""


@dataclass(frozen=True, slots=True)
class Task:
    """What one task reads, planned from listings.

    Attributes:
        scans: Scans, one after the other; where one begins inside a segment is looked
            up when it is read.
    """

    scans: tuple[Scan, ...]

    @property
    def size(self) -> int:
        """Stored bytes of the segments of which it reads at least a part."""
        return sum(scan.plan.size for scan in self.scans)

    def read(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield batches of records, each with its topic.

        Raises:
            CorruptDataError: The stored data is corrupt.
            NotFoundError: A segment was deleted since the task was planned, and not
                replaced; where gaps are skipped, all of them were.
            StorageUnavailableError: The store failed in all attempts of its policy.
            DeadlineExceededError: The store did not answer in time.
        """
        if all(scan.storage.store.is_local for scan in self.scans):
            # A thread costs more there than it saves.
            for scan in self.scans:
                for batch in _located(scan):
                    yield scan.topic, batch
            return
        parts = (part for scan in self.scans for part in _parts(_located(scan)))
        for scan, batch in read_in_turn(parts):
            yield scan.topic, batch


def make_tasks(scans: Iterable[Scan], target: int = TASK_BYTES) -> list[Task]:
    """Make tasks of about the same size of scans, which keep their order.

    Args:
        scans: What is to be read.
        target: Stored bytes of a task. Neighbours are bundled up to so many, and a
            segment that has more is cut at offsets.
    """
    bundles: list[list[Scan]] = []
    size = 0  # of the last bundle
    for part in chain.from_iterable(scan.split(target) for scan in scans):
        part_size = part.plan.size
        if bundles and size + part_size <= target:
            bundles[-1].append(part)
            size += part_size
        else:
            bundles += ([piece] for piece in _pieces(part, target))
            size = bundles[-1][0].plan.size
    return [Task(tuple(bundle)) for bundle in bundles]


def _pieces(scan: Scan, target: int) -> list[Scan]:
    """Cut a scan of one large segment into scans of its offsets in turn."""
    if scan.plan.size <= target:
        return [scan]
    (slices,) = scan.plan.partitions
    (part,) = slices
    offsets = part.end_offset - part.start_offset
    of_all = end_of(part.segment) - part.segment.start_offset
    parts = min(-(-part.size * offsets // (of_all * target)), offsets)
    bounds = [part.start_offset + offsets * n // parts for n in range(parts + 1)]
    return [
        _with_partitions(scan, (cut_slices(slices, start, end),))
        for start, end in pairwise(bounds)
    ]


def _located(scan: Scan) -> Scan:
    """Look up where the slices of a scan begin and end, a few at a time."""
    locate = partial(locate_edges, scan.storage, skip_gaps=scan.on_gap == "skip")
    calls = SegmentCatalog(scan.storage).calls
    return _with_partitions(scan, calls.map(locate, scan.plan.partitions))


def _parts(scan: Scan) -> Iterator[Scan]:
    """Yield a scan of each partition."""
    for slices in scan.plan.partitions:
        yield _with_partitions(scan, (slices,))


def _with_partitions(scan: Scan, partitions: Iterable[Sequence[SegmentSlice]]) -> Scan:
    return replace(scan, plan=ScanPlan(tuple(partitions), scan.plan.fetch_size))
