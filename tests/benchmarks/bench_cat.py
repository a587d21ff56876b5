"""How many records a second ``cat`` prints as JSON, from the start of its process.

What it reads is in memory, and what it prints goes nowhere. Times are those of the
processor: of the other process, while it printed.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measuring import (
    Promise,
    Report,
    Sample,
    Scale,
    Unit,
    Work,
    measure,
    timed,
)
from benchmarks.segments import KIB, MIB, Shape, segment
from support.log_directories import source_of, topic_of, write_log
from tieredfs.format.kernel.select import KERNEL_SETTING, Kernel

__all__ = ["bench_cat"]

_SCALE: Final = Scale(128 * MIB, 3)
_SHAPE: Final = Shape(100, 16 * KIB)
_PYTHON: Final = "cat --format jsonl, Python kernel"
_OURS: Final = "cat --format jsonl"
_SCAN: Final = "scan"


def bench_cat(scale: Scale, folder: Path) -> Report:
    """Measure ``cat --format jsonl`` with both kernels, and a scan of the same records.

    Args:
        scale: How much is read.
        folder: Where the log is made.
    """
    log = segment(_SHAPE, scale.size)
    count = sum(batch.count for batch in log.batches)
    logs = write_log(folder, {0: log.data, count: b""}).parent
    topic = topic_of(source_of(logs))

    def scan() -> None:
        assert sum(found.num_rows for found in topic.scan()) == count

    works = [
        Work(_OURS, count, partial(_cat, logs, topic.name), _timed_children),
        Work(
            _PYTHON,
            count,
            partial(_cat, logs, topic.name, Kernel.PYTHON),
            _timed_children,
        ),
        Work(_SCAN, count, scan, timed),
    ]
    promises = [Promise(_OURS, 400e3)]
    return Report(
        f"Printing records: {_SHAPE}",
        Unit.RECORDS,
        (_PYTHON,),
        scale.repetitions,
        comparisons=[measure("a log directory", works, scale, promises)],
    )


def _cat(logs: Path, topic: str, kernel: Kernel = Kernel.COMPILED) -> None:
    """Print all records to nowhere."""
    subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-m", "tieredfs", "cat", logs, topic, "--format", "jsonl"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, KERNEL_SETTING: kernel},
    )


def _timed_children(run: Callable[[], object]) -> Sample:
    """Take the time of the processes that a work starts."""
    before, wall = os.times(), time.perf_counter()
    run()
    wall, after = time.perf_counter() - wall, os.times()
    user = after.children_user - before.children_user
    return Sample(user + after.children_system - before.children_system, wall, None)


def test_cat(tmp_path: Path) -> None:
    bench_cat(_SCALE, tmp_path).show()
