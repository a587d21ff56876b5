"""Read a view of a tier: planned on the driver, read in the executors."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tieredfs.spark.options import SourceOptions
from tieredfs.spark.task_partition import TaskPartition
from tieredfs.spark.views import plan_view
from tieredfs.spark.worker import freeze_imports

__all__ = ["ViewReader"]


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
        return list(map(TaskPartition, plan_view(self.view, self.options)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one task."""
        freeze_imports()
        if isinstance(partition, TaskPartition):
            yield from partition.task.read(self.columns)
