"""A ``.kfst`` object: the smallest and the largest timestamp of a segment, optional.

Source: KafScale's SQL processor, which writes it and reads its last 40 bytes.
"""

import struct
from dataclasses import dataclass
from typing import Final, Self

__all__ = ["SIDECAR_SIZE", "TimeSidecar"]

_SIDECAR = struct.Struct(">4sIqqqq")
_MAGIC: Final = b"KFTF"
_VERSION: Final = 1

SIDECAR_SIZE: Final = _SIDECAR.size


@dataclass(frozen=True, slots=True)
class TimeSidecar:
    """The times and offsets of a segment.

    Attributes:
        min_timestamp_ms: Smallest timestamp, ms since 1970 UTC.
        max_timestamp_ms: Largest timestamp.
        min_offset: First offset.
        max_offset: Last offset.
    """

    min_timestamp_ms: int
    max_timestamp_ms: int
    min_offset: int
    max_offset: int

    def encode(self) -> bytes:
        """Return the 40 bytes."""
        return _SIDECAR.pack(
            _MAGIC,
            _VERSION,
            self.min_timestamp_ms,
            self.max_timestamp_ms,
            self.min_offset,
            self.max_offset,
        )

    @classmethod
    def parse(cls, data: bytes | memoryview) -> Self | None:
        """Parse a sidecar; return None for one that is malformed, as a reader does."""
        if len(data) < SIDECAR_SIZE:
            return None
        magic, _, *fields = _SIDECAR.unpack(data[-SIDECAR_SIZE:])
        return cls(*fields) if magic == _MAGIC else None
