"""How long Spark's driver plans over a tier of many segments, beside its bare listing.

The tier is a directory of files that have their sizes and nothing in them: a plan by
offsets reads no segment. In the second comparison each page of the listing comes after
30 ms, as from a store: so times are those of the clock.
"""

import base64
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final
from unittest.mock import patch

from benchmarks.measuring import (
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    measure,
    timed_by_clock,
)
from tieredfs import ObjectStore
from tieredfs.objects.backends.listing import Listing, Page
from tieredfs.objects.backends.local.backend import LocalBackend
from tieredfs.spark.options import parse_options
from tieredfs.spark.plan import plan_tasks
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["bench_spark_planning"]

_PLAN: Final = "plan of a query"
_LISTING: Final = "its listing alone"
_SCALE_BYTES_PER_KEY: Final = 256
_SCALE: Final = Scale(100_000 * _SCALE_BYTES_PER_KEY, 5)
_PARTITIONS: Final = 100
_OFFSETS, _LOG, _TAIL = 10, 1 << 20, 100
_TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAAAQ"
_PAGE_SECONDS: Final = 0.03


def bench_spark_planning(scale: Scale, folder: Path) -> Report:
    """Measure the plan of a query over all partitions.

    Args:
        scale: How many segments there are.
        folder: Where they are made.
    """
    count = max(2, scale.size // _SCALE_BYTES_PER_KEY)
    partitions = min(_PARTITIONS, count)
    _write(folder, partitions, count // partitions)
    keys = count // partitions * partitions
    report = Report(
        "Plans of Spark queries",
        Unit.KEYS,
        (_LISTING,),
        scale.repetitions,
        times="Times of the clock",
    )
    works = [
        Work(_PLAN, keys, partial(_plan, folder), timed_by_clock),
        Work(_LISTING, keys, partial(_list, folder), timed_by_clock),
    ]
    for name, pages in (
        ("a directory", nullcontext()),
        ("30 ms a page", _slow_pages()),
    ):
        with pages, patch.object(SingleObject, "is_end_checked", lambda *_: True):
            promises = [Promise(_PLAN, 1 / 1.2, _LISTING)]
            found = measure(f"{keys:,} segments, {name}", works, scale, promises)
        report.comparisons.append(found)
    return report


def _write(folder: Path, partitions: int, segments: int) -> None:
    for partition in range(partitions):
        place = folder / "orders" / _TOPIC_ID / str(partition)
        place.mkdir(parents=True)
        for number in range(segments):
            path = place / _name(partition * segments + number, number * _OFFSETS)
            path.touch()
            os.truncate(path, _LOG + _TAIL)


def _name(number: int, start: int) -> str:
    segment_id = base64.urlsafe_b64encode((number + 1).to_bytes(16)).decode()[:22]
    return (
        f"{start + _OFFSETS - 1:020d}-{start:020d}-{1_700_000_000_000 + number:020d}-"
        f"{5:010d}-{_LOG:013d}-{_TAIL:010d}-0000-{segment_id}.segment"
    )


def _plan(folder: Path) -> int:
    """Plan anew, and return of how many segments tasks read."""
    options = parse_options({"path": str(folder), "subscribe": "orders"})
    return sum(
        scan.plan.segments
        for task in plan_tasks(options, ("offset", "value"))
        for scan in task.scans
    )


def _list(folder: Path) -> int:
    with ObjectStore(str(folder)) as store:
        return sum(1 for _ in store.list())


@contextmanager
def _slow_pages() -> Iterator[None]:
    """Let each page of a listing come after some time, and be made only once.

    A store lists on another machine: here that would compete with the plan.
    """
    page, made = LocalBackend.page, dict[Listing, list[Page]]()

    def pages(backend: LocalBackend, listing: Listing, timeout: float) -> list[Page]:
        found = [page(backend, listing, None, timeout)]
        while (at := found[-1].following) is not None:
            found.append(page(backend, listing, at, timeout))
        return found

    def late(
        backend: LocalBackend, listing: Listing, at: object, timeout: float
    ) -> Page:
        if listing not in made:
            made[listing] = pages(backend, listing, timeout)
        time.sleep(_PAGE_SECONDS)
        number = at if isinstance(at, int) else 0
        is_last = number + 1 == len(made[listing])
        entries = made[listing][number].entries
        return Page(entries, None if is_last else number + 1)

    with patch.object(LocalBackend, "page", late):
        yield


def test_spark_planning(tmp_path: Path) -> None:
    report = bench_spark_planning(_SCALE, tmp_path)
    report.show()
    assert not report.disagreements()
