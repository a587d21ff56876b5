"""Whether the indexes of a segment are true to its log: one pass over its batches.

A parser sees what an index is in itself. Only beside the log is it seen that an entry
leads to a batch that is not there, or past a record it should have led to.
"""

from collections.abc import Mapping

from tieredfs.epochs import NO_EPOCH, LeaderEpochs
from tieredfs.errors import CorruptIndexError, TieredFSError
from tieredfs.format.batch.control import ControlRecord, ControlType
from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.buffers import Buffer
from tieredfs.format.index.leader_epochs import parse_leader_epochs
from tieredfs.format.index.offset import OffsetIndex
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import TimeIndex
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex
from tieredfs.model import IndexType

__all__ = ["IndexCheck"]


class IndexCheck:
    """Take the batches of one log, in order, and judge the indexes beside it.

    Attributes:
        malformed: What is wrong with each index that is, before any batch is seen.
    """

    def __init__(
        self,
        indexes: Mapping[IndexType, Buffer],
        base_offset: int,
        end_offset: int,
        log_size: int,
    ) -> None:
        """Parse the indexes; one that is malformed is untrue.

        Args:
            indexes: The bytes of each index there is.
            base_offset: The segment's first offset.
            end_offset: The segment's last offset, inclusive.
            log_size: Bytes of the log.
        """
        self._base = base_offset
        self._end_offset = end_offset
        self._has_epochs = IndexType.LEADER_EPOCH in indexes
        self._untrue: dict[IndexType, str] = {}
        self._offsets = OffsetIndex.parse(b"", base_offset)
        self._times = TimeIndex.parse(b"", base_offset)
        self._aborts = TransactionIndex()
        self._producers = ProducerSnapshot()
        self._epochs = LeaderEpochs()
        for kind, data in indexes.items():
            try:
                self._parse(kind, data, base_offset, log_size)
            except TieredFSError as error:
                self._untrue[kind] = str(error)
        self.malformed = dict(self._untrue)
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
        """Take the next batch, with the marker that a control batch holds."""
        self._see_offset(header)
        self._see_time(header)
        if not self._epochs.accepts(header.leader_epoch, header.base_offset):
            self._say(
                IndexType.LEADER_EPOCH,
                f"the batch at offset {header.base_offset} has epoch "
                f"{header.leader_epoch}",
            )
        self._see_producer(header, marker)
        written = header.last_offset - header.base_offset + 1
        if header.base_offset > self._last + 1 or header.record_count < written:
            self._holes += 1  # between batches or in one: the cleaner has been here
        self._last = header.last_offset
        self._epoch = header.leader_epoch

    @property
    def is_compacted(self) -> bool:
        """Whether offsets are missing: the cleaner has been here."""
        return self._holes > 0 or self._last < self._end_offset

    def finish(self) -> Mapping[IndexType, str]:
        """Return what is untrue of each index that is, after the last batch."""
        if self._awaited is not None or self._next[IndexType.OFFSET] < len(
            self._offsets
        ):
            self._say(IndexType.OFFSET, "its last entries lead to no batch")
        if self._next[IndexType.TIMESTAMP] < len(self._times):
            self._say(IndexType.TIMESTAMP, "its last entries lead to no batch")
        # It may begin behind the segment, where the whole log does, but not at its end.
        if self._has_epochs and self._epoch > self._epochs.epoch_at(self._last):
            self._say(IndexType.LEADER_EPOCH, f"it does not have epoch {self._epoch}")
        compacted = self.is_compacted
        self._finish_aborts(compacted=compacted)
        for producer in self._producers.producers:
            said = (producer.producer_epoch, producer.last_offset)
            epoch, wrote = found = self._written.get(producer.producer_id, said)
            if wrote > producer.last_offset or (found != said and not compacted):
                self._say(
                    IndexType.PRODUCER_SNAPSHOT,
                    f"producer {producer.producer_id} wrote offset {wrote} last, under "
                    f"epoch {epoch}; it says {producer.last_offset}, "
                    f"{producer.producer_epoch}",
                )
        return dict(self._untrue)

    def _finish_aborts(self, *, compacted: bool) -> None:
        listed = {(e.producer_id, e.last_offset): e for e in self._aborts.entries}
        for name, seen in self._ended.items():
            entry = listed.get(name)
            if entry is None and seen.first_offset >= self._base:
                self._say(IndexType.TRANSACTION, "it lacks an abort that the log has")
            if entry and not self._agrees(entry, seen, compacted=compacted):
                self._say(
                    IndexType.TRANSACTION, f"the abort at offset {name[1]} is {seen}"
                )
        if not compacted and listed.keys() - self._ended.keys():
            self._say(IndexType.TRANSACTION, "it has an abort that the log has not")

    def _agrees(
        self, entry: AbortedTransaction, seen: AbortedTransaction, *, compacted: bool
    ) -> bool:
        """Compare an abort with what the segment's log shows of it.

        What lies before the segment, or was removed by the cleaner, it does not show.
        """
        if compacted:
            shown = seen.first_offset
            return shown < self._base or entry.first_offset <= shown
        return all(
            told == shown or told < self._base
            for told, shown in (
                (entry.first_offset, seen.first_offset),
                (entry.last_stable_offset, seen.last_stable_offset),
            )
        )

    def _parse(
        self, kind: IndexType, data: Buffer, base_offset: int, log_size: int
    ) -> None:
        if kind is IndexType.OFFSET:
            self._offsets = OffsetIndex.parse(
                data, base_offset, end_offset=self._end_offset, log_size=log_size
            )
        elif kind is IndexType.TIMESTAMP:
            self._times = TimeIndex.parse(
                data, base_offset, end_offset=self._end_offset
            )
        elif kind is IndexType.TRANSACTION:
            self._aborts = TransactionIndex.parse(data, base_offset)
            if any(e.last_offset > self._end_offset for e in self._aborts.entries):
                raise CorruptIndexError("an abort lies behind the segment")
        elif kind is IndexType.PRODUCER_SNAPSHOT:
            self._producers = ProducerSnapshot.parse(data)
            for producer in self._producers.producers:
                said = max(producer.last_offset, producer.transaction_first_offset)
                if said > self._end_offset:
                    raise CorruptIndexError(
                        f"producer {producer.producer_id} wrote offset {said}, behind "
                        "the segment"
                    )
        else:
            self._epochs = parse_leader_epochs(data)

    def _see_offset(self, header: BatchHeader) -> None:
        number = self._next[IndexType.OFFSET]
        if number < len(self._offsets):
            entry = self._offsets.entry(number)
            if entry.position == header.position:
                if self._awaited is not None:
                    self._say(
                        IndexType.OFFSET, f"offset {self._awaited} lies behind the next"
                    )
                self._awaited = entry.offset
                self._next[IndexType.OFFSET] += 1
            elif entry.position < header.position:
                self._say(
                    IndexType.OFFSET, f"no batch begins at position {entry.position}"
                )
                self._next[IndexType.OFFSET] += 1
        # An old broker's entry is the last offset of all that one request appended.
        if self._awaited is not None and self._awaited <= header.last_offset:
            if self._awaited != header.last_offset:
                self._say(IndexType.OFFSET, f"no batch ends at offset {self._awaited}")
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
                self._say(
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
            if epoch != header.producer_epoch:  # a new epoch forgets what was written
                self._written[producer] = header.producer_epoch, -1
            first = self._open.pop(producer, self._base - 1)
            if marker.type is ControlType.ABORT:
                last = header.last_offset
                stable = min(self._open.values(), default=last + 1)
                ended = AbortedTransaction(producer, first, last, stable)
                self._ended[producer, last] = ended

    def _say(self, kind: IndexType, detail: str) -> None:
        self._untrue.setdefault(kind, detail)
