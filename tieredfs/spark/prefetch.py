"""Begin to read what comes next in a task while Spark takes what is read."""

import math
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future
from contextlib import closing
from itertools import islice
from typing import Final, NamedTuple

import pyarrow as pa

from tieredfs.log.read.scan import Scan
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.objects.concurrency.waiting import result_of

__all__ = ["read_in_turn"]

_MAX_BEGUN_SCANS: Final = 4
"""How many of the next scans fetch their first bytes while one scan is read."""


def read_in_turn(scans: Iterable[Scan]) -> Iterator[tuple[Scan, pa.RecordBatch]]:
    """Yield the batches of scans, one scan after the other, each batch with its scan.

    A scan of a distant store downloads ahead by itself, but of one partition at a time:
    while it is read, the next scans fetch theirs, and make a first batch.

    Args:
        scans: What to read; each is taken shortly before it begins.

    Raises:
        TieredFSError: A scan raised it, after the batches before.
    """
    threads = DaemonExecutor(_MAX_BEGUN_SCANS + 1, "tieredfs-task")
    left, begun = iter(scans), deque[_BegunScan]()
    try:
        while True:
            room = _MAX_BEGUN_SCANS + 1 - len(begun)
            begun += (_begin(scan, threads) for scan in islice(left, room))
            if not begun:
                return
            scan, batches, coming = begun.popleft()
            with closing(batches):
                first = result_of(coming, math.inf)
                if first is not None:
                    yield scan, first
                    yield from ((scan, batch) for batch in batches)
    finally:
        for one in begun:
            one.first.cancel()
            one.first.add_done_callback(_closing(one.batches))


class _BegunScan(NamedTuple):
    """A scan whose first batch is being made; None if it has none."""

    scan: Scan
    batches: Generator[pa.RecordBatch]
    first: Future[pa.RecordBatch | None]


def _begin(scan: Scan, threads: DaemonExecutor) -> _BegunScan:
    batches = iter(scan)
    return _BegunScan(scan, batches, threads.submit(next, batches, None))


def _closing(batches: Generator[pa.RecordBatch]) -> Callable[[object], None]:
    return lambda _: batches.close()
