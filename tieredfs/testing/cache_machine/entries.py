"""The entries that a cache's directory has."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from tieredfs.testing.cache_machine.cached_segment import CachedSegment

__all__ = ["Entries"]


@dataclass(frozen=True, slots=True)
class Entries:
    """The files of entries in a directory.

    Attributes:
        whole: Bytes of each segment's file that is as a cache has written it.
        damaged: Bytes of each segment's file that another program has changed.
        used: When each of the files says that it was used last.
    """

    whole: Mapping[CachedSegment, int] = field(default_factory=dict)
    damaged: Mapping[CachedSegment, int] = field(default_factory=dict)
    used: Mapping[CachedSegment, float] = field(default_factory=dict, compare=False)

    @property
    def sizes(self) -> Mapping[CachedSegment, int]:
        """Bytes of each segment's file."""
        return {**self.damaged, **self.whole}

    @property
    def size(self) -> int:
        """Total bytes."""
        return sum(self.whole.values()) + sum(self.damaged.values())

    def but_for(self, segments: Collection[CachedSegment]) -> "Entries":
        """Return the others."""
        whole, damaged = (
            {one: size for one, size in sizes.items() if one not in segments}
            for sizes in (self.whole, self.damaged)
        )
        return Entries(whole, damaged, self.used)
