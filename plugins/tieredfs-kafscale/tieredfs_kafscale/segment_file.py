"""A ``.kfs`` object: 32 bytes of header, record batches, 16 bytes of footer.

All numbers are big-endian. The checksum covers the batches only, which are Kafka's own.

Source: KafScale's ``pkg/storage/segment.go``.
"""

import struct
from dataclasses import dataclass
from typing import Final, Self

from tieredfs import CorruptObjectError, UnsupportedFormatError

__all__ = ["FOOTER_SIZE", "HEADER_SIZE", "SegmentFooter", "SegmentHeader"]

_HEADER = struct.Struct(">4sHHqiqI")
_FOOTER = struct.Struct(">Iq4s")
_BEGIN: Final = b"KAFS"
_END: Final = b"END!"
_VERSION: Final = 1

HEADER_SIZE: Final = _HEADER.size
FOOTER_SIZE: Final = _FOOTER.size


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first 32 bytes.

    Attributes:
        base_offset: First offset of the segment.
        message_count: Number of records.
        created_ms: When it was made, ms since 1970 UTC.
    """

    base_offset: int
    message_count: int
    created_ms: int

    def encode(self) -> bytes:
        """Return the 32 bytes."""
        return _HEADER.pack(
            _BEGIN,
            _VERSION,
            0,
            self.base_offset,
            self.message_count,
            self.created_ms,
            0,
        )

    @classmethod
    def parse(cls, data: bytes | memoryview, name: str) -> Self:
        """Parse a header.

        Args:
            data: At least the first 32 bytes of the object.
            name: Name of the object, used in error messages.

        Raises:
            CorruptObjectError: It is not the header of a segment.
            UnsupportedFormatError: It is of another version.
        """
        if len(data) < HEADER_SIZE:
            raise CorruptObjectError(f"{name}: {len(data)} bytes are not a segment")
        begin, version, _, base, count, created, _ = _HEADER.unpack_from(data)
        if begin != _BEGIN:
            raise CorruptObjectError(
                f"{name}: it begins with {begin!r}, not {_BEGIN!r}"
            )
        if version != _VERSION:
            raise UnsupportedFormatError(f"{name}: version {version} of a segment")
        return cls(base, count, created)


@dataclass(frozen=True, slots=True)
class SegmentFooter:
    """The last 16 bytes.

    Attributes:
        checksum: CRC-32C of the batches.
        last_offset: Last offset of the last batch.
    """

    checksum: int
    last_offset: int

    def encode(self) -> bytes:
        """Return the 16 bytes."""
        return _FOOTER.pack(self.checksum, self.last_offset, _END)

    @classmethod
    def parse(cls, data: bytes | memoryview, name: str) -> Self:
        """Parse a footer.

        Args:
            data: The last 16 bytes of the object.
            name: Name of the object, used in error messages.

        Raises:
            CorruptObjectError: It is not the footer of a segment.
        """
        if len(data) != FOOTER_SIZE:
            raise CorruptObjectError(f"{name}: {len(data)} bytes are not a footer")
        checksum, last, end = _FOOTER.unpack(data)
        if end != _END:
            raise CorruptObjectError(f"{name}: it ends with {end!r}, not {_END!r}")
        return cls(checksum, last)
