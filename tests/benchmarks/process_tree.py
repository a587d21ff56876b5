"""The processor's time of all processes that this one has started, and theirs."""

import os
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.measuring import Sample

__all__ = ["timed_tree"]


def timed_tree(run: Callable[[], object]) -> Sample:
    """Run a work once that other processes do: their time is what counts.

    Where the system has no ``/proc`` it is the clock's.
    """
    wall, cpu = time.perf_counter(), _seconds()
    outcome = run()
    wall, cpu = time.perf_counter() - wall, _seconds() - cpu
    return Sample(cpu or wall, wall, outcome)


def _seconds() -> float:
    """Return the time of the descendants, with that of ended ones they waited for."""
    children: dict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            # The name, in parentheses, may have spaces.
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            children[int(fields[1])].append(int(folder.name))
            ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    found, left = 0, [*children[os.getpid()]]
    while left:
        process = left.pop()
        found += ticks[process]
        left += children[process]
    return found / os.sysconf("SC_CLK_TCK") if found else 0.0
