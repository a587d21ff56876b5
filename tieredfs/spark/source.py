"""The data source: planned on the driver, read in the executors."""

from collections.abc import Iterable, Iterator
from inspect import stack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from tieredfs.errors import (
    InvalidArgumentError,
    PluginNotInstalledError,
    UnsupportedOperationError,
)
from tieredfs.format.records.schema import COLUMNS
from tieredfs.spark.filters import EVERYTHING, wanted_by
from tieredfs.spark.options import SourceOptions, parse_options
from tieredfs.spark.plan import plan_tasks
from tieredfs.spark.tasks import Task
from tieredfs.spark.views import VIEWS, ViewTask, plan_view

try:
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceReader,
        Filter,
        InputPartition,
    )
except ImportError as error:
    msg = "tieredfs.spark needs pyspark: pip install 'tieredfs[spark]'"
    raise PluginNotInstalledError(msg) from error

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

__all__ = ["TieredFSDataSource", "register"]

_PUSHES_FILTERS = "data_source_pushdown_filters.py"
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
        """Return the columns that are asked for, by default those of Kafka's source.

        Raises:
            InvalidArgumentError: An option is wrong.
        """
        options = parse_options(self.options)
        if options.view is not None:
            return ", ".join(f"`{n}` {t}" for n, t in VIEWS[options.view].items())
        names = options.columns or [
            name for name in COLUMNS if name != _HEADERS or options.include_headers
        ]
        return ", ".join(f"`{name}` {_TYPES[name]}" for name in names)

    def reader(self, schema: "StructType") -> DataSourceReader:
        """Return a reader of the columns that the query's schema has.

        Raises:
            InvalidArgumentError: An option is wrong, or a column is not one of the
                source's or has another type.
        """
        options, names = parse_options(self.options), tuple(schema.fieldNames())
        types = _TYPES if options.view is None else VIEWS[options.view]
        for column in schema.fields:
            if types.get(column.name) != column.dataType.simpleString():
                raise InvalidArgumentError(
                    f"the schema has {column.name} {column.dataType.simpleString()}; "
                    f"the source has {', '.join(f'{n} {t}' for n, t in types.items())}"
                )
        if options.view is not None:
            return ViewReader(options.view, options, names)
        if options.columns not in {None, names}:
            msg = f"option 'columns': the query's schema has {', '.join(names)}"
            raise InvalidArgumentError(msg)
        kind = FilteringReader if _are_filters_pushed() else TieredFSReader
        return kind(options, names)

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


class TaskPartition(InputPartition):
    """What one task reads."""

    def __init__(self, task: Task) -> None:
        """Take the task."""
        self.task = task

    def __repr__(self) -> str:
        """Show what is read, without secrets."""
        return f"TaskPartition({self.task!r})"


class TieredFSReader(DataSourceReader):
    """Plan a query and read its parts."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        """Store the options and columns; nothing is opened before planning."""
        self.options = options
        self.columns = columns
        self.wanted = EVERYTHING

    def partitions(self) -> list[InputPartition]:
        """Plan tasks of about 128 MiB, or those that were asked for.

        Raises:
            NotFoundError: The tier or a topic does not exist.
            InvalidArgumentError: The offsets do not name the partitions that are read,
                or a time is after all records.
            CorruptDataError: Offsets are gone or missing.
        """
        # A record whose timestamp Spark cannot hold is named by these.
        named = ("partition", "offset") if "timestamp" in self.columns else ()
        columns = tuple(dict.fromkeys((*self.columns, *named)))
        tasks = plan_tasks(self.options, columns, self.wanted)
        return list(map(TaskPartition, tasks))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        if not isinstance(partition, TaskPartition):
            return  # Spark creates one when there is nothing to read
        for topic, batch in partition.task.read():
            yield _for_spark(batch, topic, self.columns)


class FilteringReader(TieredFSReader):
    """A reader that takes the query's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Leave out what no filter accepts; Spark applies all of them itself."""
        self.wanted = wanted_by(filters)
        return filters


class ViewPartition(InputPartition):
    """What one task of a view looks at."""

    def __init__(self, task: ViewTask) -> None:
        """Take the task."""
        self.task = task

    def __repr__(self) -> str:
        """Show what it looks at, without secrets."""
        return f"ViewPartition({self.task!r})"


class ViewReader(DataSourceReader):
    """Plan a view and read its parts."""

    def __init__(
        self, view: str, options: SourceOptions, columns: tuple[str, ...]
    ) -> None:
        """Store the view, the options and columns; nothing is opened yet."""
        self.view = view
        self.options = options
        self.columns = columns

    def partitions(self) -> list[InputPartition]:
        """Plan tasks from listings.

        Raises:
            NotFoundError: The tier or a topic does not exist.
        """
        return list(map(ViewPartition, plan_view(self.view, self.options)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        if isinstance(partition, ViewPartition):  # Spark's own has no task
            yield from partition.task.read(self.columns)


def _are_filters_pushed() -> bool:
    """Return whether Spark is about to push filters down.

    It refuses every query on a source that takes filters while its push-down is off.
    """
    return any(Path(frame.filename).name == _PUSHES_FILTERS for frame in stack(0))


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
