"""How long a plan of many segments takes, and how much memory, without a store.

Pages of a listing are made here instead of fetched, and the time that this takes does
not count. The rest is what a scan does before its first record: pages, checked and
parsed, overlaps, gaps, slices.
"""

import base64
import gc
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

from benchmarks.measuring import (
    Limit,
    Promise,
    Report,
    Sample,
    Scale,
    Unit,
    Work,
    measure,
    show_limits,
    timed,
)
from tieredfs import ObjectInfo, ObjectStore
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.read.reader import TieredReader
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.backends.listing import Listing, Page
from tieredfs.objects.backends.memory import MemoryBackend
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["bench_long_plans", "bench_planning", "measured"]

_COLUMNS: Final = "in columns"
_ROWS: Final = "one by one"
_PAGE: Final = 1000
_SCALE_BYTES_PER_KEY: Final = 1 << 8
"""Bytes of the scale for each key: 131,072 keys at full scale."""
_SCALE: Final = Scale(32 << 20, 3, warm=0)
_PARTITION: Final = TopicIdPartition("orders", 0)
_OFFSETS, _LOG, _TAIL = 10, 1000, 100
_TESTS: Final = Path(__file__).parent.parent
_CODE: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from benchmarks.bench_planning import measured
print(*measured(int(sys.argv[2])))
"""


class _Pages:
    """Listings that are made, not stored.

    Attributes:
        seconds: Of the processor, that making them has taken.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self.seconds = 0.0

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Make one page, as a backend returns it."""
        del timeout
        begun = time.process_time()
        first = at if isinstance(at, int) else 0
        stop = min(first + _PAGE, self._count)
        size = _LOG + _TAIL
        page = Page(
            [
                ObjectInfo(f"{listing.prefix}{_name(number)}", size, "")
                for number in range(first, stop)
            ],
            stop if stop < self._count else None,
        )
        self.seconds += time.process_time() - begun
        return page


def _name(number: int) -> str:
    start = number * _OFFSETS
    segment_id = base64.urlsafe_b64encode(number.to_bytes(16)).decode()[:22]
    return (
        f"{start + _OFFSETS - 1:020d}-{start:020d}-{1_700_000_000_000 + number:020d}-"
        f"{5:010d}-{_LOG:013d}-{_TAIL:010d}-0000-{segment_id}.segment"
    )


class _Listed(SingleObject):
    """Segments whose logs are not there, as a plan does not need them."""

    def is_end_checked(self, metadata: SegmentMetadata) -> bool:
        """Trust the names."""
        del metadata
        return True


class _ListedOneByOne(_Listed):
    """The same, planned from a list of all segments."""

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments; overriding it turns the columns off."""
        return super().list_segments(partition, min_offset)


def _plan(storage: SingleObject) -> ScanPlan:
    reader = TieredReader(storage, SegmentCatalog(storage), _PARTITION)
    return ScanPlan((reader.slices(None, None),), 1 << 20)


def bench_planning(scale: Scale) -> Report:
    """Measure a plan of one long partition, in columns and segment by segment."""
    report = Report("Plans of one partition", Unit.KEYS, (_ROWS,), scale.repetitions)
    count = max(2, scale.size // _SCALE_BYTES_PER_KEY)
    pages = _Pages(count)

    def sample(run: Callable[[], object]) -> Sample:
        gc.collect()
        pages.seconds = 0.0
        found = timed(run)
        return Sample(
            found.cpu - pages.seconds, found.wall - pages.seconds, found.outcome
        )

    with (
        ObjectStore("memory://planned") as store,
        patch.object(MemoryBackend, "page", lambda _, *asked: pages.page(*asked)),
    ):
        works = [
            Work(name, count, partial(_plan_text, storage), sample)
            for name, storage in (
                (_COLUMNS, _Listed(store)),
                (_ROWS, _ListedOneByOne(store)),
            )
        ]
        promises = [Promise(_COLUMNS, 200_000)]
        report.comparisons.append(measure(f"{count:,} keys", works, scale, promises))
    return report


def _plan_text(storage: SingleObject) -> str:
    return repr(_plan(storage))


def bench_long_plans(counts: Sequence[int]) -> list[Limit]:
    """Measure time and memory of plans, each in a fresh process.

    Args:
        counts: Of segments, one for each plan.
    """
    limits = []
    for count in counts:
        done = subprocess.run(  # noqa: S603 - ourselves
            [sys.executable, "-c", _CODE, str(_TESTS), str(count)],
            capture_output=True,
            text=True,
            check=True,
        )
        seconds, held, peak = map(float, done.stdout.split())
        name = f"{count:,} keys"
        limits += [
            Limit(f"{name}: a key", seconds / count * 1e6, 5, "µs"),
            Limit(f"{name}: a segment's memory", held / count, 100, "bytes"),
            Limit(f"{name}: memory at its highest", peak / 1e6, 150, "MB"),
        ]
    return limits


def measured(count: int) -> tuple[float, int, int]:
    """Plan, and return seconds, the bytes that a plan holds, and the highest number."""
    pages = _Pages(count)
    with (
        ObjectStore("memory://planned") as store,
        patch.object(MemoryBackend, "page", lambda _, *asked: pages.page(*asked)),
    ):
        begun = time.process_time()
        plan = _plan(_Listed(store))
        seconds = time.process_time() - begun - pages.seconds
        assert len(plan) == count
        del plan
        gc.collect()
        tracemalloc.start()
        plan = _plan(_Listed(store))
        gc.collect()
        held, highest = tracemalloc.get_traced_memory()
        assert len(plan) == count
    return seconds, held, highest


def test_planning() -> None:
    report = bench_planning(_SCALE)
    report.show()
    assert not report.disagreements()
    show_limits("Long plans", bench_long_plans([100_000, 1_000_000]))
