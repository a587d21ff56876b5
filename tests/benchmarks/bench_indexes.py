"""How fast indexes are parsed, with all their checks, and looked into.

The limit of a parser is numpy reading each entry once: both columns of the big-endian
bytes become native 64-bit integers, ``entries[column].astype(np.int64)``, the form in
which they can be searched. That of a lookup is ``bisect`` on the parsed column alone.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sized
from functools import partial
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.measuring import (
    FULL,
    Comparison,
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    measure,
)
from benchmarks.segments import KIB, MIB
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.time import TimeIndex

__all__ = ["bench_lookups", "bench_parsing", "offset_index", "time_index"]

_OURS: Final = "tieredfs, all checks"
_OURS_LOOKUP: Final = "tieredfs"
_ONCE: Final = "numpy, read once"
_BISECT: Final = "bisect alone"
_SEED: Final = 20241105
_BASE: Final = 1 << 33  # offsets that need 64 bits
_FIRST: Final = 1_730_000_000_000  # ms
_LARGEST: Final = 10 * MIB  # Kafka's default for segment.index.bytes
_SEGMENT: Final = (1 << 30) // (4 * KIB)  # entries of 1 GiB by default
_INT32_MAX: Final = (1 << 31) - 1
_TARGETS: Final = 100_000
_OFFSET: Final = np.dtype([("offset", ">i4"), ("position", ">i4")])
_TIME: Final = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


_Parse = Callable[[bytes, int], Sized]


class _Index(Protocol):
    def lookup(self, at: int, /) -> tuple[int, int]: ...


def bench_parsing(scale: Scale) -> Report:
    """Measure how fast the largest indexes are parsed."""
    report = Report(
        "Index → searchable", Unit.MEGABYTES, (_ONCE,), repetitions=scale.repetitions
    )
    size = min(_LARGEST, scale.size)
    kinds: list[tuple[str, bytes, np.dtype[Any], _Parse]] = [
        ("offset index", offset_index(size // 8 + 1), _OFFSET, OffsetIndex.parse),
        ("time index", time_index(size // 12 + 1), _TIME, TimeIndex.parse),
    ]
    for name, data, kind, parse in kinds:
        works = [
            Work(_OURS, len(data), partial(_parse, parse, data)),
            Work("struct, one by one", len(data), partial(_unpack, data, kind)),
            Work(_ONCE, len(data), partial(_read_once, data, kind)),
            Work("numpy, bytes swapped", len(data), partial(_swap, data)),
        ]
        promises = [Promise(_OURS, 1 / 3, _ONCE)]
        title = f"{name} of {len(data) / MIB:.0f} MiB"
        report.comparisons.append(measure(title, works, scale, promises))
    return report


def bench_lookups(scale: Scale) -> Report:
    """Measure lookups of random targets in an index that is held."""
    report = Report(
        "Lookups in a held index", Unit.LOOKUPS, (_BISECT,), scale.repetitions
    )
    for entries in (_SEGMENT, _LARGEST // 8):
        most = min(entries, scale.size // 8 + 1)
        offsets = OffsetIndex.parse(offset_index(most), _BASE)
        times = TimeIndex.parse(time_index(most), _BASE)
        for name, index, column in (
            ("offset index", offsets, offsets.offsets),
            ("time index", times, times.timestamps),
        ):
            report.comparisons.append(
                _compare_lookups(f"{name}, {most:,} entries", index, column, scale)
            )
    return report


def offset_index(entries: int) -> bytes:
    """Write an offset index that rises at random."""
    draw = np.random.default_rng(_SEED)
    rows = np.empty(entries, _OFFSET)
    rows["offset"] = _rising(draw, entries)
    rows["position"] = _rising(draw, entries)
    return rows.tobytes()


def time_index(entries: int) -> bytes:
    """Write a time index that rises at random."""
    draw = np.random.default_rng(_SEED)
    rows = np.empty(entries, _TIME)
    rows["timestamp"] = _FIRST + _rising(draw, entries)
    rows["offset"] = _rising(draw, entries)
    return rows.tobytes()


def _rising(draw: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
    return np.cumsum(draw.integers(1, _INT32_MAX // count, count))


def _parse(parse: _Parse, data: bytes) -> int:
    return len(parse(data, _BASE))


def _unpack(data: bytes, kind: np.dtype[Any]) -> int:
    """Do as a reader without numpy would, whose checks would cost still more."""
    entry = struct.Struct(">qi" if kind is _TIME else ">ii")
    return len(list(entry.iter_unpack(data)))


def _read_once(data: bytes, kind: np.dtype[Any]) -> int:
    entries = np.frombuffer(data, kind)
    columns = [entries[name].astype(np.int64) for name in kind.names or ()]
    return len(columns[0])


def _swap(data: bytes) -> None:
    np.frombuffer(data, ">i4").astype(np.int32)


def _compare_lookups(
    name: str, index: _Index, column: npt.NDArray[np.int64], scale: Scale
) -> Comparison:
    draw = np.random.default_rng(_SEED)
    count = min(_TARGETS, scale.size)
    targets = draw.integers(column[0], column[-1], count, endpoint=True).tolist()
    works = [
        Work(_OURS_LOOKUP, count, partial(_look_up, index, targets)),
        Work("np.searchsorted", count, partial(_search, column, targets)),
        Work(_BISECT, count, partial(_bisect, column.data, targets)),
    ]
    return measure(name, works, scale, [Promise(_OURS_LOOKUP, 1e6)])


def _look_up(index: _Index, targets: list[int]) -> int:
    lookup = index.lookup
    for target in targets:
        found = lookup(target)
    return found[0]


def _search(column: npt.NDArray[np.int64], targets: list[int]) -> int:
    search = column.searchsorted
    for target in targets:
        found = search(target, "right")
    return int(column[found - 1])


def _bisect(column: memoryview, targets: list[int]) -> int:
    for target in targets:
        found = bisect_right(column, target)
    return int(column[found - 1])


def test_parsing_indexes() -> None:
    report = bench_parsing(FULL)
    report.show()
    assert not report.disagreements()


def test_looking_into_indexes() -> None:
    report = bench_lookups(FULL)
    report.show()
    assert not report.disagreements()
