"""Read a stream of records: planned on the driver, read in the executors."""

from collections.abc import Iterator
from time import monotonic

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from tieredfs.spark.options import SourceOptions
from tieredfs.spark.record_reader import read_task
from tieredfs.spark.rows import decoded_columns
from tieredfs.spark.stream_offset import BEGINNING, StreamOffset
from tieredfs.spark.stream_plan import StreamPlanner
from tieredfs.spark.task_partition import TaskPartition

__all__ = ["TieredFSStreamReader"]


class TieredFSStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plan the batches of a stream and read their parts.

    Spark calls neither ``commit`` nor ``stop`` reliably, so nothing depends on them.
    """

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        """Store the options and columns; nothing is opened before planning."""
        self.options = options
        self.columns = columns
        self._planner = StreamPlanner(options, monotonic)

    def __reduce__(
        self,
    ) -> tuple[type["TieredFSStreamReader"], tuple[SourceOptions, tuple[str, ...]]]:
        """Return what it was made of: nothing that is open, or was listed."""
        return type(self), (self.options, self.columns)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Let the query end where the logs end now."""
        self._planner.fix_target()

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        """Return one of the limits that the options give.

        There is no limit that combines several, so all of them are applied together,
        unless Spark asks for all that is there.
        """
        admission = self.options.admission
        if admission.min_offsets is not None:
            return ReadMinRows(admission.min_offsets)
        if admission.max_offsets is not None:
            return ReadMaxRows(admission.max_offsets)
        return ReadAllAvailable()

    def initialOffset(self) -> dict[str, object]:  # noqa: N802 - Spark's name
        """Return what stands for the beginning.

        Spark asks again when the first batch is repeated. Where that begins is looked
        up once, and logged with its end.
        """
        return BEGINNING.to_document()

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, object], limit: ReadLimit
    ) -> dict[str, object]:
        """Return where the next batch ends; ``start`` when there is to be none.

        Raises:
            NotFoundError: The tier or a topic does not exist.
            InvalidArgumentError: The starting offsets do not name the partitions that
                are read, a time is after all records, or an option leaves out what the
                query has read.
            CorruptDataError: A log ends before ``start``, or was deleted, and
                ``failOnDataLoss`` is true.
            TieredFSError: A log cannot be listed.
        """
        begin = StreamOffset.parse(start)
        is_limited = not isinstance(limit, ReadAllAvailable)
        end = self._planner.next_end(begin, is_limited=is_limited)
        return start if end is begin else end.to_document()

    def reportLatestOffset(self) -> dict[str, object] | None:  # noqa: N802 - Spark's name
        """Return where the logs ended when the last batch was planned."""
        latest = self._planner.latest
        return None if latest is None else StreamOffset(latest).to_document()

    def partitions(
        self, start: dict[str, object], end: dict[str, object]
    ) -> list[InputPartition]:
        """Plan the tasks of a batch, which is the same each time.

        Raises:
            CorruptDataError: Offsets are gone or missing, and ``failOnDataLoss`` is
                true.
            TieredFSError: A log cannot be listed.
        """
        first, last = StreamOffset.parse(start), StreamOffset.parse(end)
        tasks = self._planner.plan(first, last, decoded_columns(self.columns))
        return list(map(TaskPartition, tasks))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one task."""
        return read_task(partition, self.columns)
