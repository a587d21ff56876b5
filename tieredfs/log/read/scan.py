"""A plan to read records, which can be pickled and run any number of times."""

from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, SupportsIndex

import pyarrow as pa

from tieredfs.errors import PluginNotInstalledError
from tieredfs.fetch import Attempts, RemoteLogFetcher
from tieredfs.format.records.decode import RecordDecoder
from tieredfs.format.records.schema import project
from tieredfs.integers import to_integer
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.read.explain import explain
from tieredfs.log.read.explanation import Explanation, ScanRecord, ScanStats
from tieredfs.log.read.partition_read import (
    WIDENING,
    HeldBytes,
    PartitionRead,
    max_kept_bytes,
)
from tieredfs.log.read.pipeline import read_records
from tieredfs.log.read.turns import turns
from tieredfs.storage import RemoteStorageManager

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Isolation", "OnGap", "Order", "Scan"]

Isolation = Literal["read_uncommitted", "read_committed"]
"""All records, or those of committed transactions and of none, as in Kafka."""

Order = Literal["partition", "fair"]
"""Read one partition after the other, or a few MiB of each in turn."""

OnGap = Literal["raise", "skip"]
"""Raise an error for offsets that are in no segment, or leave them out."""


@dataclass(frozen=True, slots=True)
class Scan:
    """Records of a topic, planned and not yet read.

    Iterating reads them: ``pyarrow.RecordBatch`` of at most 8 MiB by default, or of one
    larger record, in offset order within each partition. It can be repeated, gives the
    same records each time, and can be stopped early. A scan can be pickled to workers
    and split among them; any Arrow library takes it through ``__arrow_c_stream__``,
    which reads lazily.

    Control records are hidden. Errors keep their type.

    Attributes:
        storage: Where the segments are.
        topic: The topic's name.
        plan: What is read: the segments, and the positions in their logs.
        columns: The columns to read, in this order; None for all.
        order: Whether partitions come one after the other or in turn.
        on_gap: Whether it is an error when a segment was deleted since the scan was
            planned, and no other one has replaced it, or its offsets are left out. The
            rest is then planned again from the segments that exist.
        isolation: Whether the records of aborted transactions are left out; the plan
            then ends at the last stable offset.
    """

    storage: RemoteStorageManager
    topic: str
    plan: ScanPlan
    columns: tuple[str, ...] | None = None
    order: Order = "partition"
    on_gap: OnGap = "raise"
    isolation: Isolation = "read_uncommitted"
    _record: ScanRecord = field(
        default_factory=ScanRecord, init=False, repr=False, compare=False
    )

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return project(self.columns)

    def __iter__(self) -> Generator[pa.RecordBatch, None, None]:
        """Read the records; closing the generator ends the downloads.

        Raises:
            CorruptDataError: The stored data is corrupt.
            NotFoundError: A segment was deleted since the scan was planned, and not
                replaced; with ``on_gap="skip"``, all of them were.
            StorageUnavailableError: The store failed in all attempts of its policy.
            DeadlineExceededError: The store did not answer in time.
        """
        fetcher, reads = self._begin()
        with fetcher:
            if self.order == "fair":
                order = turns(reads, fetcher)
            else:
                order = ((read, read.slices()) for read in reads)
            for read, slices in order:
                yield from read_records(read, slices, self._decoder(read))

    def read_gradually(
        self, records: SupportsIndex
    ) -> Generator[pa.RecordBatch, None, None]:
        """Read the same records, for a caller that needs only about the first few.

        The offset index limits the first fetch to the needed records; each further
        fetch covers four times as many offsets. It takes more requests than iterating,
        which is better for all records. Partitions are read one after the other.

        Args:
            records: Number of records that are probably needed.

        Raises:
            InvalidArgumentError: ``records`` is not an integer, or negative.
            CorruptDataError: The stored data is corrupt.
            NotFoundError: A segment was deleted since the scan was planned, and not
                replaced; with ``on_gap="skip"``, all of them were.
            StorageUnavailableError: The store failed in all attempts of its policy.
            DeadlineExceededError: The store did not answer in time.
        """
        return self._in_steps(max(to_integer(records, "records", minimum=0), 1))

    def head(self, num_rows: SupportsIndex) -> pa.Table:
        """Read the first records into memory, and little more than they take.

        It is ``read_gradually``, ended after so many records, and named as pyarrow's.

        Args:
            num_rows: Maximum number of records; of 0 nothing is read.

        Raises:
            InvalidArgumentError: ``num_rows`` is not an integer, or negative.
            CorruptDataError: The stored data is corrupt.
            NotFoundError: A segment was deleted since the scan was planned, and not
                replaced; with ``on_gap="skip"``, all of them were.
            StorageUnavailableError: The store failed in all attempts of its policy.
            DeadlineExceededError: The store did not answer in time.
        """
        left = to_integer(num_rows, "num_rows", minimum=0)
        found: list[pa.RecordBatch] = []
        with closing(self.read_gradually(left)) as batches:
            while left and (batch := next(batches, None)) is not None:
                found.append(batch.slice(0, left))
                left -= found[-1].num_rows
        return pa.Table.from_batches(found, schema=self.schema)

    def explain(self, records: SupportsIndex | None = None) -> Explanation:
        """Predict the requests of the next iteration, by verb, and their bytes.

        No record is read. What is needed to predict them is asked for: manifests of
        layouts that store logs in chunks, unless they are cached, and whether the
        segments of a broker's log directory are still those that were listed.

        Args:
            records: Number of records, to predict ``head``, or ``read_gradually`` for a
                caller that stops after so many; None to predict an iteration.

        Raises:
            InvalidArgumentError: ``records`` is not an integer, or negative.
            NotFoundError: A segment was deleted since the scan was planned.
            CorruptDataError: What is needed to predict the requests is corrupt.
            StorageUnavailableError: The store failed in all attempts of its policy.
        """
        if records is not None:
            records = to_integer(records, "records", minimum=0)
        explained = explain(
            self.storage,
            self.plan,
            records=records,
            is_fair=self.order == "fair",
            committed=self._is_committed,
        )
        self._record.explain(explained)
        return explained

    @property
    def stats(self) -> ScanStats:
        """The requests of the iteration that began last, as far as it has come.

        Before the first iteration, and in another process, there are none.
        """
        return self._record.stats

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader that reads as it is consumed."""
        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_table(self) -> pa.Table:
        """Read everything into memory."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pandas(self) -> "pd.DataFrame":
        """Read everything into a pandas DataFrame.

        Raises:
            PluginNotInstalledError: pandas is not installed.
        """
        if find_spec("pandas") is None:
            msg = "to_pandas needs pandas: pip install 'tieredfs[pandas]'"
            raise PluginNotInstalledError(msg)
        frame: pd.DataFrame = self.to_table().to_pandas()
        return frame

    def split(self, target_bytes: SupportsIndex) -> list["Scan"]:
        """Split into scans of neighbouring segments, for workers.

        Args:
            target_bytes: Stored bytes of each part; a segment is not split, so a part
                may have more.

        Returns:
            Scans that together read the same records as this one, each once. One after
            the other they read partition by partition, in offset order: this is the
            order of this scan, unless it is ``fair``, which each part is only by
            itself.

        Raises:
            InvalidArgumentError: ``target_bytes`` is not an integer, or below 1.
        """
        most = to_integer(target_bytes, "target_bytes", minimum=1)
        return [replace(self, plan=part) for part in self.plan.split(most)]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export an Arrow stream that reads as it is consumed."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def __enter__(self) -> Self:
        """Use the scan in a with block."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave the with block; a scan holds no resources."""

    def __repr__(self) -> str:
        """Show the topic and the plan."""
        return f"Scan({self.topic!r}, {self.plan!r})"

    def _in_steps(self, offsets: int) -> Generator[pa.RecordBatch, None, None]:
        _, reads = self._begin()
        for read in reads:
            while not read.is_done:
                part = read.next_slice(offsets)
                yield from read_records(read, part, self._decoder(read))
                offsets *= WIDENING

    @property
    def _is_committed(self) -> bool:
        return self.isolation == "read_committed"

    def _begin(self) -> tuple[RemoteLogFetcher, list[PartitionRead]]:
        """Return a read of each partition, and what they download ahead with."""
        held = HeldBytes(max_kept_bytes(self.storage))
        counter = self._record.begin()
        storage = self.storage.with_observer(counter)
        attempts = Attempts.of(storage, counter.count_retry)
        fetcher = RemoteLogFetcher(storage, self.plan.fetch_size, attempts=attempts)
        reads = [
            PartitionRead(
                storage,
                slices,
                fetch_size=self.plan.fetch_size,
                skip_deleted=self.on_gap == "skip",
                committed=self._is_committed,
                held=held,
                fetcher=fetcher,
            )
            for slices in self.plan.partitions
        ]
        return fetcher, reads

    def _decoder(self, read: PartitionRead) -> RecordDecoder:
        number, options = read.partition.partition, self.storage.store.options
        return RecordDecoder(self.topic, number, self.columns, options)
