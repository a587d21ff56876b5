"""Read a view of a tier: planned on the driver, read in the executors."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tieredfs.spark.options import SourceOptions
from tieredfs.spark.views import ViewTask, plan_view

__all__ = ["ViewReader"]


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
