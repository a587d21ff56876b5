"""What Kafka's own two layouts share: a segment is a log file with files beside it."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import CorruptBatchError, CorruptIndexError
from tieredfs.format.batch import BatchHeader
from tieredfs.format.leader_epoch_checkpoint import parse_leader_epochs
from tieredfs.format.offset_index import OffsetIndex
from tieredfs.format.producer_snapshot import ProducerSnapshot
from tieredfs.format.time_index import TimeIndex
from tieredfs.model import IndexType, SegmentIndexes, SegmentMetadata
from tieredfs.storage.contract import RemoteStorageManager
from tieredfs.storage.log_stream import read_batches

__all__ = ["LOG_SUFFIX", "SUFFIXES", "describe_segment"]

LOG_SUFFIX: Final = "log"

SUFFIXES: Final = {
    IndexType.OFFSET: "index",
    IndexType.TIMESTAMP: "timeindex",
    IndexType.PRODUCER_SNAPSHOT: "snapshot",
    IndexType.LEADER_EPOCH: "leader_epoch_checkpoint",
    IndexType.TRANSACTION: "txnindex",
}

_DESCRIBING = (
    IndexType.OFFSET,
    IndexType.TIMESTAMP,
    IndexType.PRODUCER_SNAPSHOT,
    IndexType.LEADER_EPOCH,
)
_LAST = (1 << 63) - 1


def describe_segment(
    storage: RemoteStorageManager,
    metadata: SegmentMetadata,
    *,
    active: bool = False,
    compacted: bool = False,
) -> SegmentMetadata:
    """Tell a segment's end, largest timestamp and epochs from its indexes and its log.

    The indexes say where to look; what is told is what the log holds from there on.
    So an index that was cut off costs a longer read and no wrong answer, and one that
    is untrue to the log is an error.

    Args:
        storage: Where the segment is.
        metadata: As it was listed.
        active: Whether a broker may be writing it: then the log may end in part of a
            batch, which is left out of the size.
        compacted: Whether the cleaner may have removed batches since the producer
            snapshot was taken.

    Raises:
        CorruptIndexError: An index is malformed or untrue to the log.
        CorruptBatchError: A batch at the end of the log is malformed or out of place.
    """
    size = metadata.size or 0
    indexes = storage.fetch_indexes(metadata, _DESCRIBING)
    facts = _Facts(metadata, indexes, size, compacted=compacted)
    headers = [
        batch.header
        for batch in read_batches(
            lambda start, end: storage.fetch_log_segment(metadata, start, end),
            size,
            name=str(metadata),
            start=facts.position,
            torn_tail=active,
        )
    ]
    facts.check(headers)
    last = headers[-1] if headers else None
    end_offset = last.last_offset if last else metadata.start_offset - 1
    if metadata.end_offset is not None:
        if end_offset > metadata.end_offset:
            msg = f"{metadata}: the log goes on to offset {end_offset}"
            raise CorruptBatchError(msg)
        end_offset = metadata.end_offset
    return replace(
        metadata,
        end_offset=end_offset,
        max_timestamp_ms=max((h.max_timestamp for h in headers), default=-1),
        leader_epochs=tuple(
            entry for entry in facts.epochs.entries if entry.start_offset <= end_offset
        ),
        size=last.end if active and last else size,
    )


class _Facts:
    """What the indexes of a segment say, to be compared with its log."""

    def __init__(
        self,
        metadata: SegmentMetadata,
        indexes: SegmentIndexes,
        size: int,
        *,
        compacted: bool,
    ) -> None:
        base, self.name = metadata.start_offset, str(metadata)
        self.base = base
        self.compacted = compacted
        self.offsets = OffsetIndex.parse(
            indexes.get(IndexType.OFFSET, b""),
            base,
            log_size=size,
            name=f"{self.name}.{SUFFIXES[IndexType.OFFSET]}",
        )
        self.times = TimeIndex.parse(
            indexes.get(IndexType.TIMESTAMP, b""),
            base,
            name=f"{self.name}.{SUFFIXES[IndexType.TIMESTAMP]}",
        )
        self.epochs = LeaderEpochs()
        if IndexType.LEADER_EPOCH in indexes:
            self.epochs = parse_leader_epochs(
                indexes[IndexType.LEADER_EPOCH],
                name=f"{self.name}.{SUFFIXES[IndexType.LEADER_EPOCH]}",
            )
        self.producers = ProducerSnapshot()
        if IndexType.PRODUCER_SNAPSHOT in indexes:
            self.producers = ProducerSnapshot.parse(
                indexes[IndexType.PRODUCER_SNAPSHOT],
                name=f"{self.name}.{SUFFIXES[IndexType.PRODUCER_SNAPSHOT]}",
            )
        # From here on the log decides: no later batch can be missing from the indexes
        # without being seen.
        self.position = min(
            self.offsets.lookup(_LAST).position,
            self.offsets.lookup(self.times.lookup(_LAST).offset).position,
        )

    def check(self, headers: list[BatchHeader]) -> None:
        """Compare the end of the log with what the indexes say of it."""
        for detail in self._contradictions(headers):
            msg = f"{self.name}: {detail}"
            raise CorruptIndexError(msg)

    def _contradictions(self, headers: list[BatchHeader]) -> Iterator[str]:
        if headers and headers[0].base_offset < self.base:
            yield f"its log begins at offset {headers[0].base_offset}"
        yield from self._untrue_offsets(headers)
        yield from self._untrue_times(headers)
        yield from self._untrue_epochs(headers)
        yield from self._untrue_producers(headers)

    def _untrue_offsets(self, headers: list[BatchHeader]) -> Iterator[str]:
        positions = {header.position for header in headers}
        lasts = {header.last_offset for header in headers}
        for number in range(len(self.offsets)):
            entry = self.offsets.entry(-1 - number)
            if entry.position < self.position:
                break
            if entry.position not in positions or entry.offset not in lasts:
                yield f"no batch is what the offset index says: {entry}"

    def _untrue_times(self, headers: list[BatchHeader]) -> Iterator[str]:
        if not len(self.times):
            return
        entry = self.times.entry(-1)
        stamps = {
            header.max_timestamp
            for header in headers
            if header.base_offset <= entry.offset <= header.last_offset
        }
        if stamps != {entry.timestamp}:
            yield f"no batch is what the time index says: {entry}"

    def _untrue_epochs(self, headers: list[BatchHeader]) -> Iterator[str]:
        for header in headers:
            if not self.epochs.accepts(header.leader_epoch, header.base_offset):
                yield (
                    f"the batch at offset {header.base_offset} has leader epoch "
                    f"{header.leader_epoch}, its checkpoint says "
                    f"{self.epochs.epoch_at(header.base_offset)}"
                )

    def _untrue_producers(self, headers: list[BatchHeader]) -> Iterator[str]:
        written = {
            header.producer_id: header.last_offset
            for header in headers
            if not header.is_control and header.record_count
        }
        for producer in self.producers.producers:
            wrote = written.get(producer.producer_id, producer.last_offset)
            if wrote > producer.last_offset or (
                wrote < producer.last_offset and not self.compacted
            ):
                yield (
                    f"producer {producer.producer_id} wrote offset {wrote} last, its "
                    f"snapshot says {producer.last_offset}"
                )
