"""List partitions and segments from the keys of their objects."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any, Final

import numpy as np

from tieredfs.errors import (
    CorruptObjectError,
    InvalidArgumentError,
    NotFoundError,
    TieredFSError,
    UnsupportedFormatError,
)
from tieredfs.format.segment.key import SegmentKey
from tieredfs.format.segment.key_scheme import OWN_FOLDER, KeyScheme
from tieredfs.format.segment.key_table import KEY_DTYPE, KeyTable, row_of
from tieredfs.integers import MAX_INT64
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.objects import ListedPage, ObjectInfo, ObjectStore
from tieredfs.storage.layouts.single_object.key_rows import KeyRows
from tieredfs.storage.layouts.single_object.known_objects import KnownObjects
from tieredfs.storage.layouts.single_object.segment_object import listed_metadata
from tieredfs.storage.segment_table import SegmentTable

__all__ = ["SegmentListing"]

_MAX_PAGE_KEYS: Final = 1000
"""Keys that one request to any store returns."""

_BLOCK_PAGES: Final = 64
"""Pages joined at a time: the allocator returns blocks of this size to the system."""

_Identity = tuple[int, int, str]
_Surveyed = tuple[_Identity | None, SegmentMetadata | TieredFSError]
_Wrong = tuple[_Identity | None, TieredFSError]


@dataclass(frozen=True, slots=True)
class SegmentListing:
    """Partitions and segments, in as few listings as the keys allow.

    Attributes:
        store: Where the objects are.
        keys: How they are named.
        known: Records every object that is listed.
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
        wrong: list[_Wrong] = []
        pages = (page for page in self.store.list_pages(prefix) if len(page.keys))
        first = next(pages, None)
        if first is None:
            msg = f"not found: {partition} in {self.store.url}"
            raise NotFoundError(msg)
        found = _joined(
            self._parse_page(prefix, page, wrong) for page in chain([first], pages)
        )
        if wrong:
            _raise_first(wrong, map(_identity, found.tolist()))
        starts, ends = found["start_offset"], found["end_offset"]
        if ((starts[1:] == starts[:-1]) & (ends[1:] == ends[:-1])).any():
            found = _without_copies(found)
        return KeyRows(partition, self.keys, found).table()

    def seek(self, partition: TopicIdPartition, offset: int) -> list[SegmentMetadata]:
        """Return one page of the first segments that end at ``offset`` or later."""
        entries = self._entries(partition, offset)
        found: list[SegmentMetadata] = []
        while not found:
            page = list(islice(entries, _MAX_PAGE_KEYS))
            if not page:
                msg = f"not found: {partition} from {offset} on in {self.store.url}"
                raise NotFoundError(msg)
            found = _good(self._parsed(partition, page))
        if len(page) < _MAX_PAGE_KEYS:
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
        seen: set[_Identity] = set()
        for entry in entries:
            stem = self.keys.stem_of(entry.key[len(prefix) :])
            if stem is None:
                continue
            try:
                key = self.keys.parse_stem(stem)
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
            self.known.add(partition, key, stem)
            if identity not in seen:
                seen.add(identity)
                yield identity, listed_metadata(partition, key, stem)

    def _parse_page(
        self, prefix: str, page: ListedPage, wrong: list[_Wrong]
    ) -> KeyTable:
        """Parse a page of whole objects; note what is wrong with the others."""
        names = [self.keys.stem_of(key[len(prefix) :]) for key in page.keys]
        stems = [name for name in names if name is not None]
        # A foreign object may claim any size, and no segment has the largest.
        claimed = (min(size, MAX_INT64) for size in page.sizes)
        sizes = np.fromiter(claimed, np.int64, len(page.sizes))
        if len(stems) < len(names):
            sizes = sizes[[name is not None for name in names]]
        table, is_whole = self.keys.parse_stems(stems)
        errors: dict[int, _Wrong] = {}
        for row in np.flatnonzero(~is_whole).tolist():
            try:
                key = self.keys.parse_stem(stems[row])
            except TieredFSError as error:
                where = f"{self.store.url}/{prefix}"
                errors[row] = None, type(error)(f"{where}{error}")
                continue
            if key is not None:
                table[row], is_whole[row] = row_of(key), True
        stated = table["log_length"] + table["tail_length"]
        for row in np.flatnonzero(is_whole & (sizes != stated)).tolist():
            is_whole[row] = False
            msg = (
                f"{self.store.url}/{prefix}{stems[row]}{self.keys.suffix}: its size is "
                f"{sizes[row]}, its key states {stated[row]}"
            )
            errors[row] = _identity(table[row].item()), CorruptObjectError(msg)
        wrong.extend(errors[row] for row in sorted(errors))
        return table if is_whole.all() else table[is_whole]

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
    whole: dict[_Identity, SegmentMetadata] = {}
    wrong: list[_Wrong] = []
    for identity, one in surveyed:
        if isinstance(one, TieredFSError):
            wrong.append((identity, one))
        elif identity is not None:
            whole[identity] = one
    _raise_first(wrong, whole)
    return sorted(whole.values(), key=_by_offsets)


def _by_offsets(segment: SegmentMetadata) -> tuple[int, int]:
    return segment.start_offset, segment.end_offset or 0


def _raise_first(wrong: Iterable[_Wrong], whole: Iterable[_Identity]) -> None:
    """Raise the first error of a segment that has no whole object."""
    found = set(whole)
    for identity, error in wrong:
        if identity not in found:
            raise error


def _joined(pages: Iterator[KeyTable]) -> KeyTable:
    """Join the pages of a listing, in little more memory than they take joined."""
    blocks: list[KeyTable] = []
    while block := list(islice(pages, _BLOCK_PAGES)):
        blocks.append(np.concatenate(block))
    table = np.empty(sum(map(len, blocks)), KEY_DTYPE)
    reached = len(table)
    while blocks:
        last = blocks.pop()
        table[reached - len(last) : reached] = last
        reached -= len(last)
    return table


def _identity(row: tuple[Any, ...]) -> _Identity:
    """Return the identity of a row of a table of keys."""
    end, start, *_, segment_id = row
    return start, end, SegmentId.from_bytes(segment_id)


def _without_copies(keys: KeyTable) -> KeyTable:
    """Leave out all but the first object of each segment."""
    first: dict[_Identity, int] = {}
    for row, identity in enumerate(map(_identity, keys.tolist())):
        first.setdefault(identity, row)
    return keys[list(first.values())]
