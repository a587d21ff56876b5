"""Which records of a partition were aborted, from its transaction indexes.

The index of a segment lists the transactions that are aborted *in* it. A transaction
may have begun in an earlier segment, so the index that lists the records of a segment
may be that of a following one. Segments are looked at in order, until no transaction
that began early enough is left open: each index is fetched once, those that are known
to be empty never. Source: KIP-98, Kafka's TransactionIndex.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from math import inf

import numpy as np
import numpy.typing as npt

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import NotFoundError, StorageUnavailableError
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.txn import (
    AbortedRanges,
    AbortedTransaction,
    TransactionIndex,
)
from tieredfs.log.planning.catalog import SegmentContent, content_of
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.errors import gap_error
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.planning.stable_offset import first_open_offset
from tieredfs.model import IndexType, SegmentMetadata
from tieredfs.storage import Capability, RemoteStorageManager

__all__ = ["AbortedBatches"]

_EARLIEST = 0
_MAX_LISTINGS = 100
"""How often the segments are listed again because one of them was gone."""


class AbortedBatches:
    """Determine which batches of a partition were aborted, read in offset order."""

    def __init__(
        self,
        storage: RemoteStorageManager,
        slices: Iterable[SegmentSlice],
        following: Callable[[int], Iterator[SegmentMetadata]],
        *,
        skip_gaps: bool,
    ) -> None:
        """Create it without sending a request.

        Args:
            storage: Where the segments are.
            slices: What is read, in offset order; at least one.
            following: Lists the segments that end at an offset or later, with their end
                offsets and, where they overlap, their epochs.
            skip_gaps: Whether to take a transaction as committed whose end is in no
                segment.
        """
        self._storage = storage
        self._skip_gaps = skip_gaps
        self._following = following
        self._listings = 0
        self._gone: dict[SegmentContent, NotFoundError] = {}
        rest = iter(slices)
        first = next(rest)
        self._lineage = first.lineage
        read = (part.segment for part in chain([first], rest))
        self._segments: Iterator[SegmentMetadata] = chain(read, self._listed())
        self._known: set[tuple[int, str, bytes]] = set()
        self._reached = _EARLIEST
        # Of transactions that began below it, the indexes so far contain all aborts.
        self._decided: float = _EARLIEST
        self._aborted: list[AbortedTransaction] = []
        self._ranges: AbortedRanges | None = None

    def hidden(self, batches: LogBatches) -> npt.NDArray[np.bool_]:
        """Return for each batch whether its records were aborted.

        Args:
            batches: The next batches of the partition.

        Raises:
            NotFoundError: A segment is gone.
            CorruptIndexError: A transaction index is malformed.
            CorruptDataError: A transaction may end in a gap, and gaps are not skipped.
        """
        rows = np.flatnonzero(batches.is_transactional)
        if not rows.size:
            return np.zeros(len(batches), np.bool_)
        first = int(batches["base_offset"][0])
        self.find(first, int(batches["last_offset"][rows[-1]]) + 1)
        if self._ranges is None:
            self._aborted = [one for one in self._aborted if one.last_offset >= first]
            self._ranges = AbortedRanges.of(self._aborted)
        return self._ranges.are_aborted(batches)

    def transactions(self, start: int, end: int) -> tuple[AbortedTransaction, ...]:
        """Return the aborted transactions that touch the offsets ``[start, end)``.

        Raises:
            TieredFSError: As in ``hidden``.
        """
        self.find(start, end)
        return tuple(
            one
            for one in self._aborted
            if one.first_offset < end and one.last_offset >= start
        )

    def find(self, start: int, end: int) -> None:
        """Fetch the indexes that list the aborted records of offsets ``[start, end)``.

        Raises:
            TieredFSError: As in ``hidden``.
        """
        while self._decided < end:
            try:
                segment = next(self._segments, None)
            except NotFoundError as error:  # it is described, and gone meanwhile
                self._list_again(error)
                continue
            if segment is None:
                self._decided = inf
                return
            own, stop = LeaderEpochs(segment.leader_epochs or ()), end_of(segment)
            agreed = own.agreement_end(self._lineage, segment.start_offset, stop)
            if stop > start:
                self._check_gap(segment)
                try:
                    self._add(segment, agreed)
                except NotFoundError as error:  # a copy may have taken its place
                    self._list_again(error, segment)
                    continue
            self._reached = max(self._reached, agreed)

    def _list_again(
        self, error: NotFoundError, segment: SegmentMetadata | None = None
    ) -> None:
        """Go on with what is stored now.

        Raises:
            NotFoundError: Gaps are not skipped, and the segment is still listed.
            StorageUnavailableError: Segments go faster than they are listed.
        """
        if not self._skip_gaps:
            if segment is None or content_of(segment) in self._gone:
                raise error
            self._gone[content_of(segment)] = error
        self._listings += 1
        if self._listings > _MAX_LISTINGS:
            msg = f"{error}: segments are deleted faster than they are listed"
            raise StorageUnavailableError(msg) from error
        self._segments = self._listed()

    def _check_gap(self, segment: SegmentMetadata) -> None:
        """Check that no offset is missing before a segment, other than the first."""
        reached = self._reached
        if _EARLIEST < reached < segment.start_offset and not self._skip_gaps:
            url = self._storage.store.url
            gap = gap_error(url, segment, reached, segment.start_offset)
            raise next(iter(self._gone.values()), gap)

    def _add(self, segment: SegmentMetadata, agreed: int) -> None:
        """Add what the indexes of a segment contain.

        Args:
            segment: The segment.
            agreed: End (exclusive) of its offsets that are of the lineage.
        """
        content = segment.start_offset, str(segment.id), segment.custom_metadata
        if content in self._known or self._storage.is_txn_index_empty(segment):
            return
        self._known.add(content)
        kinds = [IndexType.TRANSACTION]
        if Capability.SINGLE_REQUEST_INDEXES in self._storage.capabilities:
            kinds.append(IndexType.PRODUCER_SNAPSHOT)
        found = self._storage.fetch_indexes(segment, kinds)
        name = self._storage.name_of(segment)
        index = TransactionIndex.parse(
            found.get(IndexType.TRANSACTION, b""),
            segment.start_offset,
            name=f"{name}: transaction index",
        )
        kept = [one for one in index.entries if one.last_offset < agreed]
        if kept:
            self._aborted += kept
            self._ranges = None
            self._decided = max(self._decided, kept[-1].last_stable_offset)
        snapshot = found.get(IndexType.PRODUCER_SNAPSHOT)
        if snapshot is not None and agreed == end_of(segment):
            producers = ProducerSnapshot.parse(
                snapshot, name=f"{name}: producer snapshot"
            )
            self._decided = max(self._decided, first_open_offset(producers, agreed))

    def _listed(self) -> Iterator[SegmentMetadata]:
        """List what follows what was looked at, when it is needed."""
        yield from self._following(self._reached)
