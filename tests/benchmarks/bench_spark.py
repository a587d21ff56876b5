"""How fast Spark gets records, beside the same batches prebuilt, and beside Parquet.

All of it goes to the sink ``noop``. Times are those of the processor: of the JVM and of
its Python workers together, from before a query is planned until it has ended.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from benchmarks.measuring import (
    Comparison,
    Figures,
    Promise,
    Report,
    Scale,
    Unit,
    Work,
    measure,
    timed,
)
from benchmarks.process_tree import timed_tree
from benchmarks.segments import KIB, MIB, Shape, segment
from servers import Bucket
from support.log_directories import native, push_all, source_of, write_log
from tieredfs import Topic, open_tier
from tieredfs.format.compression.codec import Codec
from tieredfs.spark import register
from tieredfs.spark.rows import TYPES, to_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

__all__ = ["bench_spark"]

_SCALE: Final = Scale(1 << 29, 7, warm=8)  # till the JVM has compiled what runs often
_SEGMENT_BYTES: Final = 112 * MIB
_COLUMNS: Final = tuple(name for name in TYPES if name != "headers")
_OURS: Final = "tieredfs"
_NARROW: Final = "tieredfs: offset alone"
_COUNT: Final = "tieredfs: offset alone, count()"
_PREBUILT: Final = "the same batches, prebuilt"
_SCAN: Final = "scan in Python alone"
_LIMIT: Final = "scan and prebuilt, one after the other"
_PARQUET: Final = "Parquet"


class _Prebuilt(DataSource):
    """The first batch of a file, as often as there are rows."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> str:
        return ", ".join(f"`{name}` {TYPES[name]}" for name in _COLUMNS)

    def reader(self, schema: "StructType") -> DataSourceReader:
        del schema
        return _PrebuiltReader(
            self.options["path"], int(self.options["rows"]), int(self.options["tasks"])
        )


class _PrebuiltReader(DataSourceReader):
    def __init__(self, path: str, rows: int, tasks: int) -> None:
        self._path, self._rows, self._tasks = path, rows, tasks

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(self._path) as file:
            batch = pa.ipc.open_file(file).get_batch(0)
            left = self._rows // self._tasks
            left += self._rows % self._tasks if partition.value == 0 else 0
            while left > 0:
                yield batch.slice(0, left)
                left -= batch.num_rows


def bench_spark(scale: Scale, spark: "SparkSession", folder: Path) -> Report:
    """Measure queries that want all columns, and one.

    Args:
        scale: How many bytes of records there are.
        spark: Runs the queries.
        folder: Where they are made.
    """
    report = Report(
        "Records of 1 KiB to Spark",
        Unit.MEGABYTES,
        (_PREBUILT, _PARQUET),
        scale.repetitions,
        times="CPU time of the JVM and of its Python workers",
    )
    register(spark)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    try:
        spark.dataSource.register(_Prebuilt)
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    for codec in (Codec.NONE, Codec.ZSTD):
        shape = Shape(KIB, 16 * KIB, codec)
        place = folder / codec.name.lower()
        place.mkdir()
        report.comparisons.append(_compare(shape, scale, spark, place))
    return report


def _compare(
    shape: Shape, scale: Scale, spark: "SparkSession", folder: Path
) -> Comparison:
    size, tasks = _write(shape, scale.size, folder)
    topic = open_tier(folder / "tier").topic("orders")
    rows = _write_peers(topic, shape, folder)

    def ours(**options: str) -> "DataFrame":
        return (
            spark.read.format("tieredfs")
            .options(subscribe="orders", **options)
            .load(str(folder / "tier"))
        )

    frames: dict[str, Callable[[], DataFrame]] = {
        _OURS: ours,
        _NARROW: lambda: ours(columns="offset"),
        _PREBUILT: lambda: (
            spark.read.format("prebuilt")
            .options(rows=rows, tasks=tasks)
            .load(str(folder / "first.arrow"))
        ),
        _PARQUET: lambda: spark.read.parquet(str(folder / "parquet")),
    }
    for name, frame in frames.items():
        assert frame().count() == rows, name
    works = [
        Work(name, size, partial(_drain, frame), timed_tree)
        for name, frame in frames.items()
    ]
    works += [
        Work(_COUNT, size, lambda: frames[_NARROW]().count(), timed_tree),
        Work(_SCAN, size, partial(_scan, topic), timed),
    ]
    found = measure(str(shape), works, scale)
    return replace(
        found,
        figures=(*found.figures, _one_after_the_other(found)),
        promises=(
            Promise(_OURS, 0.75, _PREBUILT if shape.codec is Codec.NONE else _LIMIT),
            Promise(_OURS, 0.8, _PARQUET),
            Promise(_NARROW, 3, _OURS),
            Promise(_COUNT, 3, _OURS),
        ),
    )


def _write(shape: Shape, size: int, folder: Path) -> tuple[int, int]:
    """Write a tier of one partition; return its uncompressed bytes and its segments."""
    one = segment(shape, min(size, _SEGMENT_BYTES))
    count = max(1, round(size / one.size))
    logs, offset = {}, 0
    for _ in range(count):
        start, parts = offset, []
        for batch in one.batches:
            parts.append(batch.at(offset))
            offset += batch.count
        logs[start] = b"".join(parts)
    logs[offset] = b""  # the active segment, which is not pushed
    write_log(folder / "logs", logs, partition="orders-0")
    (folder / "tier").mkdir()
    push_all(source_of(folder / "logs"), native(Bucket(str(folder / "tier"), {})))
    return one.size * count, count


def _write_peers(topic: Topic, shape: Shape, folder: Path) -> int:
    """Write the rows as Parquet, and a batch of them; return how many there are."""
    (folder / "parquet").mkdir()
    codec = "none" if shape.codec is Codec.NONE else shape.codec.name.lower()
    rows = 0
    for number, part in enumerate(topic.scan(columns=_COLUMNS).split(1)):
        batches = [to_rows(batch, topic.name, _COLUMNS) for batch in part]
        table = pa.Table.from_batches(batches)
        path = folder / "parquet" / f"{number}.parquet"
        pq.write_table(table, path, compression=codec)
        rows += table.num_rows
        if not number:
            with pa.ipc.new_file(folder / "first.arrow", table.schema) as file:
                file.write_batch(batches[0])
    return rows


def _drain(frame: "Callable[[], DataFrame]") -> None:
    """Plan a query anew, and drop its rows."""
    frame().write.format("noop").mode("append").save()


def _scan(topic: Topic) -> int:
    return sum(batch.num_rows for batch in topic.scan(columns=_COLUMNS))


def _one_after_the_other(found: Comparison) -> Figures:
    """Return what a reader could reach that decodes for nothing more than a scan."""
    parts = [one for one in found.figures if one.name in {_SCAN, _PREBUILT}]
    speed = 1 / sum(1 / one.speed for one in parts)
    seconds = sum(one.seconds for one in parts)
    spread = max(one.spread for one in parts)
    return Figures(_LIMIT, speed, seconds, spread, 1, ())


def test_spark(long_lived_spark: "SparkSession", tmp_path: Path) -> None:
    report = bench_spark(_SCALE, long_lived_spark, tmp_path)
    report.show()
    assert not report.disagreements()
