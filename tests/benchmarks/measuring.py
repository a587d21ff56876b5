"""Works done in turns in one process, and their speeds side by side in one table.

Speeds of a shared machine say little; ratios of what ran in turns do. Times are those
of the processor, all threads of the process together: where several work, a speed is
that of one core, and the row is marked. Nothing here fails because a machine is slow.
"""

import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from importlib.metadata import version
from typing import Final

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

__all__ = [
    "FULL",
    "LONG",
    "SMOKE",
    "Comparison",
    "Figures",
    "Limit",
    "Promise",
    "Report",
    "Sample",
    "Scale",
    "Unit",
    "Work",
    "copying",
    "measure",
    "one_core",
    "show_limits",
    "timed",
    "timed_by_clock",
]

_WIDTH: Final = 140
_PACKAGES: Final = ("tieredfs", "numpy", "pyarrow", "aiokafka", "kafka-python")
_THREADS: Final = 1.2
"""A work that takes this much more of the processor than of the clock has threads."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much a benchmark does.

    Attributes:
        size: About so many bytes are worked on, uncompressed.
        repetitions: How often each work runs and is measured.
        warm: How often each runs before.
    """

    size: int
    repetitions: int
    warm: int = 1


FULL: Final = Scale(32 << 20, 7)
LONG: Final = Scale(256 << 20, 5)
"""As much as a segment has: a processor takes some milliseconds to find its speed."""

SMOKE: Final = Scale(1, 1, warm=0)
"""As little as there is: whether all works still do the same, not how fast."""


class Unit(Enum):
    """What is counted in a second."""

    MEGABYTES = ("MB/s", 1e6)
    LOOKUPS = ("lookups/s", 1)
    CALLS = ("calls/s", 1)
    KEYS = ("keys/s", 1)
    RECORDS = ("records/s", 1)
    IMPORTS = ("imports/s", 1)
    STARTS = ("starts/s", 1)

    def rate(self, speed: float) -> str:
        """Write a speed in bytes, or in whatever else is counted, a second."""
        amount = speed / self.value[1]
        return f"{amount:,.0f}" if amount >= 100 else f"{amount:.1f}"


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of a work: seconds of the processor and of the clock, and what came."""

    cpu: float
    wall: float
    outcome: object


def timed(run: Callable[[], object]) -> Sample:
    """Run a work once in this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = run()
    return Sample(time.process_time() - cpu, time.perf_counter() - wall, outcome)


def timed_by_clock(run: Callable[[], object]) -> Sample:
    """Run a work once that waits for other processes: their time counts as well."""
    sample = timed(run)
    return Sample(sample.wall, sample.wall, sample.outcome)


@dataclass(frozen=True, slots=True)
class Work:
    """Something that is measured.

    Attributes:
        name: What its row is called.
        amount: What one run works through: bytes, or lookups.
        run: Does it once. What it returns is compared with what the others return;
            None compares with everything, as a limit does that only touches the bytes.
        sample: Runs it and takes the time.
    """

    name: str
    amount: int
    run: Callable[[], object]
    sample: Callable[[Callable[[], object]], Sample] = timed


@dataclass(frozen=True, slots=True)
class Promise:
    """How fast a work is to be.

    Attributes:
        work: Its name.
        least: The least speed: a part of another's, or an amount a second.
        of: The other work; None for an amount a second.
        more: Seconds that each of an amount may take longer than with the other work,
            in place of a part of its speed; None for that.
    """

    work: str
    least: float
    of: str | None = None
    more: float | None = None


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured of one work.

    Attributes:
        name: The work's name.
        speed: The amount of a run by the median of its seconds.
        seconds: That median.
        spread: From the first to the third quartile, as a part of the median.
        threads: Seconds of the processor by seconds of the clock.
        outcomes: What its runs returned, each once.
    """

    name: str
    speed: float
    seconds: float
    spread: float
    threads: float
    outcomes: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Works on the same data, measured together.

    Attributes:
        name: What the data is.
        figures: One for each work.
        promises: What was promised of them.
    """

    name: str
    figures: tuple[Figures, ...]
    promises: tuple[Promise, ...] = ()

    def disagreements(self) -> list[str]:
        """Name the works that did not give what the first one gave."""
        outcomes = {
            figure.name: found
            for figure in self.figures
            if (found := tuple(x for x in figure.outcomes if x is not None))
        }
        expected = next(iter(outcomes.values()), ())
        return [
            f"{self.name}: {name} gave {found}, not {expected}"
            for name, found in outcomes.items()
            if found != expected
        ]

    def speed(self, name: str) -> float:
        """Return the speed of a work."""
        return next(figure.speed for figure in self.figures if figure.name == name)

    def kept(self, name: str, unit: Unit) -> str:
        """Say of each promise about a work whether it was kept, and by how much."""
        return "\n".join(
            self._said(promise, unit)
            for promise in self.promises
            if promise.work == name
        )

    def _said(self, promise: Promise, unit: Unit) -> str:
        speed = self.speed(promise.work)
        if promise.of is not None and promise.more is not None:
            added = 1 / speed - 1 / self.speed(promise.of)
            each, name = (1e3, "ms") if promise.more >= 1e-3 else (1e6, "µs")
            said = f"≤ {promise.more * each:.0f} {name} more: {added * each:.1f}"
            return f"{said} {'yes' if added <= promise.more else 'NO'}"
        if promise.of is None:
            said = f"≥ {unit.rate(promise.least)} {unit.value[0]}: {unit.rate(speed)}"
        else:
            speed /= self.speed(promise.of)
            said = f"≥ {promise.least:.3g}× {promise.of}: {speed:.3g}"
        return f"{said} {'yes' if speed >= promise.least else 'NO'}"


