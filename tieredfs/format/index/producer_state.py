"""Track the producers of a log: their state, and the transactions they abort.

Source: Kafka's ProducerStateManager and ProducerAppendInfo; KIP-98.
"""

from dataclasses import dataclass

from tieredfs.format.batch.control import ControlRecord, ControlType
from tieredfs.format.batch.header import BatchHeader
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.format.index.txn import AbortedTransaction

__all__ = ["ProducerTracker"]


@dataclass(slots=True)
class ProducerTracker:
    """Track the state of a log's producers from its batches, added in order.

    Attributes:
        producers: The state of each producer, by id.
    """

    producers: dict[int, ProducerState]

    @classmethod
    def after(cls, snapshot: ProducerSnapshot) -> "ProducerTracker":
        """Start from the state in a snapshot."""
        return cls({state.producer_id: state for state in snapshot.producers})

    def snapshot(self) -> ProducerSnapshot:
        """Return the state after the batches added so far."""
        return ProducerSnapshot(tuple(self.producers.values()))

    def add(self, header: BatchHeader) -> None:
        """Add the next data batch; a batch without a producer id changes nothing."""
        if header.producer_id < 0:
            return
        before = self.producers.get(header.producer_id)
        opened = -1 if before is None else before.transaction_first_offset
        if header.is_transactional and opened < 0:
            opened = header.base_offset
        self.producers[header.producer_id] = ProducerState(
            header.producer_id,
            header.producer_epoch,
            header.last_sequence,
            header.last_offset,
            header.last_offset - header.base_offset,
            header.max_timestamp,
            -1 if before is None else before.coordinator_epoch,
            opened,
        )

    def end_transaction(
        self, header: BatchHeader, marker: ControlRecord
    ) -> AbortedTransaction | None:
        """Add the next batch, a control batch with a transaction marker.

        Returns:
            The aborted transaction; None when the marker does not abort an open one.
        """
        if marker.type not in {ControlType.ABORT, ControlType.COMMIT}:
            return None
        producer_id = header.producer_id
        before = self.producers.get(producer_id) or _unseen(header)
        if before.producer_epoch != header.producer_epoch:
            before = _unseen(header)._replace(
                transaction_first_offset=before.transaction_first_offset
            )
        first = before.transaction_first_offset
        self.producers[producer_id] = before._replace(
            last_timestamp=header.max_timestamp,
            coordinator_epoch=marker.coordinator_epoch or 0,
            transaction_first_offset=-1,
        )
        if first < 0 or marker.type is not ControlType.ABORT:
            return None
        open_firsts = [
            state.transaction_first_offset
            for state in self.producers.values()
            if state.transaction_first_offset >= 0
        ]
        stable = min(open_firsts, default=header.last_offset + 1)
        return AbortedTransaction(producer_id, first, header.last_offset, stable)


def _unseen(header: BatchHeader) -> ProducerState:
    return ProducerState(
        header.producer_id, header.producer_epoch, -1, -1, 0, -1, -1, -1
    )
