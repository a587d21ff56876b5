"""List partitions and segments from the keys of the native layout.

Source: ``formats.md`` of the project, "The native layout: single-object, version 1".
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from tieredfs.errors import CorruptObjectError, NotFoundError, TieredFSError
from tieredfs.format.segment.key import (
    OWN_FOLDER,
    SEGMENT_SUFFIX,
    SegmentKey,
    parse_partition,
    partition_prefix,
)
from tieredfs.model import UNKNOWN_TOPIC_ID, SegmentMetadata, TopicIdPartition
from tieredfs.objects import ObjectInfo, ObjectStore
from tieredfs.storage.layouts.single_object.known_objects import KnownObjects
from tieredfs.storage.layouts.single_object.segment_object import (
    listed_metadata,
    seek_key,
)

__all__ = ["SegmentListing"]

_PAGE: Final = 1000

_Identity = tuple[int, int, str]
_Surveyed = tuple[_Identity | None, SegmentMetadata | TieredFSError]


@dataclass(frozen=True, slots=True)
class SegmentListing:
    """Partitions and segments, in as few listings as the keys allow.

    Attributes:
        store: Where the objects are.
        known: Records every object that is listed.
    """

    store: ObjectStore
    known: KnownObjects

    def partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder; foreign folders are skipped.

        Args:
            topic: Its name; None for all topics.
        """
        found: list[TopicIdPartition] = []
        for name in self._folders("") if topic is None else [topic]:
            if parse_partition(name, UNKNOWN_TOPIC_ID, "0") is None:
                continue  # a foreign folder, however much is in it
            for topic_id in self._folders(f"{name}/"):
                if parse_partition(name, topic_id, "0") is None:
                    continue
                for number in self._folders(f"{name}/{topic_id}/"):
                    partition = parse_partition(name, topic_id, number)
                    if partition is not None:
                        found.append(partition)
        return sorted(found)

    def segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments that end at ``min_offset`` or later, all whole."""
        return _good(self.survey(partition, min_offset))

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return one page of the first segments that end at ``offset`` or later."""
        prefix = partition_prefix(partition)
        entries = self.store.list(prefix, start_after=seek_key(prefix, offset))
        found: list[SegmentMetadata] = []
        while not found:
            page = list(islice(entries, _PAGE))  # what one request to any store returns
            if not page:
                msg = f"not found: {partition} from {offset} on in {self.store.url}"
                raise NotFoundError(msg)
            found = _good(self._parsed(partition, page))
        if len(page) < _PAGE:
            return found
        # Segments that overlap the last ones may be on the next page.
        sure = sorted(found, key=lambda s: s.end_offset or 0)[: -(-len(found) // 2)]
        return sorted(sure, key=_by_offsets)

    def survey(
        self, partition: TopicIdPartition, min_offset: int
    ) -> Iterator[_Surveyed]:
        """Yield each segment or the error of a damaged one, with its identity."""
        prefix = partition_prefix(partition)
        entries = self.store.list(prefix, start_after=seek_key(prefix, min_offset))
        first = next(entries, None)
        if first is not None:
            yield from self._parsed(partition, chain([first], entries))
        elif not min_offset or not self._exists(partition):
            msg = f"not found: {partition} in {self.store.url}"
            raise NotFoundError(msg)

    def stems_of(self, metadata: SegmentMetadata) -> tuple[str, ...]:
        """Return the names of a segment's objects, as they are listed."""
        try:
            listed = self.segments(metadata.partition, metadata.start_offset)
        except NotFoundError:
            return ()
        return tuple(
            s.custom_metadata.decode()
            for s in listed
            if (s.id, s.start_offset) == (metadata.id, metadata.start_offset)
        )

    def objects_of(self, partition: TopicIdPartition, key: SegmentKey) -> list[str]:
        """Return the keys of all objects of one segment, damaged ones too: one listing.

        Two processes that copy a segment with different settings write two objects.
        """
        prefix = partition_prefix(partition)
        begins = f"{prefix}{key.end_offset:020d}-{key.start_offset:020d}-"
        ends = f"-{key.id}{SEGMENT_SUFFIX}"
        width = len(prefix) + len(key.stem) + len(SEGMENT_SUFFIX)
        return [
            entry.key
            for entry in self.store.list(begins)
            if entry.key.endswith(ends) and len(entry.key) == width
        ]

    def _parsed(
        self, partition: TopicIdPartition, entries: Iterable[ObjectInfo]
    ) -> Iterator[_Surveyed]:
        """Parse a listing into segments; foreign objects are skipped."""
        prefix = partition_prefix(partition)
        seen: set[_Identity] = set()
        for entry in entries:
            name = entry.key[len(prefix) :]
            if not name.endswith(SEGMENT_SUFFIX):
                continue
            try:
                key = SegmentKey.parse(name.removesuffix(SEGMENT_SUFFIX))
            except TieredFSError as error:
                yield None, type(error)(f"{self.store.url}/{prefix}{error}")
                continue
            if key is None:
                continue
            identity = (key.start_offset, key.end_offset, key.id)
            if entry.size != key.size:
                msg = (
                    f"{self.store.url}/{entry.key}: its size is {entry.size}, its key "
                    f"states {key.size}"
                )
                yield identity, CorruptObjectError(msg)
                continue
            self.known.add(partition, key)
            if identity not in seen:
                seen.add(identity)
                yield identity, listed_metadata(partition, key)

    def _folders(self, prefix: str) -> Iterator[str]:
        for entry in self.store.list(prefix, delimiter="/"):
            name = entry.key[len(prefix) :].rstrip("/")
            if entry.is_prefix and f"{name}/" != OWN_FOLDER:
                yield name

    def _exists(self, partition: TopicIdPartition) -> bool:
        return next(self.store.list(partition_prefix(partition)), None) is not None


def _good(surveyed: Iterable[_Surveyed]) -> list[SegmentMetadata]:
    """Return segments, sorted, or raise the error of a damaged one.

    If a segment has a whole object, its other objects are ignored.
    """
    whole: dict[_Identity, SegmentMetadata] = {}
    wrong: list[tuple[_Identity | None, TieredFSError]] = []
    for identity, one in surveyed:
        if isinstance(one, TieredFSError):
            wrong.append((identity, one))
        elif identity is not None:
            whole[identity] = one
    for identity, error in wrong:
        if identity not in whole:
            raise error
    return sorted(whole.values(), key=_by_offsets)


def _by_offsets(segment: SegmentMetadata) -> tuple[int, int]:
    return segment.start_offset, segment.end_offset or 0
