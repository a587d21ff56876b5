"""How long ``import tieredfs`` takes when pyarrow is there, beside pyarrow itself."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
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

__all__ = ["bench_import"]

_OURS: Final = "tieredfs, after pyarrow"
_PYARROW: Final = "pyarrow"
_MAX: Final = 0.3  # seconds that tieredfs may take more than pyarrow
_CODE: Final = """
import time
{before}
cpu, wall = time.process_time(), time.perf_counter()
import {name}
print(time.process_time() - cpu, time.perf_counter() - wall)
"""


def bench_import(scale: Scale) -> Report:
    """Measure imports, each in a fresh process."""
    report = Report("Import", Unit.IMPORTS, (_PYARROW,), scale.repetitions)
    works = [
        Work(_OURS, 1, partial(_import, "tieredfs", "import pyarrow"), _read),
        Work(_PYARROW, 1, partial(_import, "pyarrow"), _read),
        Work("aiokafka", 1, partial(_import, "aiokafka"), _read),
    ]
    promises = [Promise(_OURS, 1 / _MAX)]
    report.comparisons.append(measure("fresh process", works, scale, promises))
    return report


def _import(name: str, before: str = "") -> str:
    code = _CODE.format(name=name, before=before)
    done = subprocess.run(  # noqa: S603 - ourselves
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout


def _read(run: Callable[[], object]) -> Sample:
    """Take the times that the other process says."""
    cpu, wall = str(run()).split()
    return Sample(float(cpu), float(wall), None)


def test_importing() -> None:
    bench_import(FULL).show()
