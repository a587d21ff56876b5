"""Read records in a batch query: planned on the driver, read in the executors."""

from collections.abc import Iterable, Iterator
from inspect import stack
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from tieredfs.errors import NotFoundError
from tieredfs.spark.filters import EVERYTHING, wanted_by
from tieredfs.spark.options import SourceOptions
from tieredfs.spark.plan import plan_tasks
from tieredfs.spark.rows import decoded_columns, to_rows
from tieredfs.spark.task_partition import TaskPartition
from tieredfs.spark.worker import freeze_imports

__all__ = [
    "FilteringReader",
    "TieredFSReader",
    "read_task",
    "record_reader",
]

_DELETED_SINCE: Final = (
    "It was deleted after the query was planned, by retention perhaps: make the frame "
    "again, or start the stream again. With failOnDataLoss set to false a query leaves "
    "out what was deleted, but not if that is all it reads."
)
_PUSHES_FILTERS: Final = "data_source_pushdown_filters.py"


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
        columns = decoded_columns(self.columns)
        tasks = plan_tasks(self.options, columns, self.wanted)
        return list(map(TaskPartition, tasks))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        return read_task(partition, self.columns)


class FilteringReader(TieredFSReader):
    """A reader that takes the query's filters."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Leave out what no filter accepts; Spark applies all of them itself."""
        self.wanted = wanted_by(filters)
        return filters


def record_reader(options: SourceOptions, columns: tuple[str, ...]) -> TieredFSReader:
    """Return a reader that takes the query's filters if Spark is about to give them.

    Of a frame that is used in several places Spark passes the filters of each, and then
    reads all of them as the last was planned, and what has no filter too. So a frame
    has to say that it is used once.

    Args:
        options: What was asked for.
        columns: The columns of the query's schema.
    """
    takes_filters = options.push_filters and _are_filters_pushed()
    kind = FilteringReader if takes_filters else TieredFSReader
    return kind(options, columns)


def read_task(
    partition: InputPartition, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of one task.

    Args:
        partition: The task, or what Spark makes when there is nothing to read.
        columns: The columns of the query's schema.

    Raises:
        NotFoundError: A segment was deleted after the query was planned.
        TieredFSError: As from ``Task.read``.
    """
    freeze_imports()
    if not isinstance(partition, TaskPartition):
        return
    try:
        for topic, batch in partition.task.read():
            yield to_rows(batch, topic, columns)
    except NotFoundError as error:
        raise NotFoundError(f"{error}. {_DELETED_SINCE}") from error


def _are_filters_pushed() -> bool:
    """Return whether Spark is about to push filters down.

    It refuses every query on a source that takes filters while its push-down is off.
    """
    return any(Path(frame.filename).name == _PUSHES_FILTERS for frame in stack(0))
