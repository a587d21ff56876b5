"""Views: what a tier is made of as tables, one row for each segment or partition.

The driver lists; what has to be fetched and read is, by the executors.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Final, TypeAlias

import pyarrow as pa

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import (
    SEGMENT_ERRORS,
    NotFoundError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.format.index.producer_snapshot import ProducerSnapshot
from tieredfs.format.index.time import NO_TIMESTAMP
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex
from tieredfs.log.partitions import (
    missing_topic_error,
    topic_partitions,
    without_deleted,
)
from tieredfs.log.planning.catalog import SegmentCatalog
from tieredfs.log.planning.columns import end_of
from tieredfs.log.planning.tiles import last_of, lineage_of
from tieredfs.log.read.reader import TieredReader, bounds_of
from tieredfs.log.verify.segment_check import SegmentCheck
from tieredfs.log.verify.verify import verify_history
from tieredfs.model import (
    IndexType,
    SegmentMetadata,
    TopicIdPartition,
    check_topic_name,
)
from tieredfs.spark.options import SourceOptions
from tieredfs.spark.plan import open_source
from tieredfs.spark.tasks import TASK_BYTES
from tieredfs.spark.topics import topic_names
from tieredfs.spark.view_columns import VIEWS
from tieredfs.storage import RemoteStorageManager
from tieredfs.tier import Tier

__all__ = ["ViewTask", "plan_view"]

_Row: TypeAlias = "tuple[object, ...]"
_BATCH_ROWS: Final = 10_000
_PARTITIONS_OF_A_TASK: Final = 64
_ARROW: Final = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class ViewTask:
    """What one task of a view looks at.

    Attributes:
        view: The view.
        storage: Where the segments are.
        partitions: The partitions to look at.
        segments: Segments to read whole, each after the one before it.
    """

    view: str
    storage: RemoteStorageManager
    partitions: tuple[TopicIdPartition, ...] = ()
    segments: tuple[tuple[SegmentMetadata | None, SegmentMetadata], ...] = ()

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows.

        Args:
            columns: The columns, some of the view's.

        Raises:
            UnsupportedOperationError: Spark cannot hold a timestamp.
            TieredFSError: The tier cannot be read; what ``verify`` finds is in rows.
        """
        names = list(columns)
        rows = iter(self._rows(columns))
        while some := list(islice(rows, _BATCH_ROWS)):
            by_name = dict(zip(VIEWS[self.view], zip(*some, strict=True), strict=True))
            arrays = [self._array(name, by_name[name]) for name in names]
            yield pa.RecordBatch.from_arrays(arrays, names=names)

    def __repr__(self) -> str:
        """Show the view and what it looks at, without secrets."""
        return (
            f"ViewTask({self.view!r}, {self.storage!r}, partitions="
            f"{len(self.partitions)}, segments={len(self.segments)})"
        )

    def _array(self, name: str, values: Sequence[object]) -> pa.Array:
        try:
            return pa.array(values, _ARROW[VIEWS[self.view][name]])
        except OverflowError as error:
            others = (f"{n} {t}" for n, t in VIEWS[self.view].items() if n != name)
            raise UnsupportedOperationError(
                f"view {self.view}: Spark cannot hold a {name}; load with a schema "
                f"without it, such as .schema('{', '.join(others)}')"
            ) from error

    def _rows(self, columns: Sequence[str]) -> Iterator[_Row]:
        catalog = SegmentCatalog(self.storage)
        for partition in self.partitions:
            reader = TieredReader(self.storage, catalog, partition)
            yield from _ROWS[self.view](reader, columns)
        for before, segment in self.segments:
            yield from _checked(self.storage, before, segment)


def plan_view(view: str, options: SourceOptions) -> list[ViewTask]:
    """Plan a view of the topics that were asked for, of all of them by default.

    Args:
        view: Its name.
        options: What was asked for.

    Raises:
        NotFoundError: The tier or a topic does not exist.
        TieredFSError: The tier cannot be listed.
    """
    tier = open_source(options)
    storage, partitions = tier.storage, _chosen(tier, options)
    tasks = [
        ViewTask(view, storage, tuple(partitions[at : at + _PARTITIONS_OF_A_TASK]))
        for at in range(0, len(partitions), _PARTITIONS_OF_A_TASK)
    ]
    if view == "verify":
        catalog = SegmentCatalog(storage)
        readers = [TieredReader(storage, catalog, one) for one in partitions]
        tasks += _bundles(storage, catalog.calls.map(_survey, readers))
    return tasks


def _chosen(tier: Tier, options: SourceOptions) -> list[TopicIdPartition]:
    """Return the partitions that were asked for, of all topics of their names.

    Raises:
        NotFoundError: A topic that is named does not exist.
    """
    every: dict[str, list[TopicIdPartition]] = {}
    listed = [] if options.names_topics else tier.storage.list_partitions()
    for one in without_deleted(tier.storage, listed):
        every.setdefault(one.topic, []).append(one)
    found: list[TopicIdPartition] = []
    for name, numbers in topic_names(tier, options):
        own = (
            _named(tier, name, options.topic_id)
            if options.names_topics
            else every.get(name, [])
        )
        found += (
            one
            for one in own
            if options.topic_id in {None, one.topic_id}
            and (numbers is None or one.partition in numbers)
        )
    return found


def _named(tier: Tier, name: str, topic_id: str | None) -> list[TopicIdPartition]:
    """Return the partitions of all topics of a name.

    Args:
        tier: Where the topics are.
        name: The name.
        topic_id: An id that one of these topics must have; None for any.

    Raises:
        NotFoundError: No topic has the name, or no topic of the name has the id.
    """
    found = topic_partitions(tier.storage, check_topic_name(name))
    if not found:
        raise missing_topic_error(tier.storage, name)
    if topic_id is not None:
        tier.topic(name, topic_id=topic_id)
    return found


