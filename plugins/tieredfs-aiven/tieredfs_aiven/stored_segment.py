"""The objects of one segment in a store, and what is read from them."""

from collections.abc import Iterable
from dataclasses import dataclass

from tieredfs import (
    CorruptIndexError,
    CorruptObjectError,
    IndexType,
    InvalidArgumentError,
    ObjectStore,
    SegmentMetadata,
)
from tieredfs_aiven.encryption import DataKey, KeyRing, WrongTagError
from tieredfs_aiven.manifest import Manifest, SegmentFacts, parse_manifest
from tieredfs_aiven.object_names import Suffix
from tieredfs_aiven.stored_log import read_log

__all__ = ["StoredSegment"]


@dataclass(frozen=True, slots=True)
class StoredSegment:
    """Read the objects of one segment.

    Attributes:
        store: Where they are.
        stem: Common part of their keys.
        keys: The keys that unwrap data keys.
    """

    store: ObjectStore
    stem: str
    keys: KeyRing

    def name(self, suffix: Suffix) -> str:
        """Return the name of an object, used in error messages."""
        return f"{self.store.url}/{self.stem}.{suffix}"

    def fetch_manifest(self) -> memoryview:
        """Return the manifest's object."""
        return self.store.get(f"{self.stem}.{Suffix.MANIFEST}")

    def parse(self, metadata: SegmentMetadata, data: bytes | memoryview) -> Manifest:
        """Parse a manifest, and check that it is the segment's if it names one.

        Raises:
            CorruptObjectError: It is malformed, or that of another segment.
            UnsupportedFormatError: It is of an unsupported version.
            InvalidArgumentError: A part of the key prefix was read as the topic's name.
        """
        name = self.name(Suffix.MANIFEST)
        manifest = parse_manifest(data, name)
        if manifest.segment is not None:
            _check_identity(manifest.segment, metadata, name)
        return manifest

    def read_log(self, manifest: Manifest, start: int, end: int) -> memoryview:
        """Return the bytes of the log from ``start`` to the end of the last chunk.

        Raises:
            InvalidArgumentError: ``[start, end)`` is not a range.
            CorruptObjectError: The log ends before ``end``, or a chunk is not what was
                stored.
        """
        name = self.name(Suffix.LOG)
        size = manifest.chunks.size
        if not 0 <= start <= end:
            raise InvalidArgumentError(f"{name}: not a range: [{start}, {end})")
        if end > size:
            raise CorruptObjectError(
                f"{name}: range [{start}, {end}) exceeds its log of {size} bytes"
            )
        return read_log(
            lambda first, last: self.store.get_range(
                f"{self.stem}.{Suffix.LOG}", first, last
            ),
            manifest,
            self._key(manifest),
            start,
            end,
            name=name,
        )

    def read_indexes(
        self, manifest: Manifest, index_types: Iterable[IndexType]
    ) -> dict[IndexType, memoryview]:
        """Return those of the given indexes that the segment has, from one range.

        Raises:
            CorruptIndexError: An index is not what was stored.
        """
        wanted = set(index_types)
        places = {kind: at for kind, at in manifest.indexes.items() if kind in wanted}
        if not places:
            return {}
        start = min(place.start for place in places.values())
        end = max(place.end for place in places.values())
        stored = self.store.get_range(f"{self.stem}.{Suffix.INDEXES}", start, end)
        key = self._key(manifest)
        found: dict[IndexType, memoryview] = {}
        for kind, place in places.items():
            data = stored[place.start - start : place.end - start]
            try:
                found[kind] = key.decrypt(data) if key and data else data
            except WrongTagError as error:
                msg = f"{self.name(Suffix.INDEXES)}: {kind}: {error}"
                raise CorruptIndexError(msg) from error
        return found

    def _key(self, manifest: Manifest) -> DataKey | None:
        if manifest.wrapped_key is None:
            return None
        return self.keys.unwrap(manifest.wrapped_key, self.name(Suffix.MANIFEST))


def _check_identity(facts: SegmentFacts, metadata: SegmentMetadata, name: str) -> None:
    """Check that a manifest is that of a segment.

    Raises:
        CorruptObjectError: It is that of another one.
        InvalidArgumentError: A part of the key prefix was read as the topic's name.
    """
    mine, theirs = metadata.partition, facts.partition
    if (facts.id, facts.start_offset, theirs.topic_id, theirs.partition) != (
        metadata.id,
        metadata.start_offset,
        mine.topic_id,
        mine.partition,
    ):
        segment = f"{theirs}/{facts.start_offset:020d}-{facts.id}"
        raise CorruptObjectError(f"{name}: it is the manifest of {segment}")
    if theirs.topic == mine.topic:
        return
    if mine.topic.endswith(theirs.topic):
        raise InvalidArgumentError(
            f"{name}: it is a manifest of the topic {theirs.topic!r}: the option "
            f"key_prefix has to end in {mine.topic.removesuffix(theirs.topic)!r}"
        )
    raise CorruptObjectError(f"{name}: it is a manifest of the topic {theirs.topic!r}")
