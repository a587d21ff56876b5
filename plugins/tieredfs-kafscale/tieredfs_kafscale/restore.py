"""Which segments a listing has: those that are whole, also where a half is missing.

KafScale stores a segment's two objects concurrently, and acknowledges it when both are
there. What a listing has without the other half is one of these:

| there is | and after it | it is |
|---|---|---|
| a log without an index | a whole segment | a segment, whose index is rebuilt |
| a log without an index | none | not acknowledged, or not yet: left out |
| an index without a log | | never read: left out |
| a log without a footer | | damaged: the store writes objects whole |

A broker that knows how far it has acknowledged fails for the first, or, if it does not
know, leaves the segment out, and its offsets become a gap.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tieredfs import ObjectInfo
from tieredfs_kafscale.object_names import ObjectName, Suffix
from tieredfs_kafscale.segment_file import FOOTER_SIZE, HEADER_SIZE

__all__ = ["StoredObjects", "by_offset", "last_complete", "may_be_log"]


@dataclass(frozen=True, slots=True)
class StoredObjects:
    """The objects of one base offset.

    Attributes:
        base_offset: First offset of the segment.
        own: KafScale's own, by kind.
        sidecars: Those that KafScale does not know, by checksum and kind.
        claims: Those of processes that replace what is there, by their numbers.
    """

    base_offset: int
    own: dict[Suffix, ObjectInfo] = field(default_factory=dict)
    sidecars: dict[tuple[int, Suffix], ObjectInfo] = field(default_factory=dict)
    claims: dict[int, ObjectInfo] = field(default_factory=dict)

    def of_log(self, checksum: int) -> dict[Suffix, ObjectInfo]:
        """Return the sidecars of the log with a checksum."""
        return {
            kind: entry
            for (its, kind), entry in self.sidecars.items()
            if its == checksum
        }


def by_offset(
    listed: Mapping[ObjectName, ObjectInfo],
) -> dict[int, StoredObjects]:
    """Sort the objects of a partition by the base offsets of their segments."""
    found: dict[int, StoredObjects] = {}
    for name, entry in sorted(listed.items(), key=lambda item: item[0].base_offset):
        base = name.base_offset
        objects = found.setdefault(base, StoredObjects(base))
        if name.checksum is None:
            objects.own[name.suffix] = entry
        elif name.suffix is Suffix.CLAIM:
            objects.claims[name.checksum] = entry
        else:
            objects.sidecars[name.checksum, name.suffix] = entry
    return found


def may_be_log(entry: ObjectInfo | None) -> bool:
    """Return whether an object is large enough for a header, a batch and a footer."""
    return entry is not None and (entry.size or 0) > HEADER_SIZE + FOOTER_SIZE


def last_complete(objects: Mapping[int, StoredObjects]) -> int:
    """Return the base offset of the last segment with both halves; -1 for none."""
    complete = (
        base
        for base, found in objects.items()
        if may_be_log(found.own.get(Suffix.LOG)) and Suffix.INDEX in found.own
    )
    return max(complete, default=-1)
