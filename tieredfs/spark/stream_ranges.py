"""What a batch of a stream reads of each partition, and what of it is gone.

Source: Spark's KafkaOffsetReader, ``getOffsetRangesFromResolvedOffsets``.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tieredfs.log.read.reader import Bounds
from tieredfs.spark.ranges import OffsetRange
from tieredfs.spark.stream_offset import Offsets, PartitionName, StreamOffset

__all__ = [
    "PartitionBatch",
    "deleted_partitions",
    "partition_batches",
    "shrunk_partitions",
]


@dataclass(frozen=True, slots=True)
class PartitionBatch:
    """What a batch reads of one partition.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        start: First offset; None for the beginning of a log that is new.
        end: End (exclusive).
    """

    topic: str
    partition: int
    start: int | None
    end: int

    @property
    def name(self) -> str:
        """The partition's name, for errors."""
        return f"{self.topic}-{self.partition}"

    def within(self, held: Bounds, latest: int) -> tuple[OffsetRange, list[str]]:
        """Return the offsets that are there, and what may have been lost.

        Args:
            held: The offsets that the log has.
            latest: The end of the log, or its last stable offset.
        """
        start = held.beginning if self.start is None else self.start
        losses = []
        if self.start is None and held.beginning:
            losses.append(
                f"Added partition {self.name} starts from {held.beginning} instead of 0"
            )
        if self.end < start:
            losses.append(_shrunk(self.name, start, self.end))
            return OffsetRange(self.topic, self.partition, start, start), losses
        first, stop = max(start, held.beginning), min(self.end, latest)
        bounds = []
        if first != start:
            bounds.append(f"begins at {held.beginning}")
        if stop != self.end:
            verb = "ends" if latest == held.end else "has its last stable offset"
            bounds.append(f"{verb} at {latest}")
        if bounds:
            losses.append(
                f"Offsets {start} to {self.end - 1} of {self.name} are to be read, the "
                f"log {' and '.join(bounds)}"
            )
        return OffsetRange(self.topic, self.partition, first, max(first, stop)), losses


def partition_batches(
    start: StreamOffset, end: StreamOffset
) -> Iterator[PartitionBatch]:
    """Yield what a batch reads of each partition of which it may read something.

    Args:
        start: The end of the batch before, or BEGINNING.
        end: Where the batch ends.
    """
    starts = _starts(start, end)
    for (topic, partition), stop in end.offsets.items():
        first = starts.get((topic, partition))
        if first != stop:
            yield PartitionBatch(topic, partition, first, stop)


def shrunk_partitions(starts: Offsets, ends: Offsets) -> list[str]:
    """Return what may have been lost of the logs that end before a batch begins.

    Args:
        starts: Where the batch begins.
        ends: Where the logs end.
    """
    return [
        _shrunk(f"{topic}-{partition}", start, ends[topic, partition])
        for (topic, partition), start in starts.items()
        if ends.get((topic, partition), start) < start
    ]


def deleted_partitions(start: StreamOffset, end: StreamOffset) -> list[PartitionName]:
    """Return the partitions that were there before a batch, and are not at its end."""
    return sorted(_starts(start, end).keys() - end.offsets.keys())


def _starts(start: StreamOffset, end: StreamOffset) -> Offsets:
    if start.is_beginning:
        return {one: end.begun.get(one, 0) for one in end.offsets}
    return start.offsets


def _shrunk(name: str, start: int, end: int) -> str:
    return (
        f"Partition {name}'s offset was changed from {start} to {end}: either this "
        "tier has less than the one that was read, or a start is beyond the end of the "
        "log, or the topic was deleted and created again"
    )
