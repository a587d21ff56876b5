"""Which objects a segment is known to have, and which are what their keys say."""

from typing import Final

from cachetools import LRUCache

from tieredfs.format.segment.key import SegmentKey
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects.concurrency.fork_locks import make_lock

__all__ = ["KnownObjects"]

_REMEMBERED: Final = 100_000
_Name = tuple[TopicIdPartition, int, int, str]


class KnownObjects:
    """The objects of each segment, as far as they were listed or copied.

    A key says its content, so what was known stays true until it is deleted.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._lock = make_lock()
        self._stems: LRUCache[_Name, tuple[str, ...]] = LRUCache(_REMEMBERED)
        self._true: LRUCache[tuple[TopicIdPartition, str], None] = LRUCache(_REMEMBERED)

    def stems(self, metadata: SegmentMetadata) -> tuple[str, ...]:
        """Return the names of a segment's objects; none when it is not known."""
        with self._lock:
            return self._stems.get(_name(metadata), ())

    def add(self, partition: TopicIdPartition, key: SegmentKey) -> None:
        """Remember one object."""
        name = (partition, key.start_offset, key.end_offset, key.id)
        with self._lock:
            known = self._stems.get(name, ())
            if key.stem not in known:
                self._stems[name] = (*known, key.stem)

    def forget(self, metadata: SegmentMetadata) -> None:
        """Know a segment no longer."""
        with self._lock:
            for stem in self._stems.pop(_name(metadata), ()):
                self._true.pop((metadata.partition, stem), None)

    def is_verified(self, partition: TopicIdPartition, stem: str) -> bool:
        """Tell whether an object was seen to be what its key says."""
        with self._lock:
            return (partition, stem) in self._true

    def add_true(self, partition: TopicIdPartition, stem: str) -> None:
        """Remember that an object is what its key says."""
        with self._lock:
            self._true[partition, stem] = None

    def __reduce__(self) -> tuple[type["KnownObjects"], tuple[()]]:
        """Know nothing in another process."""
        return KnownObjects, ()


def _name(metadata: SegmentMetadata) -> _Name:
    end = -1 if metadata.end_offset is None else metadata.end_offset
    return (metadata.partition, metadata.start_offset, end, metadata.id)
