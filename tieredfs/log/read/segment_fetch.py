"""Fetch the logs of segments without fetching any bytes twice."""

from tieredfs.model import SegmentMetadata
from tieredfs.storage import RemoteStorageManager

__all__ = ["HeldBytes", "SegmentFetch"]

_NOTHING = memoryview(b"")


class HeldBytes:
    """A limit on the bytes that several readers may hold together."""

    def __init__(self, limit: int) -> None:
        """Start with no bytes held.

        Args:
            limit: Maximum number of bytes.
        """
        self._free = limit

    def take(self, count: int) -> bool:
        """Count some bytes as held; False if that would be too many."""
        if count > self._free:
            return False
        self._free -= count
        return True

    def release(self, count: int) -> None:
        """Count some bytes as no longer held."""
        self._free += count


class SegmentFetch:
    """Fetch the log of one segment after another.

    The bytes of the last fetch are held until the next one. Between two turns the rest
    of them is kept: reading continues where the fetch ended, which is the start of a
    chunk if a log is stored in chunks.
    """

    def __init__(
        self, storage: RemoteStorageManager, held: HeldBytes | None = None
    ) -> None:
        """Create a fetch, without sending a request.

        Args:
            storage: Where the segments are.
            held: Limit of what may be kept between turns; None to keep nothing.
        """
        self._storage = storage
        self._held = HeldBytes(0) if held is None else held
        self._segment: SegmentMetadata | None = None
        self._start = 0
        self._bytes = _NOTHING
        self._kept = 0

    def begin(self, segment: SegmentMetadata, position: int) -> memoryview:
        """Return and release the kept bytes of a segment's log from a position on."""
        found = self._bytes
        if not self._kept or (self._segment, self._start) != (segment, position):
            found = _NOTHING
        self.drop()
        self._segment, self._start, self._bytes = segment, position, found
        return found

    def fetch(self, start: int, end: int) -> memoryview:
        """Fetch the bytes of the log from ``start`` to ``end`` or further."""
        if self._segment is None:
            raise RuntimeError("fetch comes after begin")
        self._bytes = _NOTHING  # do not hold two fetches
        self._bytes = self._storage.fetch_log_ahead(self._segment, start, end)
        self._start = start
        return self._bytes

    def rest(self, position: int) -> memoryview:
        """Return the bytes of the last fetch from a position on."""
        if position < self._start:
            return _NOTHING
        return self._bytes[position - self._start :]

    def keep(self, position: int) -> None:
        """Keep the rest from a position on, if the limit allows; release all else."""
        rest = self.rest(position)
        segment = self._segment
        self.drop()
        if self._held.take(len(rest)):
            self._kept = len(rest)
            self._bytes = memoryview(bytes(rest))  # a slice would hold the whole fetch
            self._segment, self._start = segment, position

    def drop(self) -> None:
        """Release everything."""
        self._held.release(self._kept)
        self._segment, self._bytes, self._kept = None, _NOTHING, 0
