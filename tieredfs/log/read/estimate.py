"""Predict the requests of a read, by running its fetches without reading the log.

The fetches are those of ``fetch_slice``, over a storage that plans each instead of
sending it. After a slice a read asks whether its segment is still the one that was
listed: that is asked here too, and counted.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Final

from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.positions import offset_index
from tieredfs.log.planning.segment_slice import SegmentSlice
from tieredfs.log.read.planning_storage import PlanningStorage
from tieredfs.log.read.slice_batches import fetch_slice, first_request
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.objects import RequestCounter, RequestCounts
from tieredfs.storage import RemoteStorageManager
from tieredfs.storage.early_end import INDEXES
from tieredfs.storage.segment_log.stream import LogFetch
from tieredfs.storage.stored_batches import fetch_batches

__all__ = ["Estimate", "count_check", "estimate_check", "estimate_reads"]

_SLICES_AT_A_TIME: Final = 1024
"""Slices that are held while they are estimated: a plan may have a million."""

_MAX_BATCH_BYTES: Final = (1 << 20) + 12
"""Kafka's default ``max.message.bytes``: larger batches are rare."""

_Key = tuple[TopicIdPartition, int, SegmentId]


@dataclass(frozen=True, slots=True)
class _Fetch:
    """A slice that is fetched, and the bytes of its first request if they are few."""

    part: SegmentSlice
    first_size: int | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """The requests that reading a slice, or several of one segment, will send.

    Attributes:
        partition: The partition.
        requests: The requests, and their bytes: at most these.
        planned: The same, unless a batch is larger than a request.
        checks: What it sends at most where each fetch begins with a batch: whether the
            segment is still the one that was listed.
        fetches: The largest number of fetches of the log for one slice.
        is_exact: Whether it sends exactly the requests, retries apart.
    """

    partition: TopicIdPartition
    requests: RequestCounts
    planned: RequestCounts
    checks: RequestCounts
    fetches: int
    is_exact: bool

    def __add__(self, other: "Estimate") -> "Estimate":
        """Return the estimate of both reads."""
        return Estimate(
            self.partition,
            self.requests + other.requests,
            self.planned + other.planned,
            self.checks + other.checks,
            max(self.fetches, other.fetches),
            self.is_exact and other.is_exact,
        )


def estimate_reads(
    storage: RemoteStorageManager,
    slices: Iterable[SegmentSlice],
    fetch_size: int,
    *,
    downloads: bool = False,
) -> Iterator[Estimate]:
    """Predict the requests that reading slices will send, one after the other.

    It asks what the layouts need to plan, such as manifests, a few at a time, and what
    a read asks after a slice. Of a broker's log directory the end of each closed log is
    read: the cleaner may have removed it, and then a read asks more.

    Args:
        storage: Where the segments are.
        slices: The slices, in the order in which they are read; taken a few at a time.
        fetch_size: Bytes of each request.
        downloads: Whether they are downloaded ahead: then the first request of each
            partition asks for less.

    Yields:
        An estimate for each slice, or for several of one segment.

    Raises:
        NotFoundError: A segment is gone.
        CorruptDataError: What is needed to plan is corrupt.
        StorageUnavailableError: The store failed in all attempts of its policy.
    """
    calls = SegmentCatalog(storage).calls
    estimate = partial(_estimate, fetch_size)
    partition: TopicIdPartition | None = None
    # The segments that a later slice may read on from, where segments overlap.
    left: dict[_Key, PlanningStorage] = {}
    rest = iter(slices)
    while several := list(islice(rest, _SLICES_AT_A_TIME)):
        parts: dict[_Key, list[_Fetch]] = {}
        for part in several:
            begins = downloads and part.segment.partition != partition
            partition = part.segment.partition
            first = first_request(storage, part, fetch_size) if begins else None
            parts.setdefault(_key(part.segment), []).append(_Fetch(part, first))
        storages = {key: left.get(key) or PlanningStorage(storage) for key in parts}
        yield from calls.map(
            estimate, [(storages[key], found) for key, found in parts.items()]
        )
        left = {
            key: one
            for key, one in (left | storages).items()
            if key[0] == several[-1].segment.partition
            and (key not in parts or _ends_inside(parts[key][-1].part))
        }


