"""A storage of indexes alone, which counts its operations and can be made to fail."""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Self

from tieredfs.errors import NotFoundError
from tieredfs.model import (
    IndexType,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage import RemoteStorageManager
from tieredfs.testing.cache_machine.samples import description_of

__all__ = ["IndexStorage"]


class IndexStorage(RemoteStorageManager):
    """A storage that has the indexes of segments, and nothing else of them.

    Attributes:
        stored: The indexes of each segment.
        operations: How many calls have asked for one index or more, of each segment.
        descriptions: The segments that were to be described.
        fault: What the next operations raise, or return in place of the true indexes.
    """

    stored: dict[SegmentMetadata, SegmentIndexes]
    operations: Counter[SegmentMetadata]
    descriptions: list[SegmentMetadata]
    fault: Exception | SegmentIndexes | None

    def __init__(self, store: ObjectStore) -> None:
        """Begin without segments; the store is never asked."""
        super().__init__(store)
        self.stored = {}
        self.operations = Counter()
        self.descriptions = []
        self.fault = None
        self._lock = threading.Lock()
        self._meanwhile: Callable[[], object] | None = None

    def view(self) -> Self:
        """Return the same segments and operations, with a fault of its own."""
        return copy(self)

    @contextmanager
    def interrupted(self, meanwhile: Callable[[], object]) -> Iterator[None]:
        """Let something happen within each operation, before it finds anything.

        Args:
            meanwhile: What happens, on the thread of the operation.
        """
        self._meanwhile = meanwhile
        try:
            yield
        finally:
            self._meanwhile = None

    def fetch_index(
        self, metadata: SegmentMetadata, index_type: IndexType
    ) -> memoryview:
        """Return one index, in one operation."""
        try:
            return self._fetch(metadata)[index_type]
        except KeyError:
            msg = f"not found: {metadata}: {index_type} index"
            raise NotFoundError(msg) from None

    def fetch_indexes(
        self, metadata: SegmentMetadata, index_types: Iterable[IndexType]
    ) -> SegmentIndexes:
        """Return several indexes and the layout's data, in one operation."""
        found = self._fetch(metadata)
        chosen = {kind: found[kind] for kind in index_types if kind in found}
        return SegmentIndexes(chosen, found.layout)

    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        """Return what follows from the metadata."""
        del indexes
        with self._lock:
            self.descriptions.append(metadata)
        return description_of(metadata)

    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        """Return nothing: no cache of indexes asks for a log."""
        del metadata, start, end, layout
        return memoryview(b"")

    def list_partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions of all segments."""
        found = {metadata.partition for metadata in self.stored}
        return sorted(one for one in found if topic in {None, one.topic})

    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments of a partition."""
        found = [one for one in self.stored if one.partition == partition]
        kept = [one for one in found if (one.end_offset or 0) >= min_offset]
        return sorted(kept, key=lambda one: one.start_offset)

    def _fetch(self, metadata: SegmentMetadata) -> SegmentIndexes:
        with self._lock:
            self.operations[metadata] += 1
            meanwhile = self._meanwhile
        if meanwhile is not None:
            meanwhile()
        if isinstance(self.fault, Exception):
            raise self.fault
        if self.fault is not None:
            return self.fault
        try:
            return self.stored[metadata]
        except KeyError:
            raise NotFoundError(f"not found: {metadata}") from None
