"""What ``push`` and ``migrate`` show of the segments that they have copied."""

from collections.abc import Iterator, Sequence
from typing import Final

from tieredfs.cli.output.progress import Transfer
from tieredfs.errors import StorageUnavailableError
from tieredfs.log.push.outcome import PushedSegment, PushOutcome, PushReport
from tieredfs.model import TopicIdPartition
from tieredfs.storage import RemoteStorageManager

__all__ = ["COLUMNS", "change_errors", "count_moved", "row_of"]

COLUMNS: Final = {
    "partition": "PARTITION",
    "segments": "SEGMENTS",
    **{outcome.value: outcome.name for outcome in PushOutcome},
    "rebuilt": "REBUILT",
    "repaired": "REPAIRED",
    "bytes": "BYTES",
}


def count_moved(moved: Transfer, one: PushedSegment) -> None:
    """Count a copied segment; the others are not part of the total."""
    size = one.segment.size or 0
    if one.outcome is PushOutcome.COPIED:
        moved.finish(size)
    else:
        moved.leave_out(size)


def change_errors(
    source: RemoteStorageManager, report: PushReport, verb: str
) -> Iterator[StorageUnavailableError]:
    """Yield an error for each segment that the broker was changing.

    Args:
        source: Where it is.
        report: What was copied.
        verb: What to do again.
    """
    for one in report.segments:
        if one.outcome is PushOutcome.CHANGED:
            yield StorageUnavailableError(
                f"{source.name_of(one.segment)}.log: the broker was replacing it: "
                f"{verb} again; where no broker is running, start it once, so that it "
                "finishes"
            )


def row_of(partition: TopicIdPartition, report: PushReport) -> dict[str, object]:
    """Return the row of a partition, by the names of ``COLUMNS``."""
    mine = [one for one in report.segments if one.segment.partition == partition]
    counts = {outcome.value: _count(mine, outcome) for outcome in PushOutcome}
    failed = sum(one.partition == partition for one in report.partitions)
    return {
        "partition": str(partition),
        "segments": len(mine),
        **counts,
        "failed": counts["failed"] + failed,
        "rebuilt": sum(len(one.rebuilt) for one in mine),
        "repaired": sum(one.replaced is not None for one in mine),
        "bytes": sum(one.segment.size or 0 for one in mine),
    }


def _count(segments: Sequence[PushedSegment], outcome: PushOutcome) -> int:
    return sum(one.outcome is outcome for one in segments)