def _key(segment: SegmentMetadata) -> _Key:
    return segment.partition, segment.start_offset, segment.id


def _ends_inside(part: SegmentSlice) -> bool:
    return part.end_offset <= (part.segment.end_offset or 0)


def _estimate(fetch_size: int, of: tuple[PlanningStorage, list[_Fetch]]) -> Estimate:
    """Predict the requests for slices of one segment."""
    storage, (first, *others) = of
    found = _estimate_slice(storage, first, fetch_size)
    for fetch in others:
        found += _estimate_slice(storage, fetch, fetch_size)
    return found


def _estimate_slice(
    storage: PlanningStorage, fetch: _Fetch, fetch_size: int
) -> Estimate:
    part = fetch.part
    needed = part.end_position
    if _ends_inside(part) and part.size > fetch_size:
        # From the index first: to fetch it may spare the log's first fetch a request.
        index = offset_index(storage.inner, part.segment)
        needed = index.lookup(part.end_offset - 1).position + 1
    pieces = fetch_slice(storage, part, fetch_size, first_size=fetch.first_size)
    fetched = storage.plan(pieces, part.end_position)
    # A fetch that begins behind the last batch may be spared, and one is larger where a
    # batch is larger than it.
    is_exact = fetched.count <= 1 or (
        fetched.last_start < needed and fetch_size >= _MAX_BATCH_BYTES
    )
    check = count_check(storage.inner, part.segment)
    checked, is_check_exact = estimate_check(storage, part, check)
    planned = requests = fetched.requests + checked
    if not is_exact:
        requests += storage.overshoot(part.segment) + check
    if check.requests and fetched.count > 1:
        # It also asks where a fetch begins with a batch.
        requests, is_exact = requests + check * (fetched.count - 1), False
    return Estimate(
        part.segment.partition,
        requests,
        planned,
        check * fetched.count,
        fetched.count,
        is_exact and is_check_exact,
    )


def count_check(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> RequestCounts:
    """Ask whether a segment is still the one that was listed, and count the requests.

    A read asks it where what it fetches begins with a batch.
    """
    counter = RequestCounter()
    storage.with_observer(counter).is_current(segment)
    return counter.counts


def estimate_check(
    storage: PlanningStorage,
    part: SegmentSlice,
    check: RequestCounts,
    *,
    pauses: bool = False,
) -> tuple[RequestCounts, bool]:
    """Predict what a read asks after a slice: whether the segment is current.

    Args:
        storage: Plans the fetches of the segment's log.
        part: The slice.
        check: What it takes to ask that of a log that ends where it should.
        pauses: Whether the read pauses where the log ends before the slice's last
            offset, and asks nothing.

    Returns:
        The requests of a read, and whether it sends exactly these.
    """
    segment = part.segment
    is_cut = part.end_position < (segment.size or 0)
    if not check.requests or is_cut or storage.inner.is_active(segment):
        return check, True
    reached = max(part.start_offset, _end_of_log(storage.inner, segment))
    if reached >= part.end_offset:
        return check, True
    if pauses:
        return RequestCounts(), True
    counter = RequestCounter()
    asked = storage.inner.with_observer(counter)
    asked.is_current(segment, reached - 1)
    is_compacted = asked.is_compacted(segment.partition)
    asked.fetch_indexes(segment, INDEXES)
    if is_compacted:
        return counter.counts, True
    # The log is searched for holes, from its beginning to the first one.
    size = segment.size or 0
    fetch_size = storage.store.options.fetch_bytes
    fetch = partial(storage.fetch_log_ahead, segment)
    fetched = storage.plan(LogFetch(fetch, size, fetch_size=fetch_size), size)
    return counter.counts + fetched.requests, fetched.count <= 1


def _end_of_log(storage: RemoteStorageManager, segment: SegmentMetadata) -> int:
    """Return one past the last offset in a segment's log."""
    index = offset_index(storage, segment)
    start = index.entry(-1).position if len(index) else 0
    reached = segment.start_offset
    for batches in fetch_batches(storage, segment, start=start):
        reached = int(batches["last_offset"][-1]) + 1
    return reached
