"""What the kit adds to a start of pytest that does not use it."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measuring import (
    FULL,
    Promise,
    Report,
    Sample,
    Scale,
    Unit,
    Work,
    measure,
)

__all__ = ["bench_pytest_start"]

_KIT: Final = "with the kit"
_HYPOTHESIS: Final = "with hypothesis alone"
_BARE: Final = "without"
_MAX: Final = 0.1  # seconds that a start may take more with the kit
_NOT_OF_IT: Final = ("randomly", "timeout", "xdist", "xdist.looponfail")
"""What else the project's environment brings, and an author's need not have."""

_ENVIRONMENT: Final = {
    name: value
    for name, value in os.environ.items()
    if name != "PYTHONDONTWRITEBYTECODE"  # without bytecode each start compiles anew
}

_CODE: Final = """
import sys, time
wall = time.perf_counter()
import pytest
ended = pytest.main(sys.argv[1:])
print()
print(int(ended), time.process_time(), time.perf_counter() - wall)
"""


def bench_pytest_start(scale: Scale, folder: Path) -> Report:
    """Measure starts of pytest, each in a fresh process, for one test."""
    (folder / "test_nothing.py").write_text("def test_nothing():\n    pass\n")
    more = replace(scale, repetitions=3 * scale.repetitions)  # for a small difference
    report = Report("pytest", Unit.STARTS, (_BARE,), more.repetitions)
    works = [
        Work(_KIT, 1, partial(_start, folder), _read),
        Work(_HYPOTHESIS, 1, partial(_start, folder, "tieredfs"), _read),
        Work(_BARE, 1, partial(_start, folder, "tieredfs", "hypothesispytest"), _read),
    ]
    promises = [
        Promise(_KIT, 0, _BARE, more=_MAX),
        Promise(_KIT, 0, _HYPOTHESIS, more=_MAX / 10),
    ]
    report.comparisons.append(measure("one empty test", works, more, promises))
    return report


def _start(folder: Path, *without: str) -> str:
    left_out = [f"-pno:{name}" for name in (*_NOT_OF_IT, *without)]
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", _CODE, "-q", "-pno:cacheprovider", *left_out],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
        env=_ENVIRONMENT,
    )
    return done.stdout.splitlines()[-1]


def _read(run: Callable[[], object]) -> Sample:
    """Take the times that the other process says."""
    ended, cpu, wall = str(run()).split()
    return Sample(float(cpu), float(wall), ended)


def test_starting_pytest(tmp_path: Path) -> None:
    report = bench_pytest_start(FULL, tmp_path)
    assert report.disagreements() == []
    report.show()
