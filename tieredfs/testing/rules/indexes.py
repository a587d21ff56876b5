"""Rules for the indexes of a segment."""

import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import combinations, product
from typing import Final

from tieredfs.epochs import LeaderEpochs
from tieredfs.errors import CorruptDataError, NotFoundError
from tieredfs.format.index.leader_epochs import format_leader_epochs
from tieredfs.format.index.producer_snapshot import ProducerSnapshot, ProducerState
from tieredfs.format.index.txn import AbortedTransaction, TransactionIndex
from tieredfs.model import (
    EpochEntry,
    IndexType,
    SegmentId,
    SegmentIndexes,
    SegmentMetadata,
)
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.copies import COPIES
from tieredfs.testing.requirement import in_words
from tieredfs.testing.rule import (
    Case,
    NotApplicableError,
    expect_error,
    require,
    require_bytes,
    require_whole,
    rule,
)
from tieredfs.testing.samples import PARTITIONS, Sample, sample
from tieredfs.testing.segment_plan import (
    BatchPlan,
    PlannedRecord,
    SegmentPlan,
    build_segment,
)
from tieredfs.testing.stores import READS, WatchedStore

__all__ = [
    "check_fetch_indexes_equals_one_by_one",
    "check_inconsistent_indexes_are_refused",
    "check_indexes_are_of_the_id",
    "check_indexes_are_what_was_copied",
    "check_indexes_cost_one_request",
    "check_missing_index_is_left_out",
    "check_missing_index_is_not_found",
]


_GARBAGE: Final = b"garbage!!"  # a multiple of no entry's size


@rule(Capability.WRITE)
def check_inconsistent_indexes_are_refused(case: Case) -> None:
    """An index that is malformed or not the log's is refused, and nothing is stored.

    It copies a malformed index, that of another segment, and one that points past the
    end of the log, of each type.

    Source: the plugin contract, Indexes.
    """
    one = sample(PARTITIONS[0], 1)
    for copy, (kind, said, index) in product(COPIES, _inconsistent(one)):
        data = replace(one.data, indexes={**one.data.indexes, kind: index})
        case.require_refusal(
            partial(copy, case.storage, one.metadata, data),
            CorruptDataError,
            f"{copy.__name__} with the {kind} index {said}",
        )


def _inconsistent(one: Sample) -> Iterator[tuple[IndexType, str, bytes]]:
    """Yield indexes that the log of a segment cannot have."""
    later = sample(one.metadata.partition, 3)
    others: Mapping[IndexType, bytes] = {
        **later.data.indexes,
        # The samples have batches of one size and one epoch: these are of another log.
        IndexType.OFFSET: struct.pack(">ii", 9, 100),
        IndexType.LEADER_EPOCH: format_leader_epochs(LeaderEpochs((EpochEntry(5, 0),))),
    }
    for kind in IndexType:
        yield kind, "malformed", _GARBAGE
        yield kind, "of another segment", others[kind]
    end = later.metadata.end_offset or 0
    delta = end - one.metadata.start_offset
    past = ProducerState(9, 0, 0, end, 0, 0, -1, -1)
    abort = AbortedTransaction(7, one.metadata.start_offset, end, end + 1)
    flaw = "that points past the log"
    yield IndexType.OFFSET, flaw, struct.pack(">ii", 1, len(one.log))
    yield IndexType.TIMESTAMP, flaw, struct.pack(">qi", 1, delta)
    yield IndexType.PRODUCER_SNAPSHOT, flaw, ProducerSnapshot((past,)).encode()
    yield IndexType.TRANSACTION, flaw, TransactionIndex((abort,)).encode()


@rule(Capability.WRITE)
def check_indexes_are_what_was_copied(case: Case) -> None:
    """Each index is, byte for byte, the one that was copied.

    Source: the plugin contract, Indexes.
    """
    for one in case.fill():
        for storage in (case.storage, case.another()):
            found = storage.fetch_all_indexes(case.listed(one))
            for kind, content in one.data.indexes.items():
                require(kind in found, f"{kind} of {one.metadata} is missing.")
                said = f"fetch_all_indexes of {one.metadata}, {kind},"
                require_bytes(found[kind], content, said)


@rule()
def check_fetch_indexes_equals_one_by_one(case: Case) -> None:
    """``fetch_indexes`` returns what ``fetch_index`` does, and nothing else.

    Source: the plugin contract, What a user calls, ``fetch_indexes``.
    """
    for listed in case.segments():
        alone = _fetched_alone(case.storage, listed)
        everything = case.storage.fetch_all_indexes(listed)
        require(
            dict(everything) == alone,
            f"fetch_all_indexes of {listed} returned {in_words(everything)} or "
            f"other bytes; one by one they are {in_words(alone)}.",
        )
        for count in range(len(IndexType)):
            for kinds in combinations(IndexType, count):
                found = dict(case.storage.fetch_indexes(listed, iter(kinds)))
                wanted = {kind: alone[kind] for kind in kinds if kind in alone}
                require(
                    found == wanted,
                    f"fetch_indexes of {listed}, asked for {in_words(kinds)}, "
                    f"returned {in_words(found)} or other bytes, not "
                    f"{in_words(wanted)}.",
                )


