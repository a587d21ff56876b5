"""Explain what reading a plan will ask of the store."""

from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.scan_plan import ScanPlan
from tieredfs.log.read.aborts import AbortedBatches
from tieredfs.log.read.estimate import estimate_reads
from tieredfs.log.read.explanation import Explanation
from tieredfs.log.read.gradual_estimate import (
    are_all,
    estimate_first,
    estimate_steps,
)
from tieredfs.log.read.partition_read import max_kept_bytes
from tieredfs.log.read.reader import TieredReader
from tieredfs.objects import RequestCounter, RequestCounts
from tieredfs.storage import RemoteStorageManager

__all__ = ["explain"]

_UNKEPT_TURNS = 2
"""How often more a log is fetched if turns drop what is left of their last fetch.

A turn consumes at least the batch that the turn before it has dropped, so two turns go
further than one fetch: a fetch for each of them, and one for a batch that is larger.
Each also asks whether the log is still the same.
"""


def explain(
    storage: RemoteStorageManager,
    plan: ScanPlan,
    *,
    records: int | None,
    is_fair: bool,
    committed: bool,
) -> Explanation:
    """Predict the requests of reading a plan.

    Args:
        storage: Where the segments are.
        plan: What is read; if only the first records are needed, the first slices are
            taken several times.
        records: Number of records that are needed; None for all.
        is_fair: Whether the partitions are read in turn.
        committed: Whether the records of aborted transactions are left out.

    Raises:
        TieredFSError: As in ``estimate_reads``.
    """
    counter = RequestCounter()
    asked = storage.with_observer(counter)
    reading, in_turns, is_exact = RequestCounts(), RequestCounts(), True
    partitions = set()
    needed = None if records is None else max(records, 1)
    are_few = needed is not None and not are_all(needed, plan)
    if are_few:
        # This first: what it asks for may spare the read a request.
        reading, is_exact = estimate_steps(asked, plan, plan.fetch_size), False
    is_fair &= storage.store.is_local or len(plan.partitions) > 1
    downloads = needed is None and not is_fair
    for one in estimate_reads(asked, plan, plan.fetch_size, downloads=downloads):
        reading += one.requests
        is_exact &= one.is_exact
        if one.fetches > 1:
            in_turns += one.requests + one.checks
            partitions.add(one.partition)
    expected = reading
    if needed is None:
        # Between its turns a partition keeps less than one fetch.
        kept = max_kept_bytes(storage)
        if is_fair and len(partitions) * plan.fetch_size > kept:
            reading, is_exact = reading + in_turns * _UNKEPT_TURNS, False
            expected = reading
    elif not is_exact:
        if not are_few:
            # Not less than for fewer records.
            reading += estimate_steps(asked, plan, plan.fetch_size)
        expected = estimate_first(asked, plan, needed, plan.fetch_size)
    if committed:
        looking = _look_for_aborts(asked, plan)
        reading, expected, is_exact = reading + looking, expected + looking, False
    return Explanation(
        segments=plan.segments,
        log_bytes=plan.size,
        explaining=counter.counts,
        reading=reading,
        expected=expected,
        is_exact=is_exact,
    )


def _look_for_aborts(storage: RemoteStorageManager, plan: ScanPlan) -> RequestCounts:
    """Fetch the transaction indexes that are needed if every batch is transactional.

    Returns:
        The requests of a read for them: at most these.
    """
    counter = RequestCounter()
    asked = storage.with_observer(counter)
    for slices in plan.partitions:
        partition = slices[0].segment.partition
        reader = TieredReader(asked, SegmentCatalog(asked), partition)
        aborts = AbortedBatches(asked, slices, reader.segments_from, skip_gaps=True)
        aborts.find(slices[0].start_offset, slices[-1].end_offset)
    return counter.counts
