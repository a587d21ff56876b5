"""List partitions and segments from the keys of their objects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice

from tieredfs.errors import (
    InvalidArgumentError,
    NotFoundError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.format.segment.key import SegmentKey
from tieredfs.format.segment.key_scheme import OWN_FOLDER, KeyScheme
from tieredfs.model import SegmentMetadata, TopicIdPartition
from tieredfs.objects import MAX_PAGE_KEYS, ObjectInfo, ObjectStore
from tieredfs.storage.layouts.single_object.key_rows import KeyRows
from tieredfs.storage.layouts.single_object.known_objects import KnownObjects
from tieredfs.storage.layouts.single_object.listed_keys import parse_pages
from tieredfs.storage.layouts.single_object.listing_errors import (
    ListedError,
    ListedIdentity,
    name_error,
    raise_first,
    size_error,
)
from tieredfs.storage.layouts.single_object.segment_object import listed_metadata
from tieredfs.storage.segment_table import SegmentTable

__all__ = ["SegmentListing"]

_Surveyed = tuple[ListedIdentity | None, SegmentMetadata | TieredFSError]


@dataclass(frozen=True, slots=True)
class SegmentListing:
    """Partitions and segments, in as few listings as the keys allow.

    Attributes:
        store: Where the objects are.
        keys: How they are named.
        known: Records every object that is listed row by row; ``table`` records none.
    """

    store: ObjectStore
    keys: KeyScheme
    known: KnownObjects

    def partitions(self, topic: str | None = None) -> list[TopicIdPartition]:
        """Return the partitions that have a folder; foreign folders are skipped.

        Args:
            topic: Its name; None for all topics.
        """
        if topic is None:
            return sorted(self._partitions_below(""))
        try:
            TopicIdPartition(topic, 0)
        except InvalidArgumentError:  # no topic has such a name
            return []
        return sorted(self._partitions_below(self.keys.topic_prefix(topic)))

    def segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        """Return the segments that end at ``min_offset`` or later, all whole."""
        return _good(self.survey(partition, min_offset))

    def table(self, partition: TopicIdPartition) -> SegmentTable:
        """Return the same segments as ``segments``, in columns.

        Raises:
            TieredFSError: As in ``segments``.
        """
        prefix = self.keys.partition_prefix(partition)
        pages = (page for page in self.store.list_pages(prefix) if len(page.keys))
        first = next(pages, None)
        if first is None:
            msg = f"not found: {partition} in {self.store.url}"
            raise NotFoundError(msg)
        found = parse_pages(chain([first], pages), self.keys, prefix, self.store.url)
        return KeyRows(partition, self.keys, found).table()

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return one page of the first segments that end at ``offset`` or later."""
        entries = self._entries(partition, offset)
        found: list[SegmentMetadata] = []
        while not found:
            page = list(islice(entries, MAX_PAGE_KEYS))
            if not page:
                msg = f"not found: {partition} from {offset} on in {self.store.url}"
                raise NotFoundError(msg)
            found = _good(self._parsed(partition, page))
        if len(page) < MAX_PAGE_KEYS:
            return found
        # Segments that overlap the last ones may be on the next page.
        ends = sorted(segment.end_offset or 0 for segment in found)
        middle = ends[len(ends) // 2]
        return [segment for segment in found if (segment.end_offset or 0) <= middle]

    def survey(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> Iterator[_Surveyed]:
        """Yield each segment or the error of a damaged one, with its identity."""
        entries = self._entries(partition, min_offset)
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
        prefix = self.keys.partition_prefix(partition)
        beginning = self.keys.stem_beginning(key.end_offset, key.start_offset)
        return [
            entry.key
            for entry in self.store.list(f"{prefix}{beginning}")
            if self._is_of(entry.key.removeprefix(prefix), key)
        ]

    def _is_of(self, name: str, key: SegmentKey) -> bool:
        """Return whether a name is that of an object of a segment, of any release."""
        stem = self.keys.stem_of(name)
        if stem is None:
            return False
        try:
            found = self.keys.parse_stem(stem)
        except UnsupportedFormatError:
            return str(key.id) in stem
        return found is not None and found.id == key.id

    def _parsed(
        self, partition: TopicIdPartition, entries: Iterable[ObjectInfo]
    ) -> Iterator[_Surveyed]:
        """Parse a listing into segments; foreign objects are skipped."""
        prefix = self.keys.partition_prefix(partition)
        seen: set[ListedIdentity] = set()
        for entry in entries:
            stem = self.keys.stem_of(entry.key[len(prefix) :])
            if stem is None:
                continue
            try:
                key = self.keys.parse_stem(stem)
            except TieredFSError as error:
                yield name_error(f"{self.store.url}/{prefix}", error)
                continue
            if key is None:
                continue
            identity = (key.start_offset, key.end_offset, key.id)
            if entry.size != key.size:
                url = f"{self.store.url}/{entry.key}"
                yield size_error(url, identity, entry.size, key.size)
                continue
            self.known.add(partition, key, stem)
            if identity not in seen:
                seen.add(identity)
                yield identity, listed_metadata(partition, key, stem)

    def _partitions_below(self, prefix: str) -> Iterator[TopicIdPartition]:
        """Yield the partitions whose folders are below another one."""
        for entry in self.store.list(prefix, delimiter="/"):
            if not entry.is_prefix or entry.key == OWN_FOLDER:
                continue
            folders = entry.key[:-1].split("/")
            if len(folders) < self.keys.depth:
                if self.keys.may_lead_to_partitions(folders):
                    yield from self._partitions_below(entry.key)
                continue
            partition = self.keys.parse_partition(folders)
            if partition is not None:
                yield partition

    def _entries(
        self, partition: TopicIdPartition, offset: int
    ) -> Iterator[ObjectInfo]:
        """List the objects of segments that end at ``offset`` or later, and others."""
        prefix = self.keys.partition_prefix(partition)
        after = self.keys.seek_key(partition, offset)
        return self.store.list(prefix, start_after=after)

    def _exists(self, partition: TopicIdPartition) -> bool:
        prefix = self.keys.partition_prefix(partition)
        return next(self.store.list(prefix), None) is not None


def _good(surveyed: Iterable[_Surveyed]) -> list[SegmentMetadata]:
    """Return segments, sorted, or raise the error of a damaged one.

    If a segment has a whole object, its other objects are ignored.
    """
    whole: dict[ListedIdentity, SegmentMetadata] = {}
    wrong: list[ListedError] = []
    for identity, one in surveyed:
        if isinstance(one, TieredFSError):
            wrong.append((identity, one))
        elif identity is not None:
            whole[identity] = one
    raise_first(wrong, whole)
    return sorted(whole.values(), key=_by_offsets)


def _by_offsets(segment: SegmentMetadata) -> tuple[int, int]:
    return segment.start_offset, segment.end_offset or 0
