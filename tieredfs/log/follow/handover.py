"""Where the next record of a partition comes from: its tier, or its broker.

The next offset is all that a partition remembers of what was read, so no record is read
twice, and none is left out: whichever of the two continues does so from that offset.

============================  ==========================================================
what is seen                  what follows
============================  ==========================================================
the tier holds the offset     it is read there, up to a hole or to the tier's end
the tier does not hold it     the broker is asked
the broker's log begins later the tier is asked again: it may have grown meanwhile
neither of them holds it      an error that names the hole
the broker's log ends before  an error: it is not the log that was tiered, or lost some
the tier holds it, but not    the tier is asked again later: the transaction is open
what ends its transaction     there, and the broker has only the end of it
============================  ==========================================================
"""

from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Final, Self

from tieredfs.errors import OffsetOutOfRangeError, StorageUnavailableError
from tieredfs.log.read.reader import Bounds

__all__ = ["Handover", "Source"]

_MAX_CONTRADICTIONS: Final = 5
"""How often a broker may refuse an offset that its log holds: it may just have changed.
"""


class Source(Enum):
    """Who is asked for the next record."""

    TIER = auto()
    BROKER = auto()


@dataclass(frozen=True, slots=True)
class Handover:
    """How far a partition was read, and what is asked for the next record.

    Attributes:
        name: What messages call the partition and the places that may hold it.
        position: The next offset.
        source: What is asked for it.
        broker_start: Where the broker's log begins, if that is after the position.
        contradictions: How often the broker has refused a position inside its log.
    """

    name: str
    position: int
    source: Source = Source.TIER
    broker_start: int | None = None
    contradictions: int = 0

    def read_to(self, offset: int) -> Self:
        """Return what follows when every record below an offset was read."""
        if offset <= self.position:
            return self
        return replace(self, position=offset, broker_start=None, contradictions=0)

    def tier_ended(self, offset: int) -> Self:
        """Return what follows when the tier was read to the end of what it holds.

        Args:
            offset: That end (exclusive).
        """
        return replace(self.read_to(offset), source=Source.BROKER)

    def tier_lacks(self, next_held: int | None) -> Self:
        """Return what follows when the tier does not hold the next offset.

        Args:
            next_held: The first later offset that it holds; None if there is none.

        Raises:
            OffsetOutOfRangeError: The broker does not hold the offset either.
        """
        start = self.broker_start
        if start is None:
            return replace(self, source=Source.BROKER)
        end = start if next_held is None else min(start, next_held)
        msg = (
            f"{self.name}: offset {self.position} is out of range: the tier does not "
            f"hold [{self.position}, {end}), and the broker's log begins at {start}"
        )
        raise OffsetOutOfRangeError(msg)

    def tier_waits(self) -> Self:
        """Return what follows when the tier holds only the beginning of a transaction.

        The broker may hold all of it; if it does not, the tier is asked again.
        """
        if self.broker_start is not None:
            return self
        return replace(self, source=Source.BROKER)

    def refused(self, held: Bounds) -> Self:
        """Return what follows when the broker refuses the position as out of range.

        Args:
            held: The offsets of its log, as it says afterwards.

        Raises:
            OffsetOutOfRangeError: Its log ends before the position.
            StorageUnavailableError: It refuses what its log holds, again and again.
        """
        if self.position < held.beginning:
            return replace(self, source=Source.TIER, broker_start=held.beginning)
        if self.position > held.end:
            msg = (
                f"{self.name}: offset {self.position} is out of range; the broker's "
                f"log holds [{held.beginning}, {held.end}): the offset is not one of "
                "this log, or the broker has lost records"
            )
            raise OffsetOutOfRangeError(msg)
        if self.contradictions >= _MAX_CONTRADICTIONS:
            msg = (
                f"{self.name}: the broker refuses offset {self.position}, although its "
                f"log holds [{held.beginning}, {held.end}]"
            )
            raise StorageUnavailableError(msg)
        return replace(self, contradictions=self.contradictions + 1)
