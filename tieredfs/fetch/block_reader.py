"""Read logs by blocks that are fetched once, a few of them ahead."""

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final

from cachetools import LRUCache

from tieredfs.cache.log_blocks import BlockKey, LogBlocks
from tieredfs.errors import DeadlineExceededError, TieredFSError
from tieredfs.fetch.attempts import fetch_once
from tieredfs.fetch.purgatory import FetchPurgatory
from tieredfs.fetch.window import LogRange
from tieredfs.model import SegmentMetadata
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.objects.concurrency.waiting import result_of
from tieredfs.storage import RemoteStorageManager

__all__ = ["BlockReader"]

_BLOCK_BYTES: Final = 4 << 20
_WINDOW: Final = 4
_MAX_KNOWN: Final = 1024


class BlockReader:
    """Read the logs of a storage from blocks that all its readers share.

    The blocks of a log begin at multiples of their size: 4 MiB, or whole chunks where a
    log is stored in chunks. So they are the same for all readers, from any offset.
    """

    def __init__(
        self,
        storage: RemoteStorageManager,
        blocks: LogBlocks,
        purgatory: FetchPurgatory,
        *,
        block_bytes: int = _BLOCK_BYTES,
        window: int = _WINDOW,
    ) -> None:
        """Create a reader, without sending a request.

        Args:
            storage: Where the segments are.
            blocks: Holds the blocks, of this storage alone.
            purgatory: Fetches them.
            block_bytes: Bytes of a block.
            window: How many blocks are fetched ahead.
        """
        self.storage = storage
        self._blocks = blocks
        self._purgatory = purgatory
        self._block_bytes = block_bytes
        self._window = window
        self._lock = make_lock()
        self._sizes: LRUCache[SegmentMetadata, int] = LRUCache(_MAX_KNOWN)

    def read(self, segment: SegmentMetadata, start: int) -> memoryview:
        """Return the bytes of a segment's log from ``start`` to the end of a block.

        Args:
            segment: The segment, whose size is known.
            start: First byte.

        Returns:
            At least one byte.

        Raises:
            NotFoundError: The segment is gone.
            CorruptDataError: The log is not what was stored.
            StorageUnavailableError: The store failed until the deadline, or too many
                fetches are waiting.
            DeadlineExceededError: The block did not come in time; it is still being
                fetched, for the next one who asks.
        """
        first = start - start % self._size_of(segment)
        seconds = self.storage.store.policy.deadline
        future = self._begin(segment, first)
        try:
            data = result_of(future, seconds)
        except TimeoutError as error:
            if isinstance(error, DeadlineExceededError):
                raise
            msg = f"{self.storage.name_of(segment)}: byte {start} did not come in time"
            raise DeadlineExceededError(msg) from None
        return data[start - first :]

    def forget(self, segment: SegmentMetadata) -> None:
        """Fetch a log anew when it is read again: what came of it is damaged."""
        self._blocks.forget(segment)

    def prefetch(self, parts: Iterable[LogRange]) -> None:
        """Begin to fetch the first block of parts of logs, and the window after it.

        Nothing is raised: to read them raises it.

        Args:
            parts: What will be read next; only as many as are needed are taken.
        """
        with suppress(TieredFSError):
            for segment, first in islice(self._firsts(parts), 1 + self._window):
                self._begin(segment, first)

    def _firsts(
        self, parts: Iterable[LogRange]
    ) -> Iterator[tuple[SegmentMetadata, int]]:
        """Yield the blocks of parts of logs: segment and position."""
        for part in parts:
            size = self._size_of(part.segment)
            for first in range(part.start - part.start % size, part.until, size):
                yield part.segment, first

    def _begin(self, segment: SegmentMetadata, first: int) -> Future[memoryview]:
        key = BlockKey.of(segment, first)
        return self._blocks.get(key, partial(self._submit, key, segment))

    def _submit(self, key: BlockKey, segment: SegmentMetadata) -> Future[memoryview]:
        name = f"{self.storage.name_of(segment)}: block at {key.start}"
        fetch = partial(self._fetch, key, segment)
        seconds = self.storage.store.policy.deadline
        return self._purgatory.submit(name, fetch, seconds)

    def _fetch(
        self, key: BlockKey, segment: SegmentMetadata, left: float, attempt: int
    ) -> memoryview:
        """Make an attempt at a block, and hold it, even if no caller waits."""
        end = min(key.start + self._size_of(segment), segment.size or 0)
        found = fetch_once(self.storage, segment, (key.start, end), left, attempt)
        return self._blocks.hold(key, found[: end - key.start])

    def _size_of(self, segment: SegmentMetadata) -> int:
        """Return the bytes of a segment's blocks: whole chunks, if it has chunks."""
        with self._lock:
            known = self._sizes.get(segment)
        if known is not None:
            return known
        end = self.storage.plan_fetch(segment, 0, min(1, segment.size or 0)).end
        chunk = max(end, 1)
        size = -(-self._block_bytes // chunk) * chunk
        with self._lock:
            self._sizes[segment] = size
        return size