def _bundles(
    storage: RemoteStorageManager, listed: Iterable[Sequence[SegmentMetadata]]
) -> Iterator[ViewTask]:
    """Yield tasks of neighbouring segments, up to about the size of a task."""
    bundle: list[tuple[SegmentMetadata | None, SegmentMetadata]] = []
    size = 0
    for segments in listed:
        for before, segment in pairwise((None, *segments)):
            if segment is None:
                continue
            if bundle and size + (segment.size or 0) > TASK_BYTES:
                yield ViewTask("verify", storage, segments=tuple(bundle))
                bundle, size = [], 0
            bundle.append((before, segment))
            size += segment.size or 0
    if bundle:
        yield ViewTask("verify", storage, segments=tuple(bundle))


def _survey(reader: TieredReader) -> list[SegmentMetadata]:
    """Return the segments that are whole by their listing; others are history's."""
    try:
        found = reader.storage.survey(reader.partition)
        whole = [one for one in found if isinstance(one, SegmentMetadata)]
    except (*SEGMENT_ERRORS, NotFoundError):
        return []
    return sorted(whole, key=lambda one: one.start_offset)


def _of(partition: TopicIdPartition) -> _Row:
    return partition.topic, str(partition.topic_id), partition.partition


def _of_segment(segment: SegmentMetadata) -> _Row:
    end = None if segment.end_offset is None else end_of(segment)
    return *_of(segment.partition), segment.start_offset, end, str(segment.id)


def _segments(reader: TieredReader, columns: Sequence[str]) -> Iterator[_Row]:
    segments = reader.segments(timed="max_timestamp" in columns)
    sizes = reader.stored_sizes(segments) if "stored_bytes" in columns else {}
    for one in segments:
        latest = one.max_timestamp_ms
        stamp = None if latest in {None, NO_TIMESTAMP} else (latest or 0) * 1000
        stored = sizes.get((one.start_offset, one.id))
        yield *_of_segment(one), stamp, one.size, stored


def _offsets(reader: TieredReader, columns: Sequence[str]) -> Iterator[_Row]:
    segments = reader.segments()
    held = bounds_of(segments)
    stable = None
    if "stable_offset" in columns:
        stable = max(held.beginning, reader.stable_offset(segments))
    size = sum(one.size or 0 for one in segments)
    yield (
        *_of(reader.partition),
        held.beginning,
        held.end,
        stable,
        len(segments),
        size,
    )


def _transactions(reader: TieredReader, columns: Sequence[str]) -> Iterator[_Row]:
    """Yield the aborted transactions, and those that are open where the log ends."""
    del columns  # all of them come of the same indexes
    storage, partition = reader.storage, _of(reader.partition)
    segments = reader.segments()
    lineage = lineage_of(segments)
    aborted: dict[AbortedTransaction, None] = {}  # copies of a segment list the same
    for one in segments:
        if storage.is_txn_index_empty(one):
            continue
        found = storage.fetch_indexes(one, [IndexType.TRANSACTION])
        index = TransactionIndex.parse(
            found.get(IndexType.TRANSACTION, b""),
            one.start_offset,
            name=f"{storage.name_of(one)}: transaction index",
        )
        # Leave out transactions whose records a later leader has replaced.
        own = LeaderEpochs(one.leader_epochs or ())
        agreed = own.agreement_end(lineage, one.start_offset, end_of(one))
        kept = (entry for entry in index.entries if entry.last_offset < agreed)
        aborted |= dict.fromkeys(kept)
    for producer_id, first, last_offset, _ in aborted:
        yield *partition, producer_id, first, last_offset, "aborted"
    last = last_of(segments)
    if last is None:
        return
    found = storage.fetch_indexes(last, [IndexType.PRODUCER_SNAPSHOT])
    data = found.get(IndexType.PRODUCER_SNAPSHOT)
    producers = () if data is None else ProducerSnapshot.parse(data).producers
    for producer in producers:
        first = producer.transaction_first_offset
        if first >= 0:
            yield *partition, producer.producer_id, first, None, "open"


def _history(reader: TieredReader, columns: Sequence[str]) -> Iterator[_Row]:
    """Yield what is wrong with the segments of a partition as one log."""
    del columns  # a problem is one whatever is asked about it
    for problem in verify_history(reader.storage, reader.partition):
        of, kind = _of(reader.partition), problem.kind.value
        yield *of, None, None, None, None, kind, problem.detail


def _checked(
    storage: RemoteStorageManager,
    before: SegmentMetadata | None,
    segment: SegmentMetadata,
) -> Iterator[_Row]:
    """Yield a row for each problem of a segment, or one without a problem."""
    errors: list[TieredFSError] = []
    try:
        if segment.end_offset is None or segment.size is None:
            segment = storage.describe(segment)
        check = SegmentCheck(storage, reads_logs=True)
        errors += check.problems(segment, before)
    except SEGMENT_ERRORS as error:
        errors.append(error)
    except NotFoundError as error:
        if not _is_listed(storage, segment):  # retention has deleted it meanwhile
            return
        errors.append(error)
    of = *_of_segment(segment), segment.size
    if not errors:
        yield *of, None, None
    for one in errors:
        yield *of, one.kind.value, str(one)


def _is_listed(storage: RemoteStorageManager, segment: SegmentMetadata) -> bool:
    try:
        listed = storage.list_segments(segment.partition)
    except NotFoundError:
        return False
    return any(one.id == segment.id for one in listed)


_ROWS: Final[Mapping[str, Callable[[TieredReader, Sequence[str]], Iterator[_Row]]]] = {
    "segments": _segments,
    "offsets": _offsets,
    "transactions": _transactions,
    "verify": _history,
}
