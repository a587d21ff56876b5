"""What errors and reports say of segments that do not make one whole log."""

from typing import Final

from tieredfs.errors import CorruptDataError
from tieredfs.log.planning.overlap import Tile
from tieredfs.model import SegmentMetadata

__all__ = [
    "describe_dispute",
    "describe_gap",
    "describe_mixed_states",
    "dispute_error",
    "gap_error",
    "mixed_states_error",
]

_TO_GO_ON: Final = (
    "to read the rest: on_gap='skip' in Python, --on-gap skip on the command line, or "
    "failOnDataLoss=false in Spark"
)


def gap_error(
    url: str, segment: SegmentMetadata, start: int, end: int
) -> CorruptDataError:
    """Return the error for the offsets ``[start, end)``, which no segment has."""
    gap = describe_gap(start, end)
    return CorruptDataError(f"{url}: {segment.partition}: {gap} ({_TO_GO_ON})")


def describe_gap(start: int, end: int) -> str:
    """Describe the offsets ``[start, end)``, which no segment has."""
    return f"no segment holds the offsets {start} to {end - 1}"


def dispute_error(
    url: str, shorter: SegmentMetadata, longer: SegmentMetadata
) -> CorruptDataError:
    """Return the error for two objects of which one must be wrong."""
    return CorruptDataError(f"{url}: {describe_dispute(shorter, longer)} ({_TO_GO_ON})")


def describe_dispute(shorter: SegmentMetadata, longer: SegmentMetadata) -> str:
    """Describe two objects of which one must be wrong."""
    return (
        f"{shorter} exists twice, with the end offsets {shorter.end_offset} and "
        f"{longer.end_offset}, and the same log: push the partition again from a "
        "broker's log directory, or delete the wrong one"
    )


def mixed_states_error(url: str, older: Tile, later: Tile) -> CorruptDataError:
    """Return the error for two states of a compacted log that would be read as one."""
    return CorruptDataError(
        f"{url}: {describe_mixed_states(older, later)} ({_TO_GO_ON})"
    )


def describe_mixed_states(older: Tile, later: Tile) -> str:
    """Describe two states of a compacted log that would be read as one."""
    return (
        f"the offsets {older.start} to {older.end - 1} are only in "
        f"{older.segment}, which is older than {later.segment}: read "
        "together, they may bring back deleted records"
    )
