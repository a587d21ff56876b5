"""What is followed: a topic, of which partitions, from where on."""

from collections.abc import Callable
from dataclasses import dataclass

from tieredfs.format.records.schema import COLUMNS
from tieredfs.log.follow.handover import Handover
from tieredfs.log.read.last_records import LastRecords
from tieredfs.log.read.reader import TieredReader
from tieredfs.log.read.scan_bounds import ParsedPosition
from tieredfs.storage import RemoteStorageManager

__all__ = ["Followed"]


@dataclass(frozen=True, slots=True)
class Followed:
    """What is followed.

    Attributes:
        storage: Where the segments are.
        topic: The topic's name.
        reader: Returns the reader of a partition, which the tier need not have.
        partitions: The partitions; None for all.
        tiered: The partitions that the tier has.
        start: Where to begin.
        columns: The columns to build; None for all.
        committed: Whether only committed records are read.
        broker: What messages call the brokers.
    """

    storage: RemoteStorageManager
    topic: str
    reader: Callable[[int], TieredReader]
    partitions: tuple[int, ...] | None
    tiered: tuple[int, ...]
    start: ParsedPosition | LastRecords
    columns: tuple[str, ...] | None
    committed: bool
    broker: str

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The columns that are read: also the offsets, by which records are counted."""
        wanted = self.columns or COLUMNS
        return wanted if "offset" in wanted else (*wanted, "offset")

    def at(self, number: int, offset: int) -> Handover:
        """Return a partition that is read from an offset on."""
        url = self.storage.store.url
        return Handover(f"{url} and {self.broker}: {self.topic}-{number}", offset)