@dataclass(frozen=True, slots=True)
class Limit:
    """A figure that is to be no larger than another.

    Attributes:
        name: What was measured.
        found: How much it was.
        most: How much it may be.
        unit: Of both.
    """

    name: str
    found: float
    most: float
    unit: str


@dataclass(frozen=True, slots=True)
class Report:
    """A benchmark's comparisons, which share their columns.

    Attributes:
        title: What was measured.
        unit: Of the speeds.
        against: Works whose speed each other is divided by, a column each.
        comparisons: One for each kind of data.
        repetitions: How often each work ran.
        times: Which times were taken.
    """

    title: str
    unit: Unit
    against: tuple[str, ...]
    repetitions: int
    times: str = "CPU time"
    comparisons: list[Comparison] = field(default_factory=list)

    def disagreements(self) -> list[str]:
        """Name what did not give the same as the first work on the same data."""
        return [found for each in self.comparisons for found in each.disagreements()]

    def table(self) -> Table:
        """Lay it out, a row for each work."""
        table = Table(
            title=self.title,
            title_justify="left",
            caption=(
                f"{self.times}, medians of {self.repetitions} runs in turns; ± is the "
                "quartiles' distance; * several threads, their times added up."
            ),
            caption_justify="left",
            box=box.SIMPLE_HEAD,
        )
        table.add_column("", no_wrap=True)
        for heading in (self.unit.value[0], "ms", "±"):
            table.add_column(heading, justify="right")
        for name in self.against:
            table.add_column(f"÷ {name}", justify="right")
        table.add_column("promised")
        for number, comparison in enumerate(self.comparisons):
            if number:
                table.add_row()
            table.add_row(f"[bold]{comparison.name}[/]")
            for figure in comparison.figures:
                table.add_row(*self._cells(comparison, figure))
        return table

    def show(self) -> None:
        """Print it, and what it was measured on."""
        print()
        Console(width=_WIDTH, highlight=False).print(self.table())
        print(f"  {_machine()}")

    def _cells(self, comparison: Comparison, figure: Figures) -> Iterable[str]:
        yield figure.name + " *" * (figure.threads > _THREADS)
        yield self.unit.rate(figure.speed)
        yield f"{figure.seconds * 1e3:.2f}"
        yield f"{figure.spread:.0%}"
        for name in self.against:
            yield f"{figure.speed / comparison.speed(name):.3g}"
        yield comparison.kept(figure.name, self.unit)


def show_limits(title: str, limits: Iterable[Limit]) -> None:
    """Print figures beside what they may be."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for heading in ("", "found", "at most", ""):
        table.add_column(heading, justify="left" if not heading else "right")
    for limit in limits:
        table.add_row(
            limit.name,
            f"{limit.found:,.2f} {limit.unit}",
            f"{limit.most:,.2f} {limit.unit}",
            "yes" if limit.found <= limit.most else "NO",
        )
    Console(width=100, highlight=False).print(table)


@contextmanager
def one_core() -> Iterator[None]:
    """Leave this process and its children one core, where the system can."""
    if not hasattr(os, "sched_setaffinity"):  # not on macOS
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def copying(data: bytes) -> Callable[[], None]:
    """Return the limit of whatever gives bytes: a copy between two touched arrays."""
    source = np.frombuffer(data, np.uint8)
    return partial(np.copyto, np.zeros_like(source) + 1, source)


def measure(
    name: str, works: Sequence[Work], scale: Scale, promises: Sequence[Promise] = ()
) -> Comparison:
    """Run works in turns and compare them."""
    for _ in range(scale.warm):
        for work in works:
            work.sample(work.run)
    rounds = [
        [work.sample(work.run) for work in works] for _ in range(scale.repetitions)
    ]
    columns = zip(works, zip(*rounds, strict=True), strict=True)
    figures = tuple(_figures(work, samples) for work, samples in columns)
    return Comparison(name, figures, tuple(promises))


def _machine() -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in _PACKAGES)
    return (
        f"{os.cpu_count()} {platform.machine()} CPUs under a load of "
        f"{os.getloadavg()[0]:.1f}, Python {platform.python_version()}, {versions}"
    )


def _figures(work: Work, samples: Sequence[Sample]) -> Figures:
    # A clock may not have ticked in a run as short as a smoke test's.
    times = [max(sample.cpu, 1e-9) for sample in samples]
    median = statistics.median(times)
    low, _, high = statistics.quantiles(times) if times[1:] else (median,) * 3
    return Figures(
        name=work.name,
        speed=work.amount / median,
        seconds=median,
        spread=(high - low) / median,
        threads=statistics.median(
            sample.cpu / max(sample.wall, 1e-9) for sample in samples
        ),
        outcomes=tuple({sample.outcome: None for sample in samples}),
    )
