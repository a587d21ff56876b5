"""From the last byte of a segment to its copy in the tier, on local disks.

``push --watch`` runs as a process. A segment is closed when the file of the next one
appears; its copy is there when a listing of the tier has it.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from support.log_directories import log_of, write_log
from tieredfs import NotFoundError, ObjectStore, TopicIdPartition
from tieredfs.storage.layouts.single_object.layout import SingleObject

_ROLLS: Final = 20
_RECORDS: Final = 10_000
_LOOK_SECONDS: Final = 0.002
_PATIENCE: Final = 60.0
_LIMITS: Final = {"reported": 0.5, "looked at": 2.0}
"""Seconds in which each copy has to be there."""

_WITHOUT_REPORTS: Final = """
import importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *a: None if name == "watchfiles" else find(name, *a)
"""


@pytest.mark.parametrize("how", _LIMITS)
def test_time_to_tier(tmp_path: Path, how: str) -> None:
    """Print the seconds from the roll of a segment to its copy."""
    logs, tier = tmp_path / "logs", tmp_path / "tier"
    data = {n * _RECORDS: log_of(n * _RECORDS, _RECORDS) for n in range(_ROLLS + 2)}
    folder = write_log(logs, {0: data[0]})
    (tmp_path / "path").mkdir()
    (tmp_path / "path" / "sitecustomize.py").write_text(
        "" if how == "reported" else _WITHOUT_REPORTS
    )
    script = str(Path(sys.executable).with_name("tieredfs"))
    process = subprocess.Popen(  # noqa: S603 - our own script
        [script, "push", str(logs), str(tier), "--watch"],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "path")},
        stdout=subprocess.DEVNULL,
    )
    storage = SingleObject(ObjectStore(str(tier)))
    try:
        seconds = []
        for start in list(data)[1:]:
            # As a broker rolls: the file of the next segment is empty at first.
            (folder / f"{start:020d}.log").touch()
            begun = time.perf_counter()
            _wait_for(storage, start, process)
            seconds.append(time.perf_counter() - begun)
            (folder / f"{start:020d}.log").write_bytes(data[start])
            time.sleep(0.3)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(_PATIENCE)
    measured = seconds[1:]  # before the first one it has started
    print(
        f"\nfolders {how:10}: median {statistics.median(measured):.3f} s, longest "
        f"{max(measured):.3f} s of {len(measured)} segments of "
        f"{len(data[0]) / 1e6:.1f} MB"
    )
    assert max(measured) <= _LIMITS[how]


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
