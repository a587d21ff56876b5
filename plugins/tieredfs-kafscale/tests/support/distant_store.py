"""A store in memory that is taken for a distant one: objects are sent concurrently."""

from tieredfs.testing.faults import FaultyStore

__all__ = ["DistantStore"]


class DistantStore(FaultyStore):
    """The same objects, as if they were on another machine."""

    @property
    def is_local(self) -> bool:
        """Whether the store is on this machine: it pretends not to be."""
        return False
