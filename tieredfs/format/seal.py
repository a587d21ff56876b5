"""The last step of writing a batch: its checksum."""

from typing import Final

from tieredfs.format.batch_header import CRC_END
from tieredfs.format.buffers import Buffer
from tieredfs.format.checksum import crc32c

__all__ = ["seal_batch"]

_CRC_AT: Final = 17


def seal_batch(header: bytes, records: Buffer) -> bytes:
    """Return a batch: its header, whose checksum is computed, and its stored records.

    Args:
        header: With any checksum.
        records: As they are stored, compressed or not.
    """
    crc = crc32c(records, crc32c(header[CRC_END:]))
    parts = (header[:_CRC_AT], crc.to_bytes(4, "big"), header[CRC_END:], records)
    return b"".join(parts)
