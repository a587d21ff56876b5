"""A segment as a broker hands it over."""

from dataclasses import dataclass
from pathlib import Path

from tieredfs.model import LogSegmentData, SegmentId, SegmentMetadata

__all__ = ["Sample"]


@dataclass(frozen=True, slots=True)
class Sample:
    """A segment as a broker hands it over, with its expected metadata.

    Attributes:
        metadata: Its partition, id, first and last offset.
        data: Its log and its indexes.
        described: Its metadata with every field known, except those that a layout adds.
    """

    metadata: SegmentMetadata
    data: LogSegmentData
    described: SegmentMetadata

    @property
    def log(self) -> bytes:
        """The bytes of the log."""
        log = self.data.log
        return log.read_bytes() if isinstance(log, Path) else bytes(log)

    @property
    def identity(self) -> tuple[int, SegmentId]:
        """Its identity within its partition."""
        return self.metadata.start_offset, self.metadata.id
