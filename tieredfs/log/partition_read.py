"""The batches that a plan has of one partition, read to the end or in turns.

Retention deletes segments at any time, and a plan may be hours old when it is read. If
gaps are skipped, the rest of the plan is then made again from a new listing: what
another segment holds is read, and what none holds is left out.
"""

from collections import deque
from collections.abc import Iterable, Iterator

from tieredfs.errors import CorruptBatchError, NotFoundError
from tieredfs.format.batch import claimed_size
from tieredfs.format.log_batches import LogBatches
from tieredfs.log.catalog import SegmentCatalog, SegmentContent, content_of
from tieredfs.log.plan import SegmentSlice
from tieredfs.log.present import plan_present
from tieredfs.log.reader import TieredReader, read_slice
from tieredfs.storage import RemoteStorageManager

__all__ = ["PartitionRead"]


class PartitionRead:
    """Read the slices of one partition in offset order.

    Between two turns nothing is held but where to go on, so any number of partitions
    can be read in turn in the memory of one.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        slices: Iterable[SegmentSlice],
        *,
        fetch_size: int,
        skip_deleted: bool,
        max_batch_bytes: int,
    ) -> None:
        """Fetch nothing yet.

        Args:
            storage: Where the segments are.
            slices: What to read; there is one at least.
            fetch_size: Bytes to fetch at once.
            skip_deleted: Whether to read what is left when a segment is gone.
            max_batch_bytes: Most bytes that a compressed batch may decompress to.
        """
        self._storage = storage
        self._left = deque(slices)
        self.partition = self._left[0].segment.partition
        self._fetch_size = fetch_size
        self._skip_deleted = skip_deleted
        self._max_batch_bytes = max_batch_bytes
        self._gone: set[SegmentContent] = set()

    @property
    def is_done(self) -> bool:
        """Whether everything has been read."""
        return not self._left

    def batches(self, *, one_turn: bool = False) -> Iterator[LogBatches]:
        """Yield the batches that are left, or those that one request fetches.

        Args:
            one_turn: Whether to end before a second request, unless a batch needs it or
                the first one reached the end of a short segment.

        Raises:
            NotFoundError: A segment is gone, and that is an error; or so is everything
                else: this may not be the store that the plan was made from.
            CorruptDataError: What is there is not what it should be.
        """
        taken = 0
        while self._left:
            part = self._left[0]
            try:
                for found in read_slice(self._storage, part, self._fetch_size):
                    if not len(found):  # an error comes behind it
                        continue
                    self._left[0] = part.behind(found)
                    taken += int(found["size"].sum())
                    yield found
                    has_more = self._left[0].start_offset < part.end_offset
                    if one_turn and has_more and _is_last_of_fetch(found):
                        return
                self._left.popleft()
            except NotFoundError as error:
                if not self._skip_deleted:
                    raise
                self._plan_again(error)
            if one_turn and taken >= self._fetch_size:
                return

    def _plan_again(self, error: NotFoundError) -> None:
        """Plan what is left when a segment turns out to be gone."""
        first = self._left[0]
        self._gone.add(content_of(first.segment))
        catalog = SegmentCatalog(self._storage, self._max_batch_bytes)
        reader = TieredReader(self._storage, catalog, self.partition)
        start, end = first.start_offset, self._left[-1].end_offset
        try:
            self._left = deque(plan_present(reader, start, end, without=self._gone))
        except NotFoundError:
            if not self._storage.list_partitions():
                raise error from None
            self._left.clear()  # the others are there: this one was deleted


def _is_last_of_fetch(batches: LogBatches) -> bool:
    """Tell whether no whole batch lies behind these in what was fetched."""
    rest = batches.buffer[int(batches["end"][-1]) :]
    try:
        size = claimed_size(rest, 0, name=batches.name)
    except CorruptBatchError:  # raised when it is read
        return False
    return size is None or size > len(rest)