@rule()
def check_missing_index_is_not_found(case: Case) -> None:
    """``fetch_index`` raises NotFoundError for an index the segment lacks.

    Source: KIP-405, RemoteResourceNotFoundException of fetchIndex.
    """
    for listed, kind in _missing(case):
        expect_error(
            partial(case.storage.fetch_index, listed, kind),
            NotFoundError,
            f"{listed} has no {kind} index, and fetch_index",
        )


@rule()
def check_missing_index_is_left_out(case: Case) -> None:
    """An index that a segment does not have is left out where several are fetched.

    KIP-1002 fetches all indexes in one call, and most segments have no TRANSACTION.

    Source: KIP-1002, all indexes of a segment are fetched in one call.
    """
    for listed, kind in _missing(case):
        there = _fetched_alone(case.storage, listed)
        asked: dict[str, tuple[Callable[[], SegmentIndexes], set[IndexType]]] = {
            f"fetch_indexes of {kind}": (
                partial(case.storage.fetch_indexes, listed, [kind]),
                set(),
            ),
            "fetch_indexes of all": (
                partial(case.storage.fetch_indexes, listed, list(IndexType)),
                set(there),
            ),
            "fetch_all_indexes": (
                partial(case.storage.fetch_all_indexes, listed),
                set(there),
            ),
        }
        for said, (fetch, wanted) in asked.items():
            try:
                found = set(fetch())
            except NotFoundError as error:
                raise AssertionError(
                    f"{listed} has no {kind} index, and {said} raised {error!r}."
                ) from error
            require(
                found == wanted,
                f"{listed} has no {kind} index, and {said} returned {in_words(found)}.",
            )


@rule(Capability.WRITE)
def check_indexes_are_of_the_id(case: Case) -> None:
    """A segment copied again under a new id is read with the new copy's indexes.

    KIP-405 gives every attempt to copy a segment an id of its own.

    Source: KIP-405, every attempt to copy a segment has an id of its own.
    """
    old = sample(PARTITIONS[0], 1)
    start = old.metadata.start_offset
    plan = SegmentPlan((BatchPlan((PlannedRecord(value=b"new"),)),) * 3)
    new = build_segment(
        PARTITIONS[0], SegmentId.from_bytes(b"new id".ljust(16)), start, plan
    )
    reader = case.another()
    case.another().copy_log_segment(old.metadata, old.data)
    require_whole(reader, case.stored(old), old)
    listed = case.stored(old)
    case.another().copy_log_segment(new.metadata, new.data)
    for storage in (reader, case.another()):
        for one in (new, old):
            require_whole(storage, case.stored(one), one, "Both are stored.")
    case.another().delete_log_segment(listed)
    for storage in (reader, case.another()):
        require_whole(storage, case.stored(new), new, "The old one was deleted.")


def _fetched_alone(
    storage: RemoteStorageManager, listed: SegmentMetadata
) -> dict[IndexType, bytes]:
    """Return the indexes of a segment, fetched one by one."""
    alone: dict[IndexType, bytes] = {}
    for kind in IndexType:
        with suppress(NotFoundError):
            alone[kind] = bytes(storage.fetch_index(listed, kind))
    return alone


def _missing(case: Case) -> list[tuple[SegmentMetadata, IndexType]]:
    """Return segments, each with a type of index that it does not have.

    Raises:
        NotApplicableError: Each segment has every index.
    """
    if case.can(Capability.WRITE):
        one = sample(PARTITIONS[0], 0)  # it has no aborted transaction
        case.storage.copy_log_segment(one.metadata, one.data)
        return [(case.listed(one), IndexType.TRANSACTION)]
    missing = [
        (listed, kind)
        for listed in case.segments()
        for kind in sorted(set(IndexType) - set(_fetched_alone(case.storage, listed)))
    ]
    if not missing:
        raise NotApplicableError("each of the segments has every index")
    return missing


@rule(Capability.SINGLE_REQUEST_INDEXES)
def check_indexes_cost_one_request(case: Case) -> None:
    """With SINGLE_REQUEST_INDEXES all indexes of a listed segment cost one request.

    Source: KIP-1002, all indexes of a segment are fetched in one call.
    """
    watched = WatchedStore.over(case.store, READS)
    storage = case.another(watched)
    for partition in sorted({segment.partition for segment in case.segments()}):
        for listed in storage.list_segments(partition):
            watched.calls = 0
            storage.fetch_all_indexes(listed)
            require(
                watched.calls == 1,
                f"Fetching the indexes of {listed} took {watched.calls} requests, "
                "not 1.",
            )
