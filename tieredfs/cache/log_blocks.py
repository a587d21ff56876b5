"""Blocks of logs, held in memory: each is fetched once for all who ask for it.

A broker that reads a tier asks for about 1 MiB at a time, and throws away what does not
come within half a second. So a block is fetched for the cache, not for its caller: what
arrives after a caller gave up serves the next one.
"""

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Final, NamedTuple

from cachetools import LRUCache

from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["BlockKey", "LogBlocks"]

_DEFAULT_BYTES: Final = 256 << 20


class BlockKey(NamedTuple):
    """Which block of which log.

    Attributes:
        partition: The partition.
        segment: The segment's id.
        start_offset: The segment's first offset.
        size: Bytes of the log: it grows while a broker writes it, and a cleaner
            replaces it by a shorter one.
        version: The segment's version: another content has another one.
        start: Position of the block's first byte.
    """

    partition: TopicIdPartition
    segment: SegmentId
    start_offset: int
    size: int | None
    version: str
    start: int

    @classmethod
    def of(cls, segment: SegmentMetadata, start: int) -> "BlockKey":
        """Return the key of the block of a segment's log that begins at ``start``."""
        return cls(*_log_of(segment), start)


def _log_of(
    segment: SegmentMetadata,
) -> tuple[TopicIdPartition, SegmentId, int, int | None, str]:
    """Return the fields of a key that are the same for all blocks of a log."""
    return (
        segment.partition,
        segment.id,
        segment.start_offset,
        segment.size,
        segment.version,
    )


class LogBlocks:
    """Hold blocks of logs up to a number of bytes; those least recently asked for go.

    A block that alone has more than that is not held, and drops none.
    """

    def __init__(self, max_bytes: int = _DEFAULT_BYTES) -> None:
        """Create a cache that holds nothing.

        Args:
            max_bytes: Maximum bytes of the blocks.
        """
        self._lock = make_lock()
        self._max_bytes = max_bytes
        self._start_anew()

    def _start_anew(self) -> None:
        """Begin with no block, and with none that is fetched."""
        self._held: LRUCache[BlockKey, memoryview] = LRUCache(
            self._max_bytes, getsizeof=len
        )
        self._loading: dict[BlockKey, Future[memoryview]] = {}
        self._ahead: dict[BlockKey, int] = {}
        self._process = os.getpid()

    @property
    def held_bytes(self) -> int:
        """Bytes of the blocks that are held."""
        with self._lock:
            return int(self._held.currsize)

    def get(
        self, key: BlockKey, load: Callable[[], "Future[memoryview]"]
    ) -> "Future[memoryview]":
        """Return the future of a block: completed if the block is held.

        Args:
            key: Which block.
            load: Begins to fetch it for ``hold``, if nothing else has begun that; it
                must not wait: it is called with this cache locked, so that it is called
                once.

        Raises:
            Exception: What ``load`` raised.
        """
        with self._lock:
            self._reset_after_fork()
            self._ahead.pop(key, None)
            held = self._held.get(key)
            if held is not None:
                done: Future[memoryview] = Future()
                done.set_result(held)
                return done
            loading = self._loading.get(key)
            if loading is not None and not loading.done():
                return loading
            future = self._loading[key] = load()
        future.add_done_callback(lambda _: self._loaded(key))
        return future

    def get_ahead(
        self, key: BlockKey, size: int, load: Callable[[], "Future[memoryview]"]
    ) -> None:
        """Begin to fetch a block that is not asked for yet, if there is room for it.

        Such blocks have half of the bytes: more of them would drop one another before
        they are read.

        Args:
            key: Which block.
            size: Its bytes.
            load: As ``get`` takes it.

        Raises:
            Exception: What ``load`` raised.
        """
        with self._lock:
            self._reset_after_fork()
            # What is held becomes one that was asked for just now.
            loading = self._loading.get(key)
            if self._held.get(key) or (loading and not loading.done()):
                return
            if not self._has_room_ahead(size):
                return
            future = self._loading[key] = load()
            self._ahead[key] = size
        future.add_done_callback(lambda _: self._loaded(key))

    def hold(self, key: BlockKey, data: memoryview) -> memoryview:
        """Hold a block that was fetched, and return it, to be read only.

        To be called when a block was fetched, even if no caller waits for it any more.
        """
        held = data.toreadonly()
        with self._lock, suppress(ValueError):  # larger than the whole cache
            self._reset_after_fork()
            self._held[key] = held
        return held

    def forget(self, segment: SegmentMetadata) -> None:
        """Drop the blocks of a log that was found to be damaged: it may be mended."""
        log = _log_of(segment)
        with self._lock:
            self._reset_after_fork()
            for key in [key for key in self._held if key[:-1] == log]:
                del self._held[key]

    def _has_room_ahead(self, size: int) -> bool:
        """Return whether a block fits beside those that are not asked for yet."""
        most = self._max_bytes // 2
        if sum(self._ahead.values()) + size <= most:
            return True
        # Those count no more that were dropped, or did not come.
        there = self._held.keys() | self._loading.keys()
        for key in self._ahead.keys() - there:
            del self._ahead[key]
        return sum(self._ahead.values()) + size <= most

    def _reset_after_fork(self) -> None:
        """Forget what the parent's threads fetch, and may just have been changing."""
        if self._process != os.getpid():
            self._start_anew()

    def _loaded(self, key: BlockKey) -> None:
        with self._lock:
            self._loading.pop(key, None)
