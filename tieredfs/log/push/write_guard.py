"""What a push asks before it changes its target."""

from typing import Protocol

from tieredfs.model import SegmentMetadata

__all__ = ["WriteGuard"]


class WriteGuard(Protocol):
    """Allows the changes of one partition, one after the other, or refuses them.

    An error of a guard ends the push of the partition before anything is changed.
    """

    def before_copy(self, segment: SegmentMetadata) -> None:
        """Allow a segment to be copied.

        Args:
            segment: The segment, with its id in the target.
        """

    def before_delete(self, segment: SegmentMetadata) -> None:
        """Allow a stored segment to be deleted, of whose log there is a better copy."""
