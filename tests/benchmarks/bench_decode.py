"""How fast a log becomes Arrow, beside its peers and beside touching its bytes at all.

All columns, each batch's checksum checked. The log is in memory, but for two rows: the
file is in the page cache when it is read, and when tieredfs scans its folder.
"""

from functools import partial
from pathlib import Path

import google_crc32c

from benchmarks.decoders import (
    AIOKAFKA,
    KAFKA_PYTHON,
    FallbackProcess,
    count,
    count_by_loop,
    count_file,
    count_objects,
    count_scanned,
    kernel_in_use,
)
from benchmarks.measuring import (
    LONG,
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    copying,
    measure,
    one_core,
)
from benchmarks.segments import KIB, MIB, Segment, Shape, segment
from support.golden import headers_of
from tieredfs.format.index.builder import IndexBuilder

_OURS = "tieredfs"
_FALLBACK = "tieredfs, Python kernel"
_SCAN = "tieredfs: open_tier, scan"
_AIOKAFKA = "aiokafka"
_ARROW = "aiokafka → Arrow"
_KAFKA_PYTHON = "kafka-python"
_COPY = "memcpy"

_SHAPES = [
    Shape(value, batch) for value in (100, KIB, 10 * KIB) for batch in (16 * KIB, MIB)
]
_PROMISES = {
    100: [Promise(_OURS, 8, _AIOKAFKA)],
    KIB: [
        Promise(_OURS, 5, _AIOKAFKA),
        Promise(_OURS, 20, _ARROW),
        Promise(_OURS, 0.4, _COPY),
        Promise(_FALLBACK, 0.9, _AIOKAFKA),
    ],
}


def bench_decode(scale: Scale, folder: Path) -> Report:
    """Measure every decoder on uncompressed logs.

    Args:
        scale: How much is done.
        folder: Empty; the logs are written there.
    """
    title = f"Uncompressed log → Arrow (kernel: {kernel_in_use()})"
    report = Report(title, Unit.MEGABYTES, (_AIOKAFKA, _COPY), scale.repetitions)
    with FallbackProcess() as fallback:
        for number, shape in enumerate(_SHAPES):
            log = segment(shape, scale.size)
            tier = folder / str(number)
            path = _write(log, tier)
            size, data = log.size, log.data
            works = [
                Work(_OURS, size, partial(count, data)),
                Work(_FALLBACK, size, partial(count_file, path), fallback.timed),
                Work(_SCAN, size, partial(count_scanned, tier.as_uri())),
                Work(_AIOKAFKA, size, partial(count_objects, AIOKAFKA, data)),
                Work(_ARROW, size, partial(count_by_loop, data)),
                Work(_KAFKA_PYTHON, size, partial(count_objects, KAFKA_PYTHON, data)),
                Work(_COPY, size, copying(data)),
                Work("checksums alone", size, partial(_check, log)),
                Work("page cache alone", size, partial(_read, path, bytearray(size))),
            ]
            promises = _PROMISES.get(shape.value_size, [])
            report.comparisons.append(measure(str(shape), works, scale, promises))
    return report


def _write(log: Segment, tier: Path) -> Path:
    """Lay a log out as a broker's log directory has it, an empty segment behind it."""
    path = tier / "t-0" / f"{0:020}.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(log.data)
    indexes = IndexBuilder(0)
    for header in headers_of(log.data):
        indexes.add(header)
    (path.parent / f"{header.last_offset + 1:020}.log").touch()
    path.with_suffix(".index").write_bytes(indexes.offset_index())
    path.with_suffix(".timeindex").write_bytes(indexes.time_index())
    return path


def _check(log: Segment) -> None:
    for checked in log.checked:
        google_crc32c.value(checked)


def _read(path: Path, buffer: bytearray) -> None:
    with path.open("rb", buffering=0) as file:
        file.readinto(buffer)


def test_decoding(tmp_path: Path) -> None:
    with one_core():
        report = bench_decode(LONG, tmp_path)
    report.show()
    assert not report.disagreements()
