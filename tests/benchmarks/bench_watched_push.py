"""From the last byte of a segment to its copy in the tier, on local disks.

``push --watch`` runs as a process. A segment is closed when the file of the next one
appears; its copy is there when a listing of the tier has it.
"""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

import pytest

from support.log_directories import log_of, write_log
from tieredfs import NotFoundError, ObjectStore, TopicIdPartition
from tieredfs.storage.layouts.single_object.layout import SingleObject

__all__ = ["LIMITS", "Delays", "bench_time_to_tier"]

_LOOK_SECONDS: Final = 0.002
_PATIENCE: Final = 60.0
_PAUSE_SECONDS: Final = 0.3
LIMITS: Final = {"reported": 0.5, "looked at": 2.0}
"""Seconds in which each copy is to be there."""

_WITHOUT_REPORTS: Final = """
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *a: None if name == "watchfiles" else find(name, *a)
"""


@dataclass(frozen=True, slots=True)
class Delays:
    """How soon segments were in the tier.

    Attributes:
        how: How the process notices that a folder has changed.
        size: Bytes of each segment.
        seconds: From the roll of each to its copy.
    """

    how: str
    size: int
    seconds: tuple[float, ...]

    def __str__(self) -> str:
        """Write one line."""
        longest, limit = max(self.seconds), LIMITS[self.how]
        kept = "yes" if longest <= limit else "NO"
        return (
            f"folders {self.how:10} {len(self.seconds):4} segments of "
            f"{self.size / 1e6:.1f} MB: median {median(self.seconds):.3f} s, longest "
            f"{longest:.3f} s   promised <= {limit} s: {kept}"
        )


def bench_time_to_tier(folder: Path, how: str, rolls: int, records: int) -> Delays:
    """Measure the time from the roll of a segment to its copy.

    Args:
        folder: Where log directory and tier are made.
        how: One of ``LIMITS``.
        rolls: Number of segments.
        records: Number of records in each.
    """
    logs, tier = folder / "logs", folder / "tier"
    data = {n * records: log_of(n * records, records) for n in range(rolls + 2)}
    partition = write_log(logs, {0: data[0]})
    (folder / "path").mkdir()
    (folder / "path" / "sitecustomize.py").write_text(
        "" if how == "reported" else _WITHOUT_REPORTS
    )
    script = str(Path(sys.executable).with_name("tieredfs"))
    process = subprocess.Popen(  # noqa: S603 - our own script
        [script, "push", str(logs), str(tier), "--watch"],
        env={**os.environ, "PYTHONPATH": str(folder / "path")},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    storage = SingleObject(ObjectStore(str(tier)))
    seconds: list[float] = []
    try:
        for start in list(data)[1:]:
            # As a broker rolls: the file of the next segment is empty at first.
            (partition / f"{start:020d}.log").touch()
            begun = time.perf_counter()
            _wait_for(storage, start, process)
            seconds.append(time.perf_counter() - begun)
            (partition / f"{start:020d}.log").write_bytes(data[start])
            time.sleep(_PAUSE_SECONDS)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE)
    # Before the first one the process has started.
    return Delays(how, len(data[0]), tuple(seconds[1:]))


def _wait_for(
    storage: SingleObject, end: int, process: subprocess.Popen[bytes]
) -> None:
    """Wait until the tier ends at an offset."""
    deadline = time.monotonic() + _PATIENCE
    while not _ends_at(storage, end):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(_LOOK_SECONDS)


def _ends_at(storage: SingleObject, end: int) -> bool:
    try:
        partitions: list[TopicIdPartition] = storage.list_partitions()
        return any(
            one.end_offset == end - 1
            for partition in partitions
            for one in storage.list_segments(partition)
        )
    except NotFoundError:
        return False


@pytest.mark.parametrize("how", LIMITS)
def test_time_to_tier(tmp_path: Path, how: str) -> None:
    print(f"\n{bench_time_to_tier(tmp_path, how, rolls=20, records=10_000)}")
