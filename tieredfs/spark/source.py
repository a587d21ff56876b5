"""The data source: planned on the driver, read in the executors."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.errors import (
    InvalidArgumentError,
    PluginNotInstalledError,
    UnsupportedOperationError,
)
from tieredfs.format.records.schema import COLUMNS
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.stable_offset import stable_offset
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.log.read.replan import plan_all
from tieredfs.log.read.scan import Scan
from tieredfs.spark.options import (
    EARLIEST,
    LATEST,
    Offsets,
    SourceOptions,
    parse_options,
)
from tieredfs.spark.ranges import check_named, resolve_range
from tieredfs.tier import Tier, open_tier
from tieredfs.topic import Topic

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        InputPartition,
    )
except ImportError as error:
    msg = "tieredfs.spark needs pyspark: pip install 'tieredfs[spark]'"
    raise PluginNotInstalledError(msg) from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["TieredFSDataSource", "register"]

_TASK_BYTES = 128 << 20  # a task costs 60-120 ms before it has read anything
_READ_ONLY = "format('tieredfs') does not write yet: Topic.append in Python does"
_HEADERS = "headers"
_TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    _HEADERS: "array<struct<key:string,value:binary>>",
}
_SPARK_TIMESTAMP = pa.timestamp("us", tz="UTC")
_MAX_MILLISECONDS = ((1 << 63) - 1) // 1000


def register(spark: "SparkSession") -> None:
    """Make ``format("tieredfs")`` known to a session."""
    spark.dataSource.register(TieredFSDataSource)


class TieredFSDataSource(DataSource):
    """Records of topics, as Spark's own Kafka source gives them."""

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format``."""
        return "tieredfs"

    def schema(self) -> str:
        """Return the columns of Kafka's source, headers only when asked for.

        Raises:
            InvalidArgumentError: An option is wrong.
        """
        options = parse_options(self.options)
        names = [n for n in COLUMNS if n != _HEADERS or options.include_headers]
        return ", ".join(f"`{name}` {_TYPES[name]}" for name in names)

    def reader(self, schema: "StructType") -> "TieredFSReader":
        """Return a reader of the columns that the query's schema has.

        Raises:
            InvalidArgumentError: An option is wrong, or a column is not one of the
                source's or has another type.
        """
        for column in schema.fields:
            if _TYPES.get(column.name) != column.dataType.simpleString():
                raise InvalidArgumentError(
                    f"the schema has {column.name} {column.dataType.simpleString()}; "
                    f"the source has {', '.join(f'{n} {t}' for n, t in _TYPES.items())}"
                )
        return TieredFSReader(parse_options(self.options), tuple(schema.fieldNames()))

    def streamReader(self, schema: "StructType") -> NoReturn:  # noqa: N802 - Spark's name
        """Refuse a streaming query.

        Raises:
            UnsupportedOperationError: Always, for now.
        """
        del schema
        raise UnsupportedOperationError(
            "format('tieredfs') has no readStream yet: spark.read gives what is there"
        )

    def writer(self, schema: "StructType", overwrite: bool) -> NoReturn:  # noqa: FBT001 - Spark's
        """Refuse to write.

        Raises:
            UnsupportedOperationError: Always, for now.
        """
        del schema, overwrite
        raise UnsupportedOperationError(_READ_ONLY)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> NoReturn:  # noqa: FBT001, N802 - Spark's
        """Refuse to write.

        Raises:
            UnsupportedOperationError: Always, for now.
        """
        del schema, overwrite
        raise UnsupportedOperationError(_READ_ONLY)


class ScanPartition(InputPartition):
    """What one task reads: a scan, planned to the byte."""

    def __init__(self, scan: Scan) -> None:
        """Take the scan."""
        self.scan = scan

    def __repr__(self) -> str:
        """Show what is read, without secrets."""
        return f"ScanPartition({self.scan!r})"


class TieredFSReader(DataSourceReader):
    """Plan a query and read its parts."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        """Store the options and columns; nothing is opened before planning."""
        self.options = options
        self.columns = columns

    def partitions(self) -> list[InputPartition]:
        """Plan tasks of about 128 MiB from neighbouring segments.

        Raises:
            NotFoundError: The tier or a topic does not exist.
            InvalidArgumentError: The offsets do not name the partitions that are read.
            CorruptDataError: Offsets are gone or missing.
        """
        options = self.options
        tier = open_tier(
            options.path,
            plugin=options.plugin,
            plugin_options=options.plugin_options,
            storage_options=options.storage_options,
            cache_dir=... if options.cache_dir is None else options.cache_dir or None,
            options=options.tuned,
        )
        topics = self._topics(tier)
        assigned = {name: numbers for name, (_, numbers) in topics.items()}
        check_named(options.starting, assigned)
        check_named(options.ending, assigned)
        parts: list[InputPartition] = []
        for topic, numbers in topics.values():
            scan = self._scan(topic, numbers)
            parts += map(ScanPartition, scan.split(_TASK_BYTES))
        return parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        if not isinstance(partition, ScanPartition):
            return  # Spark creates one when there is nothing to read
        for batch in partition.scan:
            yield _for_spark(batch, partition.scan.topic, self.columns)

    def _topics(self, tier: Tier) -> Mapping[str, tuple[Topic, tuple[int, ...]]]:
        options = self.options
        found: dict[str, tuple[Topic, tuple[int, ...]]] = {}
        if options.assigned is None:
            for name in options.topics or ():
                topic = tier.topic(name, topic_id=options.topic_id)
                found[name] = topic, topic.partitions
            return found
        for name, numbers in options.assigned.items():
            topic = tier.topic(name, topic_id=options.topic_id)
            # Like Kafka's source: a missing partition is dropped.
            there = tuple(n for n in dict.fromkeys(numbers) if n in topic.partitions)
            found[name] = topic, there
        return found

    def _scan(self, topic: Topic, numbers: tuple[int, ...]) -> Scan:
        found = plan_all(self._slices, [topic.reader(number) for number in numbers])
        # A record whose timestamp Spark cannot hold is named by these.
        named = ("partition", "offset") if "timestamp" in self.columns else ()
        return Scan(
            topic.reader(topic.partitions[0]).storage,
            topic.name,
            ScanPlan(tuple(filter(len, found)), self.options.tuned.fetch_bytes),
            tuple(dict.fromkeys((*self.columns, *named))),
            on_gap="raise" if self.options.fail_on_data_loss else "skip",
            isolation=self.options.isolation,
        )

    def _slices(self, reader: TieredReader) -> Sequence[SegmentSlice]:
        """Plan one partition from one listing: range and segments are of one moment."""
        options, partition = self.options, reader.partition
        topic, number = partition.topic, partition.partition
        segments = reader.segments()
        held = bounds_of(segments)
        latest = held.end
        if options.isolation == "read_committed":
            stable = stable_offset(reader.storage, segments)
            latest = max(held.beginning, stable)
        start, end = resolve_range(
            f"topic {topic} partition {number}",
            (
                _asked(options.starting, topic, number, EARLIEST),
                _asked(options.ending, topic, number, LATEST),
            ),
            held,
            latest,
            fail_on_data_loss=options.fail_on_data_loss,
        )
        end = min(end, latest)
        if start >= end:
            return []
        return reader.slices_between(
            segments, start, end, skip_gaps=not options.fail_on_data_loss
        )


def _asked(offsets: Offsets | None, topic: str, partition: int, default: int) -> int:
    return default if offsets is None else offsets[topic][partition]


def _for_spark(
    batch: pa.RecordBatch, topic: str, columns: tuple[str, ...]
) -> pa.RecordBatch:
    """Give a batch the columns and the types that the query's schema has."""
    arrays = [
        _microseconds(batch, topic) if name == "timestamp" else batch[name]
        for name in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def _microseconds(batch: pa.RecordBatch, topic: str) -> pa.Array:
    """Return the timestamps in Spark's unit.

    Raises:
        UnsupportedOperationError: One does not fit into it.
    """
    stamps = batch["timestamp"]
    try:
        return stamps.cast(_SPARK_TIMESTAMP)
    except pa.ArrowInvalid as error:
        raw = stamps.cast(pa.int64())
        late = pc.or_(
            pc.greater(raw, _MAX_MILLISECONDS), pc.less(raw, -_MAX_MILLISECONDS)
        )
        row = late.index(True).as_py()
        raise UnsupportedOperationError(
            f"topic {topic} partition {batch['partition'][row]} offset "
            f"{batch['offset'][row]}: Spark cannot hold a timestamp of "
            f"{stamps.cast(pa.int64())[row]} ms; load with a schema without timestamp, "
            "such as .schema('partition int, offset bigint')"
        ) from error
