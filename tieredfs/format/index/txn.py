"""The transaction index (``.txnindex``): the aborted transactions of a segment.

Source: Kafka's TransactionIndex and AbortedTxn; KIP-98. Entries of 34 bytes, in the
order in which the transactions were aborted. A segment without aborts has no index.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple, Self

from tieredfs.errors import CorruptIndexError, UnsupportedFormatError
from tieredfs.format.buffers import Buffer, byte_view

__all__ = ["AbortedTransaction", "CollectedAborts", "TransactionIndex"]

_ENTRY = struct.Struct(">hqqqq")


class AbortedTransaction(NamedTuple):
    """One aborted transaction.

    Attributes:
        producer_id: Id of the producer.
        first_offset: Offset of the first record, which may be in an earlier segment.
        last_offset: Offset of the abort marker.
        last_stable_offset: First offset of the oldest transaction that was still open
            when the marker was written.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CollectedAborts(NamedTuple):
    """Aborted transactions that touch a range of offsets.

    Attributes:
        aborted: The transactions, in the order of their abort markers.
        is_complete: Whether it is certain that later segments have no more of them.
    """

    aborted: tuple[AbortedTransaction, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class TransactionIndex:
    """A parsed transaction index.

    Attributes:
        entries: The aborted transactions, by strictly increasing abort marker.
    """

    entries: tuple[AbortedTransaction, ...] = ()

    @classmethod
    def parse(
        cls, data: Buffer, base_offset: int, *, name: str = "transaction index"
    ) -> Self:
        """Parse and validate a transaction index; an empty one has no aborts.

        Args:
            data: The whole index.
            base_offset: The segment's first offset.
            name: Index name used in error messages.

        Raises:
            CorruptIndexError: The length is not a multiple of 34 (truncation), a
                transaction ends before it begins or before the segment, or the markers
                do not increase (as in zero padding).
            UnsupportedFormatError: The version of an entry is not 0.
        """
        view = byte_view(data)
        if len(view) % _ENTRY.size:
            msg = f"{name}: {len(view)} bytes are not a multiple of {_ENTRY.size}"
            raise CorruptIndexError(msg)
        entries: list[AbortedTransaction] = []
        previous = base_offset - 1
        for number, (version, *fields) in enumerate(_ENTRY.iter_unpack(view)):
            if version != 0:
                msg = f"{name}: unsupported version {version} in entry {number}"
                raise UnsupportedFormatError(msg)
            entry = AbortedTransaction(*fields)
            if entry.last_offset <= previous:
                msg = (
                    f"{name}: last offset {entry.last_offset} in entry {number} "
                    f"follows {previous}"
                )
                raise CorruptIndexError(msg)
            if (
                not 0 <= entry.first_offset < entry.last_offset
                or not 0 <= entry.last_stable_offset <= entry.last_offset + 1
                or entry.producer_id < 0
            ):
                msg = f"{name}: entry {number} is not a valid transaction: {entry}"
                raise CorruptIndexError(msg)
            previous = entry.last_offset
            entries.append(entry)
        return cls(tuple(entries))

    def encode(self) -> bytes:
        """Encode the index as Kafka does."""
        return b"".join(_ENTRY.pack(0, *entry) for entry in self.entries)

    def collect(self, start: int, end: int) -> CollectedAborts:
        """Collect the aborted transactions that touch the offsets ``[start, end)``."""
        aborted: list[AbortedTransaction] = []
        for entry in self.entries:
            if entry.last_offset >= start and entry.first_offset < end:
                aborted.append(entry)
            if entry.last_stable_offset >= end:
                return CollectedAborts(tuple(aborted), is_complete=True)
        return CollectedAborts(tuple(aborted), is_complete=False)
