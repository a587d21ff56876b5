"""The transaction index (``.txnindex``): the aborted transactions of a segment.

Source: Kafka's TransactionIndex and AbortedTxn; KIP-98. Entries of 34 bytes, in the
order in which the transactions were aborted. A segment without aborts has no index.
"""

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tieredfs.errors import CorruptIndexError, UnsupportedFormatError
from tieredfs.format.batch.table import LogBatches
from tieredfs.format.buffers import Buffer, Int64Array, byte_view
from tieredfs.integers import MAX_INT64

__all__ = [
    "AbortedRanges",
    "AbortedTransaction",
    "CollectedAborts",
    "TransactionIndex",
]

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


@dataclass(frozen=True, slots=True)
class AbortedRanges:
    """The offsets at which the records of each producer were aborted.

    A producer has one transaction at a time, so the ranges of one do not overlap.

    Attributes:
        ranges: For each producer, the first and the last offsets of its aborted
            transactions, both increasing.
    """

    ranges: Mapping[int, tuple[Int64Array, Int64Array]]

    @classmethod
    def of(cls, aborted: Iterable[AbortedTransaction]) -> Self:
        """Return the ranges of some transactions; one may be given several times."""
        each: dict[int, set[tuple[int, int]]] = defaultdict(set)
        for one in aborted:
            each[one.producer_id].add((one.last_offset, one.first_offset))
        ranges = {}
        for producer_id, found in each.items():
            lasts, firsts = np.array(sorted(found), np.int64).T
            ranges[producer_id] = firsts, lasts
        return cls(ranges)

    def are_aborted(self, batches: LogBatches) -> npt.NDArray[np.bool_]:
        """Return for each batch whether its records were aborted.

        Only batches of a transaction are; the markers that end one are not.
        """
        aborted = np.zeros(len(batches), np.bool_)
        producers, base = batches["producer_id"], batches["base_offset"]
        in_transaction = batches.is_transactional
        for producer_id in np.unique(producers[in_transaction]).tolist():
            if producer_id not in self.ranges:
                continue
            firsts, lasts = self.ranges[producer_id]
            rows = np.flatnonzero(in_transaction & (producers == producer_id))
            nearest = np.searchsorted(lasts, base[rows])
            starts = np.append(firsts, MAX_INT64)[nearest]
            aborted[rows] = starts <= batches["last_offset"][rows]
        return aborted
