"""Whoever turns the bytes of a log into records: tieredfs and its peers.

confluent-kafka is not among them: it parses only what it fetches itself. Its mock
cluster would be in the same process, its work counted with the parser's, and keeps no
more than the last 5 MiB of a partition.
"""

import os
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from aiokafka.record.memory_records import MemoryRecords as _AioKafka

import tieredfs
from benchmarks.measuring import Sample, timed
from benchmarks.segments import Record
from tieredfs.format.batch.reader import scan_log
from tieredfs.format.kernel.select import KERNEL_SETTING, Kernel, chosen_kernel
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.schema import SCHEMA

__all__ = [
    "AIOKAFKA",
    "KAFKA_PYTHON",
    "FallbackProcess",
    "arrow_by_loop",
    "count",
    "count_by_loop",
    "count_file",
    "count_objects",
    "count_rows",
    "count_scanned",
    "decode",
    "kernel_in_use",
    "records_by",
    "scan",
]

_Parser = Callable[[bytes], Any]  # neither peer says its types

AIOKAFKA: Final[_Parser] = _AioKafka

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # of importlib.resources
    from kafka.record.memory_records import MemoryRecords as _KafkaPython

KAFKA_PYTHON: Final[_Parser] = _KafkaPython

_ROWS: Final = 8192


def decode(log: bytes) -> Iterator[pa.RecordBatch]:
    """Decode a log by tieredfs: all columns, checksums checked."""
    return RecordDecoder("t", 0).decode(scan_log(log))


def scan(url: str) -> Iterator[pa.RecordBatch]:
    """Read topic ``t`` of a tier by tieredfs, from the URL to Arrow."""
    return iter(tieredfs.open_tier(url).topic("t").scan())


def count_rows(batches: Iterator[pa.RecordBatch]) -> int:
    """Count the rows of batches, keeping none."""
    return sum(batch.num_rows for batch in batches)


def count(log: bytes) -> int:
    """Decode a log by tieredfs and count its records."""
    return count_rows(decode(log))


def count_file(path: Path) -> int:
    """Do the same with the log in a file, which is read once in a process."""
    return count(_held(path))


def count_by_loop(log: bytes) -> int:
    """Let ``arrow_by_loop`` decode a log, and count its rows."""
    return count_rows(arrow_by_loop(log))


def count_scanned(url: str) -> int:
    """Let ``scan`` read a topic, and count its rows."""
    return count_rows(scan(url))


def count_objects(parser: _Parser, log: bytes) -> int:
    """Let a peer make an object of each record, and count them."""
    found = 0
    for batch in _batches(parser, log):
        for _ in batch:
            found += 1
    return found


def records_by(parser: _Parser, log: bytes) -> list[Record]:
    """Return the records that a peer finds."""
    return [
        (each.offset, each.timestamp, each.key, each.value, list(each.headers))
        for each in chain.from_iterable(_batches(parser, log))
    ]


def arrow_by_loop(log: bytes) -> Iterator[pa.RecordBatch]:
    """Decode a log as whoever has aiokafka and wants Arrow would."""
    rows: list[Any] = []
    for record in chain.from_iterable(_batches(AIOKAFKA, log)):
        rows.append(record)
        if len(rows) == _ROWS:
            yield _arrow(rows)
            rows = []
    if rows:
        yield _arrow(rows)


def kernel_in_use() -> str:
    """Name what decodes in this process: ``compiled`` or ``python``."""
    return str(chosen_kernel())


class FallbackProcess:
    """A process that decodes in Python, whatever this one does."""

    def __init__(self) -> None:
        self._pool = ProcessPoolExecutor(
            1,
            mp_context=get_context("spawn"),
            initializer=_use_python,
        )

    def __enter__(self) -> Self:
        """Begin; the process starts when it is first used."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the process."""
        self._pool.shutdown()

    def timed(self, run: Callable[[], object]) -> Sample:
        """Run a work there once; it must be one that can be pickled."""
        return self._pool.submit(timed, run).result()


def _use_python() -> None:
    os.environ[KERNEL_SETTING] = Kernel.PYTHON


def _batches(parser: _Parser, log: bytes) -> Iterator[Any]:
    found = parser(log)
    while (batch := found.next_batch()) is not None:
        if not batch.validate_crc():
            raise ValueError("a batch fails its checksum")
        yield batch


def _arrow(rows: list[Any]) -> pa.RecordBatch:
    columns = [
        [row.key for row in rows],
        [row.value for row in rows],
        ["t"] * len(rows),
        [0] * len(rows),
        [row.offset for row in rows],
        [row.timestamp for row in rows],
        [row.timestamp_type for row in rows],
        [row.headers or None for row in rows],
    ]
    arrays = [
        pa.array(column, field.type)
        for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


@cache
def _held(path: Path) -> bytes:
    return path.read_bytes()
