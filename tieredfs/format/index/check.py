"""Check the indexes of a segment against its log, in one pass over its batches.

A parser checks an index on its own. Only a comparison with the log shows that an entry
points to a batch that does not exist, or past a record that it should find.
"""

from collections.abc import Mapping
from typing import assert_never

from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.errors import CorruptIndexError, TieredFSError
from tieredfs.format.batch.control import ControlRecord, ControlType
from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.parse import parse_index
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex
from tieredfs.model import IndexType

__all__ = ["IndexCheck"]


class IndexCheck:
    """Compare the indexes of a segment with its batches, added in order.

    Attributes:
        malformed: The error of each index that cannot be parsed, by type.
    """

    def __init__(
        self,
        indexes: Mapping[IndexType, Buffer],
        base_offset: int,
        end_offset: int,
        log_size: int,
    ) -> None:
        """Parse the indexes; a malformed index counts as inconsistent with the log.

        Args:
            indexes: The bytes of each index that exists.
            base_offset: The segment's first offset.
            end_offset: The segment's last offset, inclusive.
            log_size: Size of the log in bytes.
        """
        self._base = base_offset
        self._end_offset = end_offset
        self._has_epochs = IndexType.LEADER_EPOCH in indexes
        self._inconsistent: dict[IndexType, str] = {}
        self._offsets = OffsetIndex.parse(b"", base_offset)
        self._times = TimeIndex.parse(b"", base_offset)
        self._aborts = TransactionIndex()
        self._producers = ProducerSnapshot()
        self._epochs = LeaderEpochs()
        for kind, data in indexes.items():
            try:
                self._parse(kind, data, log_size)
            except TieredFSError as error:
                self._inconsistent[kind] = str(error)
        self.malformed = dict(self._inconsistent)
        self._next = dict.fromkeys(IndexType, 0)
        self._awaited: int | None = None
        self._largest = -1
        self._holes = 0
        self._last = base_offset - 1
        self._written: dict[int, tuple[int, int]] = {}
        self._epoch = NO_EPOCH
        self._open: dict[int, int] = {}
        self._ended: dict[tuple[int, int], AbortedTransaction] = {}

    def add(self, header: BatchHeader, marker: ControlRecord | None = None) -> None:
        """Add the next batch, with the control record of a control batch."""
        self._see_offset(header)
        self._see_time(header)
        if not self._epochs.accepts(header.leader_epoch, header.base_offset):
            self._report(
                IndexType.LEADER_EPOCH,
                f"the batch at offset {header.base_offset} has epoch "
                f"{header.leader_epoch}",
            )
        self._see_producer(header, marker)
        written = header.last_offset - header.base_offset + 1
        if header.base_offset > self._last + 1 or header.record_count < written:
            self._holes += 1  # between batches or in one: removed by the log cleaner
        self._last = header.last_offset
        self._epoch = header.leader_epoch

    @property
    def is_compacted(self) -> bool:
        """Whether offsets are missing because the log cleaner removed records."""
        return self._holes > 0 or self._last < self._end_offset

    def finish(self) -> Mapping[IndexType, str]:
        """Return the inconsistency of each index that has one, after the last batch."""
        if self._awaited is not None or self._next[IndexType.OFFSET] < len(
            self._offsets
        ):
            self._report(IndexType.OFFSET, "its last entries do not point to a batch")
        if self._next[IndexType.TIMESTAMP] < len(self._times):
            self._report(
                IndexType.TIMESTAMP, "its last entries do not point to a batch"
            )
        # A checkpoint may begin after the segment does, but has to cover its end.
        if self._has_epochs and self._epoch > self._epochs.epoch_at(self._last):
            self._report(
                IndexType.LEADER_EPOCH, f"epoch {self._epoch} of the log is missing"
            )
        compacted = self.is_compacted
        self._finish_aborts(compacted=compacted)
        for producer in self._producers.producers:
            listed = (producer.producer_epoch, producer.last_offset)
            epoch, wrote = found = self._written.get(producer.producer_id, listed)
            if wrote > producer.last_offset or (found != listed and not compacted):
                self._report(
                    IndexType.PRODUCER_SNAPSHOT,
                    f"producer {producer.producer_id} wrote last offset {wrote} under "
                    f"epoch {epoch}; the snapshot has offset {producer.last_offset}, "
                    f"epoch {producer.producer_epoch}",
                )
        return dict(self._inconsistent)

    def _finish_aborts(self, *, compacted: bool) -> None:
        listed = {(e.producer_id, e.last_offset): e for e in self._aborts.entries}
        for name, seen in self._ended.items():
            entry = listed.get(name)
            if entry is None and seen.first_offset >= self._base:
                self._report(
                    IndexType.TRANSACTION,
                    "it lacks an aborted transaction that the log has",
                )
            if entry and not self._agrees(entry, seen, compacted=compacted):
                self._report(
                    IndexType.TRANSACTION,
                    f"the abort at offset {name[1]} differs from the log's {seen}",
                )
        if not compacted and listed.keys() - self._ended.keys():
            self._report(
                IndexType.TRANSACTION,
                "it has an aborted transaction that the log lacks",
            )

    def _agrees(
        self, entry: AbortedTransaction, seen: AbortedTransaction, *, compacted: bool
    ) -> bool:
        """Compare an abort in the index with the same abort in the segment's log.

        The log does not show records before the segment or removed by the cleaner.
        """
        if compacted:
            found = seen.first_offset
            return found < self._base or entry.first_offset <= found
        return all(
            indexed == found or indexed < self._base
            for indexed, found in (
                (entry.first_offset, seen.first_offset),
                (entry.last_stable_offset, seen.last_stable_offset),
            )
        )

    def _parse(self, kind: IndexType, data: Buffer, log_size: int) -> None:
        index = parse_index(kind, data, self._base, self._end_offset, log_size)
        match index:
            case OffsetIndex():
                self._offsets = index
            case TimeIndex():
                self._times = index
            case LeaderEpochs():
                self._epochs = index
            case TransactionIndex():
                self._aborts = index
                if any(e.last_offset > self._end_offset for e in index.entries):
                    raise CorruptIndexError("an abort is after the end of the segment")
            case ProducerSnapshot():
                self._producers = index
                for producer in index.producers:
                    offset = max(
                        producer.last_offset, producer.transaction_first_offset
                    )
                    if offset > self._end_offset:
                        raise CorruptIndexError(
                            f"offset {offset} of producer {producer.producer_id} is "
                            "after the end of the segment"
                        )
            case _:
                assert_never(index)

    def _see_offset(self, header: BatchHeader) -> None:
        number = self._next[IndexType.OFFSET]
        if number < len(self._offsets):
            entry = self._offsets.entry(number)
            if entry.position == header.position:
                if self._awaited is not None:
                    self._report(
                        IndexType.OFFSET,
                        f"offset {self._awaited} is not before the next entry's batch",
                    )
                self._awaited = entry.offset
                self._next[IndexType.OFFSET] += 1
            elif entry.position < header.position:
                self._report(
                    IndexType.OFFSET, f"no batch begins at position {entry.position}"
                )
                self._next[IndexType.OFFSET] += 1
        # An entry of an old broker has the last offset that one request appended.
        if self._awaited is not None and self._awaited <= header.last_offset:
            if self._awaited != header.last_offset:
                self._report(
                    IndexType.OFFSET, f"no batch ends at offset {self._awaited}"
                )
            self._awaited = None

    def _see_time(self, header: BatchHeader) -> None:
        while (number := self._next[IndexType.TIMESTAMP]) < len(self._times):
            entry = self._times.entry(number)
            if entry.offset > header.last_offset:
                break
            if (
                entry.offset < header.base_offset
                or entry.timestamp != header.max_timestamp
                or self._largest >= entry.timestamp
            ):
                self._report(
                    IndexType.TIMESTAMP,
                    f"{entry.timestamp} ms is not the largest timestamp up to offset "
                    f"{entry.offset}",
                )
            self._next[IndexType.TIMESTAMP] += 1
        self._largest = max(self._largest, header.max_timestamp)

    def _see_producer(self, header: BatchHeader, marker: ControlRecord | None) -> None:
        producer = header.producer_id
        if marker is None:
            if header.is_control:
                return
            if header.record_count:
                self._written[producer] = header.producer_epoch, header.last_offset
                if header.is_transactional:
                    self._open.setdefault(producer, header.base_offset)
        elif marker.type in {ControlType.ABORT, ControlType.COMMIT}:
            epoch, _ = self._written.get(producer, (header.producer_epoch, -1))
            if epoch != header.producer_epoch:  # a new epoch resets the last offset
                self._written[producer] = header.producer_epoch, -1
            first = self._open.pop(producer, self._base - 1)
            if marker.type is ControlType.ABORT:
                last = header.last_offset
                stable = min(self._open.values(), default=last + 1)
                ended = AbortedTransaction(producer, first, last, stable)
                self._ended[producer, last] = ended

    def _report(self, kind: IndexType, detail: str) -> None:
        self._inconsistent.setdefault(kind, detail)
