"""The segments that the steps are about, and their indexes."""

from typing import Final

from tieredfs.model import IndexType, SegmentIndexes
from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.samples import (
    BASE,
    OFFSETS,
    content_of,
    made_segment,
)

__all__ = ["POOL", "indexes_of", "replacement"]

POOL: Final = tuple(
    CachedSegment(store, made_segment(number))
    for store, count in ((0, 4), (1, 2))
    for number in range(count)
)
"""Segments of two stores; those of the second have names that the first has, too."""


def replacement(old: CachedSegment, new: str, copy: int) -> CachedSegment:
    """Return another segment with the offsets of one, as a copy makes it.

    Args:
        old: The segment that it replaces.
        new: What it has of its own: ``id``, ``version`` or ``custom_metadata``.
        copy: A number that no other copy has.
    """
    number = _number(old)
    metadata = {
        "id": made_segment(number, copy=copy),
        "version": made_segment(number, version=f"v{copy}"),
        "custom_metadata": made_segment(number, custom_metadata=b"%d" % copy),
    }[new]
    return CachedSegment(old.store, metadata)


def indexes_of(segment: CachedSegment) -> SegmentIndexes:
    """Return a segment's indexes: some lack an optional one, some have a layout."""
    number = _number(segment)
    content = content_of(segment.metadata, 5 + 12 * number, segment.store)
    if number % 2:
        del content[IndexType.TRANSACTION]
    return SegmentIndexes(
        {kind: memoryview(data) for kind, data in content.items()},
        b"" if number % 3 else f"layout of {segment}".encode(),
    )


def _number(segment: CachedSegment) -> int:
    return (segment.metadata.start_offset - BASE) // OFFSETS
