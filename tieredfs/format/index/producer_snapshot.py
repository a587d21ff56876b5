"""The producer snapshot (``.snapshot``): what a broker knows of each producer.

Source: Kafka's ProducerStateManager. Version 1: int16 version, uint32 CRC-32C of what
follows it, int32 count, entries of 46 bytes. In a tier it is the state *after* the
segment; in a broker's log directory ``<offset>.snapshot`` is the state *before* that
offset.
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
    """One producer.

    Attributes:
        producer_id: Its id.
        producer_epoch: Its latest epoch.
        last_sequence: Of its last record; -1 for none.
        last_offset: Of its last record; -1 for none.
        offset_delta: Offsets from the first to the last record of its last batch.
        last_timestamp: Of its last batch, ms.
        coordinator_epoch: Of the coordinator that last ended its transaction; -1.
        transaction_first_offset: Of the transaction it has open; -1 for none.
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
            name: How to call it in an error.

        Raises:
            CorruptIndexError: It is too short, fails its checksum, or its length is
                not what its count says.
            UnsupportedFormatError: A version other than 1.
        """
        view = byte_view(data)
        if len(view) < _HEADER.size:
            msg = f"{name}: {len(view)} bytes are too few"
            raise CorruptIndexError(msg)
        version, crc, count = _HEADER.unpack_from(view)
        if version != _VERSION:
            msg = f"{name}: version {version}"
            raise UnsupportedFormatError(msg)
        if crc32c(view[_CRC_END:]) != crc:
            msg = f"{name}: CRC-32C is not the stored {crc:#010x}"
            raise CorruptIndexError(msg)
        entries = view[_HEADER.size :]
        if count < 0 or count * _ENTRY.size != len(entries):
            msg = f"{name}: {len(entries)} bytes are not {count} producers"
            raise CorruptIndexError(msg)
        producers = (ProducerState(*fields) for fields in _ENTRY.iter_unpack(entries))
        return cls(tuple(producers))

    def encode(self) -> bytes:
        """Write the snapshot as Kafka writes it."""
        entries = b"".join(_ENTRY.pack(*producer) for producer in self.producers)
        checked = _COUNT.pack(len(self.producers)) + entries
        return _LEAD.pack(_VERSION, crc32c(checked)) + checked

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction still open; None when none is."""
        return min(
            (
                producer.transaction_first_offset
                for producer in self.producers
                if producer.transaction_first_offset >= 0
            ),
            default=None,
        )
