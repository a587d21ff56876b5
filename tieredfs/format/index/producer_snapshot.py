"""The producer snapshot (``.snapshot``): a broker's state of each producer.

Source: Kafka's ProducerStateManager. Version 1: int16 version, uint32 CRC-32C of the
bytes after it, int32 count, entries of 46 bytes. In a tier the snapshot is the state
*after* the segment; in a broker's log directory ``<offset>.snapshot`` is the state
*before* that offset.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple, Self

from tieredfs.errors import CorruptIndexError, UnsupportedFormatError
from tieredfs.format.buffers import Buffer, byte_view
from tieredfs.format.checksum import crc32c

__all__ = ["ProducerSnapshot", "ProducerState"]

_HEADER = struct.Struct(">hIi")
_CRC_END = 6
_LEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
_VERSION = 1


class ProducerState(NamedTuple):
    """The state of one producer.

    Attributes:
        producer_id: Id of the producer.
        producer_epoch: Latest epoch of the producer.
        last_sequence: Sequence number of its last record; -1 for none.
        last_offset: Offset of its last record; -1 for none.
        offset_delta: Last offset minus first offset of its last batch.
        last_timestamp: Timestamp of its last batch, ms.
        coordinator_epoch: Epoch of the coordinator that last ended a transaction of the
            producer; -1 for none.
        transaction_first_offset: First offset of its open transaction; -1 for none.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    last_timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


@dataclass(frozen=True, slots=True)
class ProducerSnapshot:
    """A parsed producer snapshot.

    Attributes:
        producers: The producers, in the order of the file.
    """

    producers: tuple[ProducerState, ...] = ()

    @classmethod
    def parse(cls, data: Buffer, *, name: str = "producer snapshot") -> Self:
        """Parse and validate a producer snapshot.

        Args:
            data: The whole snapshot.
            name: Name used in error messages.

        Raises:
            CorruptIndexError: The snapshot is too short, fails its checksum, or its
                length does not match its count.
            UnsupportedFormatError: The version is not 1.
        """
        view = byte_view(data)
        if len(view) < _HEADER.size:
            msg = f"{name}: {len(view)} bytes are too few for a header"
            raise CorruptIndexError(msg)
        version, crc, count = _HEADER.unpack_from(view)
        if version != _VERSION:
            msg = f"{name}: unsupported version {version}"
            raise UnsupportedFormatError(msg)
        computed = crc32c(view[_CRC_END:])
        if computed != crc:
            msg = (
                f"{name}: CRC-32C does not match: stored {crc:#010x}, "
                f"computed {computed:#010x}"
            )
            raise CorruptIndexError(msg)
        entries = view[_HEADER.size :]
        if count < 0 or count * _ENTRY.size != len(entries):
            msg = (
                f"{name}: a count of {count} producers does not match {len(entries)} "
                "bytes of entries"
            )
            raise CorruptIndexError(msg)
        producers = (ProducerState(*fields) for fields in _ENTRY.iter_unpack(entries))
        return cls(tuple(producers))

    def encode(self) -> bytes:
        """Encode the snapshot as Kafka does."""
        entries = b"".join(_ENTRY.pack(*producer) for producer in self.producers)
        checked = _COUNT.pack(len(self.producers)) + entries
        return _LEAD.pack(_VERSION, crc32c(checked)) + checked
