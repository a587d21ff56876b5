"""Check that one stored segment is whole: its object, its indexes, its log."""

from collections.abc import Iterator, Mapping

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    CorruptBatchError,
    CorruptDataError,
    CorruptIndexError,
    NotFoundError,
    PermissionDeniedError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.format.index.check import IndexCheck
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.changed_segment import changed_error
from tieredfs.storage.segment_log.inspection import (
    Inspection,
    PriorState,
    inspect_segment,
)
from tieredfs.storage.segment_log.source import LogSource
from tieredfs.storage.segment_log.stream import read_batches

__all__ = ["SegmentCheck"]


class SegmentCheck:
    """Check segments of one storage, one at a time."""

    def __init__(self, storage: RemoteStorageManager, *, reads_logs: bool) -> None:
        """Create a check, without sending a request.

        Args:
            storage: Where the segments are.
            reads_logs: Whether every byte of their logs is read, and not only their
                indexes and manifests.
        """
        self._storage = storage
        self._reads_logs = reads_logs

    def problems(
        self, segment: SegmentMetadata, before: SegmentMetadata | None
    ) -> Iterator[TieredFSError]:
        """Yield each inconsistency; raise the error of the first unreadable part.

        Args:
            segment: The segment with its end offset, and its size if logs are read.
            before: The previous segment, if there is one.

        Raises:
            CorruptDataError: The log or an index is malformed, or not what was stored.
            UnsupportedFormatError: A newer release has written it.
            NotFoundError: The segment is gone.
        """
        name = self._storage.name_of(segment)
        indexes = self._storage.fetch_all_indexes(segment)
        end = segment.start_offset - 1
        if segment.end_offset is not None:
            end = segment.end_offset
        epoch = None
        if not self._reads_logs:
            truth = IndexCheck(indexes, segment.start_offset, end, segment.size or 0)
            inconsistent: Mapping[IndexType, str] = truth.malformed
        else:
            log = _Sequential(self._storage.stream_log(segment))
            source = LogSource(segment.size or 0, name, log.fetch, is_steady=False)
            lead = self._lead(segment, before)
            batches = read_batches(source)
            inspection = inspect_segment(batches, segment, indexes, lead)
            log.finish()
            if not self._storage.is_current(segment, inspection.last_offset):
                yield changed_error(self._storage, segment)
            lost = inspection.lost_from
            if lost is not None and not self._storage.is_compacted(segment.partition):
                yield CorruptBatchError(
                    f"{name}: the log ends before offset {lost}, the segment at {end}"
                )
            inconsistent, epoch = inspection.inconsistent, inspection.facts.epoch
            yield from self._inconsistent_epochs(segment, inspection)
            latest = segment.max_timestamp_ms
            if latest not in {None, inspection.facts.max_timestamp_ms}:
                yield CorruptBatchError(
                    f"{name}: its largest timestamp is "
                    f"{inspection.facts.max_timestamp_ms}, not {latest}"
                )
        for kind, detail in inconsistent.items():
            yield CorruptIndexError(f"{name}: {kind} index: {detail}")
        if epoch is not None:
            self._storage.check_key(segment, epoch)

    def _lead(
        self, segment: SegmentMetadata, before: SegmentMetadata | None
    ) -> PriorState:
        """Return the producers where a segment begins, if they are known."""
        try:
            if before is None or before.end_offset != segment.start_offset - 1:
                data = self._storage.fetch_producers_before(segment)
            else:
                data = self._storage.fetch_index(before, IndexType.PRODUCER_SNAPSHOT)
            return PriorState(ProducerSnapshot.parse(data))
        except (
            CorruptDataError,
            NotFoundError,
            PermissionDeniedError,
            UnsupportedFormatError,
        ):
            return PriorState()  # reported for the previous segment

    def _inconsistent_epochs(
        self, segment: SegmentMetadata, inspection: Inspection
    ) -> Iterator[TieredFSError]:
        """Yield an error for a batch whose epoch contradicts the segment's lineage."""
        if segment.leader_epochs is None:
            segment = self._storage.describe(segment)
        lineage = LeaderEpochs(segment.leader_epochs or ())
        for epoch, offset in inspection.facts.epochs:
            if not lineage.accepts(epoch, offset):
                yield CorruptBatchError(
                    f"{self._storage.name_of(segment)}: leader epoch {epoch} at offset "
                    f"{offset}, where its lineage has {lineage.epoch_at(offset)}"
                )


class _Sequential:
    """A stream of pieces, read at increasing positions."""

    def __init__(self, pieces: Iterator[memoryview]) -> None:
        self._pieces = pieces
        self._held = memoryview(b"")
        self._at = 0

    def fetch(self, start: int, end: int) -> memoryview:
        """Return the next bytes, ``[start, end)``; at the end exhaust the stream."""
        parts = [self._held]
        have = len(self._held)
        while self._at + have < end:
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(piece)
            have += len(piece)
        whole = memoryview(b"".join(parts)) if len(parts) > 1 else parts[0]
        taken = end - start
        self._held = whole[taken:]
        self._at = end
        return whole[:taken]

    def finish(self) -> None:
        """Exhaust the stream, which verifies its checksum at the end."""
        for _ in self._pieces:
            pass
