"""A segment as a cache of indexes knows it."""

from dataclasses import dataclass

from tieredfs.model import SegmentMetadata

__all__ = ["CachedSegment"]


@dataclass(frozen=True, slots=True)
class CachedSegment:
    """A segment of one of the stores that share a directory.

    Attributes:
        store: Number of the store.
        metadata: The segment as it is listed there.
    """

    store: int
    metadata: SegmentMetadata

    def __str__(self) -> str:
        """Return what identifies it in a message."""
        one = self.metadata
        more = f" {one.version}{one.custom_metadata.decode()}".rstrip()
        return f"{one.start_offset}-{one.id}{more} of store {self.store}"
