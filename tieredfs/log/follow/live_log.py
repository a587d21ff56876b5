"""What is followed of a topic's brokers, whichever client asks them."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import pyarrow as pa

from tieredfs.format.records.schema import OutputSize
from tieredfs.log.read.reader import Bounds

__all__ = ["Arrived", "Ended", "Event", "LiveLog", "LiveTopic", "Refused"]


@dataclass(frozen=True, slots=True)
class Arrived:
    """The next records of a partition.

    Attributes:
        partition: Its number.
        records: Some records, in offset order.
    """

    partition: int
    records: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Ended:
    """Every record of a partition below an offset has arrived.

    Attributes:
        partition: Its number.
        offset: The end of its log, or of its committed records, at the moment.
    """

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A partition is not read any more: the next offset is not in the broker's log.

    Attributes:
        partition: Its number.
    """

    partition: int


Event: TypeAlias = Arrived | Ended | Refused


@dataclass(frozen=True, slots=True)
class LiveTopic:
    """What is wanted of a topic's brokers.

    Attributes:
        name: The topic's name.
        topic_id: The id that it has to have; all ``A`` for any.
        committed: Whether only committed records are wanted.
        columns: The columns to build; None for all.
        output: How large an Arrow batch may be.
    """

    name: str
    topic_id: str
    committed: bool
    columns: tuple[str, ...] | None
    output: OutputSize


class LiveLog(Protocol):
    """The partitions of a topic, as its brokers have them.

    Each method raises StorageUnavailableError when no broker answers in time.
    """

    @property
    def is_answering(self) -> bool:
        """Whether nothing that was asked of the brokers waits for its answer."""

    def partitions(self) -> Collection[int]:
        """Return the numbers of the topic's partitions."""

    def confirm(self) -> None:
        """Ask whether the topic is still the one that it was.

        Raises:
            NotFoundError: It is not.
        """

    def read(self, positions: Mapping[int, int]) -> None:
        """Read partitions from these offsets on, and others as before."""

    def poll(self, seconds: float) -> Iterator[Event]:
        """Yield what has come from the partitions that are read; wait if nothing has.

        Args:
            seconds: Maximum wait for the first event.

        Raises:
            NotFoundError: The topic was deleted, perhaps to be created again.
            PermissionDeniedError: The brokers refuse the credentials.
            CorruptDataError: What came is corrupt.
        """

    def bounds(self, partition: int) -> Bounds:
        """Return the offsets that a partition holds."""

    def ends(self, partitions: Collection[int]) -> dict[int, int]:
        """Return the end of each partition, or of its committed records."""

    def offset_of_time(self, partition: int, timestamp: int) -> int | None:
        """Return the offset of the first record at or after a time; None if none.

        Args:
            partition: Its number.
            timestamp: Milliseconds since 1970 UTC.
        """

    def close(self) -> None:
        """End all reading."""
