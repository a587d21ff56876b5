"""What a storage has to hold after any calls: a pure model, the oracle of the machine.

A segment is whole, absent, or unknown: a copy or a delete of it has failed, and readers
see all of it or nothing. The next listing shows which, and the model keeps to it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import NamedTuple

from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.testing.plugin_machine.promise import BrokenPromiseError, Promise, keep
from tieredfs.testing.requirement import in_words
from tieredfs.testing.samples import Sample

__all__ = ["SegmentName", "StorageModel", "name_of"]


class SegmentName(NamedTuple):
    """What distinguishes a segment from all others."""

    partition: TopicIdPartition
    start_offset: int
    id: SegmentId


def name_of(metadata: SegmentMetadata) -> SegmentName:
    """Return the name of a segment."""
    return SegmentName(metadata.partition, metadata.start_offset, metadata.id)


class StorageModel:
    """The segments of a storage.

    Attributes:
        whole: Those that every reader sees.
        unknown: Those that readers see whole or not at all.
    """

    def __init__(self) -> None:
        """Begin with an empty storage."""
        self.whole: dict[SegmentName, Sample] = {}
        self.unknown: dict[SegmentName, Sample] = {}
        self._dirty: set[TopicIdPartition] = set()  # where failed calls left objects

    def of(self, partition: TopicIdPartition) -> list[Sample]:
        """Return the whole segments of a partition."""
        return [one for name, one in self.whole.items() if name.partition == partition]

    def begin_copy(self, one: Sample) -> None:
        """Begin a copy: what was whole stays so, what was not may appear."""
        name = name_of(one.metadata)
        if name not in self.whole:
            self.unknown[name] = one

    def end_copy(self, one: Sample) -> None:
        """End a copy that returned."""
        name = name_of(one.metadata)
        self.unknown.pop(name, None)
        self.whole[name] = one

    def refuse_copy(self, one: Sample) -> None:
        """End a copy of what the layout cannot store: it stored nothing."""
        self.unknown.pop(name_of(one.metadata), None)

    def fail_copy(self, one: Sample) -> None:
        """End a copy that failed, and may have left objects."""
        self._dirty.add(one.metadata.partition)

    def adopt(
        self, partitions: Iterable[TopicIdPartition], ones: Iterable[Sample]
    ) -> None:
        """Hold what was there from the beginning.

        Args:
            partitions: Those that are listed, whatever is in them.
            ones: Their segments.
        """
        self._dirty.update(partitions)
        for one in ones:
            self.end_copy(one)

    def begin_delete(self, ones: Sequence[Sample]) -> None:
        """Begin to delete segments."""
        for one in ones:
            name = name_of(one.metadata)
            if self.whole.pop(name, None) is not None:
                self.unknown[name] = one

    def end_delete(self, one: Sample) -> None:
        """End a delete that returned."""
        self.unknown.pop(name_of(one.metadata), None)

    def end_delete_partition(self, partition: TopicIdPartition) -> None:
        """End the delete of a partition that returned."""
        for name in [name for name in self.unknown if name.partition == partition]:
            del self.unknown[name]
        self.clean(partition)

    def fail_delete(self, partition: TopicIdPartition) -> None:
        """End a delete in a partition that failed, and may have left objects."""
        self._dirty.add(partition)

    def clean(self, partition: TopicIdPartition) -> None:
        """Note that what failed calls left in a partition was removed."""
        self._dirty.discard(partition)

    def is_clean(self, partition: TopicIdPartition) -> bool:
        """Return whether no failed call can have left objects in a partition."""
        return partition not in self._dirty

    def is_gone(self, name: SegmentName) -> bool:
        """Return whether nothing of a segment can be there, nor be left of it."""
        known = self.whole.keys() | self.unknown.keys()
        return name not in known and self.is_clean(name.partition)

    def check_partitions(
        self, listed: Sequence[TopicIdPartition], *, has_ids: bool = True
    ) -> None:
        """Require that a listing of partitions is right.

        A store may list the folder of a partition without segments, if it is empty now.

        Args:
            listed: The result.
            has_ids: Whether the ids of the topics could be read.
        """
        keep(
            Promise.LISTINGS_ARE_SORTED,
            list(listed) == sorted(set(listed)),
            f"list_partitions is not sorted, or repeats a partition: {listed}",
        )
        missing = {name.partition for name in self.whole} - set(listed)
        if not has_ids:
            found = {(one.topic, one.partition) for one in listed}
            missing = {p for p in missing if (p.topic, p.partition) not in found}
        keep(
            Promise.COPIES_STAY,
            not missing,
            f"list_partitions lacks {in_words(missing)}",
        )

    def check_segments(
        self,
        partition: TopicIdPartition,
        listed: Sequence[SegmentMetadata] | None,
        min_offset: int = 0,
    ) -> None:
        """Require that a listing of segments is right.

        Args:
            partition: What was listed.
            listed: The result; None for NotFoundError.
            min_offset: From where on it was listed.
        """
        where = f"list_segments({partition}, {min_offset})"
        found = [name_of(one) for one in listed or ()]
        starts = [name.start_offset for name in found]
        keep(
            Promise.LISTINGS_ARE_SORTED,
            starts == sorted(starts),
            f"{where} is not sorted: {starts}",
        )
        keep(
            Promise.LISTINGS_ARE_SORTED,
            len(found) == len(set(found)),
            f"{where} repeats a segment: {found}",
        )
        for metadata in listed or ():
            name = name_of(metadata)
            sample = self.whole.get(name) or self.unknown.get(name)
            if sample is None:
                raise BrokenPromiseError(
                    Promise.NOTHING_ELSE_IS_LISTED,
                    f"{where} has {metadata}, which is not stored",
                )
            _check_fields(metadata, sample.described)
        for one in self.of(partition):
            is_wanted = (one.described.end_offset or 0) >= min_offset
            keep(
                Promise.COPIES_STAY,
                name_of(one.metadata) in found
                or (listed is not None and not is_wanted),
                f"{where} lacks {one.metadata}, which is stored",
            )
        is_known = any(name.partition == partition for name in self.unknown)
        if not self.of(partition) and not is_known and self.is_clean(partition):
            keep(
                Promise.NOTHING_ELSE_IS_LISTED,
                listed is None,
                f"{where} is {listed}, not NotFoundError: nothing is stored there",
            )

    def check_seek(
        self,
        partition: TopicIdPartition,
        found: Sequence[SegmentMetadata] | None,
        offset: int,
    ) -> None:
        """Require that a seek found the first segment that ends at an offset or later.

        Args:
            partition: Where it was sought.
            found: The result; None for NotFoundError.
            offset: What was sought.
        """
        later = [
            one
            for one in self.of(partition)
            if (one.described.end_offset or 0) >= offset
        ]
        names = [name_of(one) for one in found or ()]
        for name in names:
            keep(
                Promise.NOTHING_ELSE_IS_LISTED,
                name in self.whole or name in self.unknown,
                f"seek in {partition} found {name}, which is not stored",
            )
        if later:
            first = min(one.described.end_offset or 0 for one in later)
            wanted = [
                name_of(one.metadata)
                for one in later
                if one.described.end_offset == first
            ]
            keep(
                Promise.SEEK_FINDS_THE_FIRST,
                any(name in names for name in wanted),
                f"seek to offset {offset} of {partition} found {names}, not the first "
                f"segment that ends there or later: {wanted}",
            )

    def observe(
        self, partition: TopicIdPartition, listed: Sequence[SegmentMetadata] | None
    ) -> None:
        """Take over which of the unknown segments a listing shows."""
        found = {name_of(one) for one in listed or ()}
        for name in [name for name in self.unknown if name.partition == partition]:
            one = self.unknown.pop(name)
            if name in found:
                self.whole[name] = one


def _check_fields(listed: SegmentMetadata, described: SegmentMetadata) -> None:
    """Require that the fields that a listing contains are right."""
    for field in fields(SegmentMetadata):
        if not field.compare or field.name in {"version", "custom_metadata"}:
            continue
        said, right = getattr(listed, field.name), getattr(described, field.name)
        keep(
            Promise.LISTED_FIELDS_ARE_TRUE,
            said is None or said == right,
            f"{listed} is listed with {field.name} {said}, it is {right}",
        )
