"""Ranges of offsets: what each partition is read of, and how it is divided.

Source of the division: Spark's KafkaOffsetRangeCalculator, so that as many tasks with
the same offsets come of ``minPartitions`` and ``maxRecordsPerPartition`` as there.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import floor

from tieredfs.errors import InvalidArgumentError, OffsetOutOfRangeError
from tieredfs.log.read.reader import Bounds
from tieredfs.spark.data_loss import report_loss
from tieredfs.spark.positions import EARLIEST, LATEST

__all__ = ["OffsetRange", "divide", "resolve_range"]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets of a partition.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        start: First offset; EARLIEST as long as it is not resolved.
        end: End (exclusive); LATEST as long as it is not resolved.
    """

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets."""
        return self.end - self.start


def resolve_range(
    asked: OffsetRange, held: Bounds, latest: int, *, fail_on_data_loss: bool
) -> OffsetRange:
    """Return the offsets to read of one partition.

    Args:
        asked: What was asked for; EARLIEST means the beginning of the log.
        held: The offsets of the log.
        latest: What LATEST means: the end of the log, or its last stable offset.
        fail_on_data_loss: Whether it is an error that offsets cannot be read: because
            they are gone, or not before ``latest``.

    Raises:
        InvalidArgumentError: An offset is invalid.
        OffsetOutOfRangeError: The start is after the end.
        CorruptDataError: Offsets cannot be read, and ``fail_on_data_loss`` is true.
    """
    name = f"topic {asked.topic} partition {asked.partition}"
    start = held.beginning if asked.start == EARLIEST else asked.start
    end = latest if asked.end == LATEST else asked.end
    if start < 0 or end < 0:
        raise InvalidArgumentError(
            f"{name}: startingOffsets {asked.start}, endingOffsets {asked.end}: "
            "-2 is earliest, -1 is latest"
        )
    if start > end:
        raise OffsetOutOfRangeError(
            f"The resolved start offset {start} is greater than the resolved end "
            f"offset {end} for {name}. Check startingOffsets and endingOffsets, or the "
            "times that were given in their place."
        )
    kept = max(start, held.beginning), min(end, latest)
    if kept != (start, end) and start != end:
        loss = (
            f"{name}: offsets {start} to {end - 1} are asked for, the log holds "
            f"{held.beginning} to {held.end - 1}"
        )
        if latest < min(end, held.end):
            loss += f" and has its last stable offset at {latest}"
        report_loss(loss, fails=fail_on_data_loss)
        start, end = kept[0], max(kept)
    return replace(asked, start=start, end=end)


def divide(
    asked: Iterable[OffsetRange],
    resolved: Sequence[OffsetRange],
    *,
    min_partitions: int | None,
    max_records: int | None,
) -> Sequence[OffsetRange]:
    """Divide ranges as Spark's Kafka source does.

    It looks at the ranges as they were asked for before it divides any: one with an
    open end counts as small, and an empty one counts.

    Args:
        asked: What was asked for of each partition.
        resolved: The same with offsets for EARLIEST and LATEST.
        min_partitions: How many ranges there are to be, about; None for no minimum.
        max_records: The largest size of a range; None for no limit.

    Returns:
        The ranges in the same order; if they are divided, without empty ones.
    """
    are_few = min_partitions is not None and len(resolved) < min_partitions
    is_large = max_records is not None and any(one.size > max_records for one in asked)
    if not are_few and not is_large:
        return resolved
    ranges = [one for one in resolved if one.size > 0]
    if max_records is not None:
        limit = max_records
        ranges = _divided(ranges, lambda one: -(-one.size // limit))
    if min_partitions is None or len(ranges) >= min_partitions:
        return ranges
    return _proportionally(ranges, min_partitions)


def _proportionally(ranges: Sequence[OffsetRange], wanted: int) -> list[OffsetRange]:
    """Divide the large ranges into as many parts, about, as the small ones leave.

    A range is small if its share of the wanted parts is one: it stays whole, and its
    offsets do not count in the shares of the large ranges.
    """
    total = sum(one.size for one in ranges)
    small = [one for one in ranges if _share(one.size, total, wanted) == 1]
    names = {(one.topic, one.partition) for one in small}
    rest = total - sum(one.size for one in small)
    left = max(wanted - len(small), 1)
    return _divided(
        ranges,
        lambda one: (
            1 if (one.topic, one.partition) in names else _share(one.size, rest, left)
        ),
    )


def _share(size: int, total: int, wanted: int) -> int:
    """Return how many parts of all a range gets, rounded as Java does, at least one."""
    return max(floor(size / total * wanted + 0.5), 1)


def _divided(
    ranges: Iterable[OffsetRange], parts_of: Callable[[OffsetRange], int]
) -> list[OffsetRange]:
    """Divide each range into so many parts of about the same size, none of it empty."""
    found: list[OffsetRange] = []
    for one in ranges:
        parts = min(parts_of(one), one.size)  # the others would be empty
        start = one.start
        for part in range(parts):
            end = start + (one.end - start) // (parts - part)
            found.append(replace(one, start=start, end=end))
            start = end
    return [one for one in found if one.size > 0]
