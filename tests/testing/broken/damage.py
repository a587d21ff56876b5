"""Plugins that take damaged or moved objects for whole ones."""

import json
from typing import Final

from typing_extensions import override

from testing.broken.plugin import Broken, Native
from tieredfs import (
    CorruptDataError,
    CorruptObjectError,
    LogSegmentData,
    NotFoundError,
    SegmentIndexes,
    SegmentMetadata,
    TopicIdPartition,
)
from tieredfs import testing as rules
from tieredfs.format.segment.tail import Manifest
from tieredfs.storage.layouts.kafka_local import KafkaLocal
from tieredfs.storage.layouts.single_object.layout import SingleObject
from tieredfs.storage.layouts.single_object.object_reader import ObjectReader

__all__ = ["BROKEN"]


class TrustsItsStore(KafkaLocal):
    """Reads all, more than it was asked for, and returns what its store has of it."""

    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        if end is None or not 0 <= start <= end <= (metadata.size or 0):
            return super().fetch_log_segment(metadata, start, end)
        return self.store.get(self._key(metadata, "log"))[start:end]


class TakesShortForGone(KafkaLocal):
    """Takes a log that has lost its end for one that is gone."""

    @override
    def fetch_log_segment(
        self,
        metadata: SegmentMetadata,
        start: int = 0,
        end: int | None = None,
        *,
        layout: bytes = b"",
    ) -> memoryview:
        try:
            return super().fetch_log_segment(metadata, start, end)
        except CorruptObjectError as error:
            raise NotFoundError(str(error)) from error


class LeavesOutWhatIsDamaged(SingleObject):
    """Lists the segments whose objects have the size that their keys state."""

    @override
    def list_segments(
        self, partition: TopicIdPartition, min_offset: int = 0
    ) -> list[SegmentMetadata]:
        try:
            return super().list_segments(partition, min_offset)
        except CorruptObjectError:
            return []


class RaisesItsOwn(Native):
    """Raises the error of a list that is too short."""

    @override
    def fetch_all_indexes(self, metadata: SegmentMetadata) -> SegmentIndexes:
        try:
            return super().fetch_all_indexes(metadata)
        except CorruptDataError as error:
            raise IndexError("list index out of range") from error


class _LooksAtTheOffset(ObjectReader):
    """Takes an object for a segment's if it begins where the segment does."""

    @override
    def _verify(self, manifest: Manifest) -> Manifest:
        if manifest.segment.start_offset != self.key.start_offset:
            raise CorruptObjectError(f"{self.name}: it begins elsewhere")
        return manifest


class _LooksAtItsSegment(ObjectReader):
    """Compares what tells the segments of one partition apart."""

    @override
    def _verify(self, manifest: Manifest) -> Manifest:
        said = manifest.segment
        if (said.start_offset, said.id) != (self.key.start_offset, self.key.id):
            raise CorruptObjectError(f"{self.name}: it is of another segment")
        return manifest


class ReadsBy(SingleObject):
    """Its objects are verified in another way."""

    reader: type[ObjectReader]

    @override
    def _object(self, metadata: SegmentMetadata) -> ObjectReader:
        found = super()._object(metadata)
        fields = ("store", "partition", "key", "stem", "path", "known")
        return self.reader(*(getattr(found, name) for name in fields))


class LooksAtTheOffsetAlone(ReadsBy):
    """Does not notice an object of another segment that begins at the same offset."""

    reader = _LooksAtTheOffset


class LooksAtNoPartition(ReadsBy):
    """Does not notice an object of another partition under the same id."""

    reader = _LooksAtItsSegment


class TrustsItsManifest(SingleObject):
    """Keeps a list of its segments as JSON, and believes what is in it."""

    @override
    def copy_log_segment(
        self, metadata: SegmentMetadata, data: LogSegmentData
    ) -> bytes:
        whole = json.dumps({"partition": metadata.partition.partition}).encode()
        self.store.put("manifest.json", whole, overwrite=True)
        return super().copy_log_segment(metadata, data)

    @override
    def describe(
        self, metadata: SegmentMetadata, indexes: SegmentIndexes | None = None
    ) -> SegmentMetadata:
        try:
            manifest = json.loads(bytes(self.store.get("manifest.json")))
        except ValueError:
            raise CorruptObjectError("the manifest is not JSON") from None
        if manifest["partition"] < 0:
            raise CorruptObjectError("the manifest has no partition")
        return super().describe(metadata, indexes)


BROKEN: Final = (
    Broken(
        rules.check_errors_are_typed,
        TrustsItsManifest,
        r"With manifest\.json a list, describe raised TypeError",
    ),
    Broken(
        rules.check_errors_are_typed,
        RaisesItsOwn,
        "fetch_all_indexes raised IndexError",
    ),
    Broken(
        rules.check_short_object_is_an_error,
        TakesShortForGone,
        "of a segment that is listed raised NotFoundError",
    ),
    Broken(
        rules.check_short_object_is_an_error,
        TrustsItsStore,
        r"\.log has \d+ of",
        bug="reads more than it was asked for and returns what its store gave",
    ),
    Broken(
        rules.check_damaged_segment_does_not_vanish,
        LeavesOutWhatIsDamaged,
        "neither list_segments nor scrub reports it",
    ),
    Broken(
        rules.check_moved_object_is_noticed,
        LooksAtTheOffsetAlone,
        "place of a segment that differs .* only in its topic",
    ),
    Broken(
        rules.check_moved_object_is_noticed,
        LooksAtNoPartition,
        "place of a segment that differs .* only in its topic",
    ),
)
