"""Read logs by blocks that are fetched once, a few of them ahead."""

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from tieredfs.cache.log_blocks import BlockKey, LogBlocks
from tieredfs.errors import DeadlineExceededError, TieredFSError
from tieredfs.fetch.attempts import asked_once, fetch_once
from tieredfs.fetch.purgatory import FetchPurgatory
from tieredfs.fetch.window import LogRange
from tieredfs.model import SegmentMetadata
from tieredfs.objects.concurrency.fork_locks import make_lock
from tieredfs.objects.concurrency.waiting import result_of
from tieredfs.objects.policy import Deadline
from tieredfs.storage import RemoteStorageManager

__all__ = ["BlockReader"]

_BLOCK_BYTES: Final = 4 << 20
_WINDOW: Final = 4
_MAX_KNOWN: Final = 1024
_MIN_LAST: Final = 4
"""Into how many parts a block is cut of which one is too small for a request: a log
that ends within one after a block ends with that block."""


class _Block(NamedTuple):
    """A block of a log.

    Attributes:
        segment: The segment.
        start: Its first byte.
        end: The byte after its last.
    """

    segment: SegmentMetadata
    start: int
    end: int

    @classmethod
    def at(cls, segment: SegmentMetadata, position: int, size: int) -> "_Block":
        """Return the block that has a byte of a log.

        Args:
            segment: The segment.
            position: The byte.
            size: Bytes of each block but the last.
        """
        whole = segment.size or 0
        last = max(-(-(whole - size // _MIN_LAST) // size) - 1, 0)
        number = min(position // size, last)
        start = number * size
        return cls(segment, start, max(whole, 1) if number == last else start + size)

    @property
    def key(self) -> BlockKey:
        """Its key in the cache."""
        return BlockKey.of(self.segment, self.start)

    @property
    def size(self) -> int:
        """Its bytes."""
        return self.end - self.start


class BlockReader:
    """Read the logs of a storage from blocks that all its readers share.

    The blocks of a log begin at multiples of their size: 4 MiB, or whole chunks where a
    log is stored in chunks. So they are the same for all readers, from any offset. The
    last one may be a quarter larger: few bytes at the end of a log are not worth a
    request.
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
        self._sizes: dict[SegmentMetadata, Future[int]] = {}
        self._process = os.getpid()

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
        deadline = Deadline(self.storage.store.policy.deadline)
        try:
            size = result_of(self._size_of(segment), deadline.remaining)
            block = _Block.at(segment, start, size)
            data = result_of(self._begin(block), deadline.remaining)
        except TimeoutError as error:
            if isinstance(error, DeadlineExceededError):
                raise
            msg = f"{self.storage.name_of(segment)}: byte {start} did not come in time"
            raise DeadlineExceededError(msg) from None
        return data[start - block.start :]

    def forget(self, segment: SegmentMetadata) -> None:
        """Fetch a log anew when it is read again: what came of it is damaged."""
        self._blocks.forget(segment)

    def prefetch(self, parts: Iterable[LogRange]) -> None:
        """Begin to fetch the first block of parts of logs, and the window after it.

        The window takes no thread that another fetch needs, and no block that is held
        and not yet read. Nothing is raised: to read them raises it.

        Args:
            parts: What will be read next; only as many as are needed are taken.
        """
        self._prefetch(tuple(islice(parts, 1 + self._window)))

    def _prefetch(self, parts: Sequence[LogRange]) -> None:
        with suppress(TieredFSError):
            blocks = islice(self._blocks_of(parts), 1 + self._window)
            for block in islice(blocks, 1):
                self._begin(block)
            for block in blocks:
                if not self._purgatory.is_free:
                    return
                load = partial(self._submit, block)
                self._blocks.get_ahead(block.key, block.size, load)

    def _blocks_of(self, parts: Sequence[LogRange]) -> Iterator[_Block]:
        """Yield the blocks of parts of logs.

        It ends before a log whose chunks are not known: when they are, all of this is
        done again.
        """
        for number, part in enumerate(parts):
            if number and not self._purgatory.is_free:
                return
            sized = self._size_of(part.segment)
            if not sized.done():
                sized.add_done_callback(partial(self._go_on, parts))
                return
            size, position = sized.result(), part.start
            while position < part.until:
                block = _Block.at(part.segment, position, size)
                yield block
                position = block.end

    def _go_on(self, parts: Sequence[LogRange], sized: Future[int]) -> None:
        if sized.exception() is None:
            self._prefetch(parts)

    def _begin(self, block: _Block) -> Future[memoryview]:
        return self._blocks.get(block.key, partial(self._submit, block))

    def _submit(self, block: _Block) -> Future[memoryview]:
        """Fetch a block in time; it is held even if no caller waits."""
        segment, start, end = block
        name = f"{self.storage.name_of(segment)}: block at {start}"

        def attempt(left: float, number: int) -> memoryview:
            found = fetch_once(self.storage, segment, (start, end), left, number)
            return self._blocks.hold(block.key, found[: block.size])

        return self._purgatory.submit(name, attempt, self.storage.store.policy.deadline)

    def _size_of(self, segment: SegmentMetadata) -> Future[int]:
        """Return the bytes of a segment's blocks: whole chunks, if it has chunks.

        Where chunks are described in an object of its own, that is one more request.
        """
        with self._lock:
            if self._process != os.getpid():  # a forked child has none of the threads
                self._process = os.getpid()
                self._sizes = {}
            known = self._sizes.get(segment)
            if known is not None and not (known.done() and known.exception()):
                return known
            if len(self._sizes) >= _MAX_KNOWN:
                self._sizes = {}
            name = f"{self.storage.name_of(segment)}: its chunks"
            seconds = self.storage.store.policy.deadline
            plan = partial(self._plan_size, segment)
            known = self._sizes[segment] = self._purgatory.submit(name, plan, seconds)
            return known

    def _plan_size(self, segment: SegmentMetadata, left: float, number: int) -> int:
        """Make an attempt to plan a fetch, which shows the chunk that it is part of."""
        storage = asked_once(self.storage, left, number)
        end = storage.plan_fetch(segment, 0, min(1, segment.size or 0)).end
        chunk = max(end, 1)
        return -(-self._block_bytes // chunk) * chunk
