"""Resolve the requested offsets of a query, without reading anything."""

from collections.abc import Mapping

from tieredfs.errors import (
    CorruptDataError,
    InvalidArgumentError,
    OffsetOutOfRangeError,
)
from tieredfs.log.read.reader import Bounds
from tieredfs.spark.options import EARLIEST, LATEST, Offsets

__all__ = ["check_named", "resolve_range"]


def check_named(named: Offsets | None, assigned: Mapping[str, tuple[int, ...]]) -> None:
    """Check that offsets name exactly the partitions that are read.

    Raises:
        InvalidArgumentError: They do not.
    """
    if named is None:
        return
    specified = {f"{t}-{p}" for t, offsets in named.items() for p in offsets}
    wanted = {f"{t}-{p}" for t, numbers in assigned.items() for p in numbers}
    if specified != wanted:
        raise InvalidArgumentError(
            "Partitions specified for Kafka start offsets don't match what are "
            "assigned. Use -1 for latest, -2 for earliest. Specified: "
            f"{', '.join(sorted(specified))} Assigned: {', '.join(sorted(wanted))}"
        )


def resolve_range(
    name: str,
    asked: tuple[int, int],
    held: Bounds,
    latest: int,
    *,
    fail_on_data_loss: bool,
) -> tuple[int, int]:
    """Return the offsets ``[start, end)`` to read of one partition.

    Args:
        name: The partition, for errors.
        asked: Start and end; EARLIEST means the beginning of the log.
        held: The offsets of the log.
        latest: What LATEST means: the end of the log, or its last stable offset.
        fail_on_data_loss: Whether offsets that are gone are an error.

    Raises:
        InvalidArgumentError: An offset is invalid.
        OffsetOutOfRangeError: The start is after the end.
        CorruptDataError: Offsets are gone, and ``fail_on_data_loss`` is true.
    """
    start = held.beginning if asked[0] == EARLIEST else asked[0]
    end = latest if asked[1] == LATEST else asked[1]
    if start < 0 or end < 0:
        raise InvalidArgumentError(
            f"{name}: offsets {asked[0]} to {asked[1]}: -2 is earliest, -1 is latest"
        )
    if start > end:
        raise OffsetOutOfRangeError(
            f"The resolved start offset {start} is greater than the resolved end "
            f"offset {end} for {name}."
        )
    kept = max(start, held.beginning), min(end, held.end)
    if kept != (start, end) and start != end:
        if fail_on_data_loss:
            raise CorruptDataError(
                f"{name}: offsets {start} to {end - 1} are asked for, the log holds "
                f"{held.beginning} to {held.end - 1}. Some data may have been lost; "
                "set failOnDataLoss to false to read what is there."
            )
        start, end = kept[0], max(kept)
    return start, end
