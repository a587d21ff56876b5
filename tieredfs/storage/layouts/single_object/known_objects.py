"""The known objects of segments, and which of them match their keys."""

from typing import Final

from cachetools import LRUCache

from tieredfs.format.segment.key import SegmentKey
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["KnownObjects"]

_MAX_OBJECTS: Final = 100_000
_Name = tuple[TopicIdPartition, int, int, str]


class KnownObjects:
    """The objects of each segment, as far as they were listed row by row, or copied.

    A listing in columns is not recorded. A key identifies its content, so an entry
    stays valid until the object is deleted.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._lock = make_lock()
        self._stems: LRUCache[_Name, tuple[str, ...]] = LRUCache(_MAX_OBJECTS)
        self._verified: LRUCache[tuple[TopicIdPartition, str], None] = LRUCache(
            _MAX_OBJECTS
        )

    def stems(self, metadata: SegmentMetadata) -> tuple[str, ...]:
        """Return the names of a segment's objects; empty if it is not known."""
        with self._lock:
            return self._stems.get(_name(metadata), ())

    def add(self, partition: TopicIdPartition, key: SegmentKey, stem: str) -> None:
        """Remember one object, by its key and the name that has the key's fields."""
        name = (partition, key.start_offset, key.end_offset, key.id)
        with self._lock:
            known = self._stems.get(name, ())
            if stem not in known:
                self._stems[name] = (*known, stem)

    def forget(self, metadata: SegmentMetadata) -> None:
        """Forget a segment."""
        with self._lock:
            for stem in self._stems.pop(_name(metadata), ()):
                self._verified.pop((metadata.partition, stem), None)

    def is_verified(self, partition: TopicIdPartition, stem: str) -> bool:
        """Return whether an object was verified to match its key."""
        with self._lock:
            return (partition, stem) in self._verified

    def add_verified(self, partition: TopicIdPartition, stem: str) -> None:
        """Remember that an object matches its key."""
        with self._lock:
            self._verified[partition, stem] = None

    def __reduce__(self) -> tuple[type["KnownObjects"], tuple[()]]:
        """Start empty in another process."""
        return KnownObjects, ()


def _name(metadata: SegmentMetadata) -> _Name:
    end = -1 if metadata.end_offset is None else metadata.end_offset
    return (metadata.partition, metadata.start_offset, end, metadata.id)
