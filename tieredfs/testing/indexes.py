"""What a storage gives of the indexes of a segment."""

from itertools import combinations

from tieredfs.errors import NotFoundError
from tieredfs.model import IndexType
from tieredfs.storage import Capability
from tieredfs.testing.rule import Case, expect_error, require, rule
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import READS, WatchedStore

__all__ = [
    "check_fetch_indexes_equals_one_by_one",
    "check_indexes_are_what_was_copied",
    "check_indexes_cost_one_request",
    "check_missing_index_is_not_found",
]


@rule(Capability.WRITE)
def check_indexes_are_what_was_copied(case: Case) -> None:
    """Each index is, byte for byte, the one that was copied."""
    for one in case.fill():
        for storage in (case.storage, case.another()):
            found = storage.fetch_all_indexes(case.listed(one))
            for kind, content in one.data.indexes.items():
                require(kind in found, f"{kind} of {one.metadata} is not there.")
                require(
                    found[kind] == content,
                    f"{kind} of {one.metadata} has other bytes: {len(found[kind])} "
                    f"came, {len(content)} were copied.",
                )


@rule()
def check_fetch_indexes_equals_one_by_one(case: Case) -> None:
    """``fetch_indexes`` returns what ``fetch_index`` does, and nothing else."""
    for listed in case.segments():
        alone: dict[IndexType, bytes] = {}
        for kind in IndexType:
            try:
                alone[kind] = bytes(case.storage.fetch_index(listed, kind))
            except NotFoundError:
                continue
        everything = case.storage.fetch_all_indexes(listed)
        require(
            dict(everything) == alone,
            f"fetch_all_indexes of {listed} returned {sorted(everything)} or other "
            f"bytes; one by one they are {sorted(alone)}.",
        )
        for count in range(len(IndexType)):
            for kinds in combinations(IndexType, count):
                found = dict(case.storage.fetch_indexes(listed, iter(kinds)))
                wanted = {kind: alone[kind] for kind in kinds if kind in alone}
                require(
                    found == wanted,
                    f"fetch_indexes of {listed}, asked for {sorted(kinds)}, returned "
                    f"{sorted(found)} or other bytes, not {sorted(wanted)}.",
                )


@rule()
def check_missing_index_is_not_found(case: Case) -> None:
    """An index that a segment does not have is a NotFoundError."""
    if case.can(Capability.WRITE):
        one = sample(PARTITIONS[0], 0)  # it has no aborted transaction
        case.storage.copy_log_segment(one.metadata, one.data)
        found = case.storage.list_segments(PARTITIONS[0])
        gone = [(listed, IndexType.TRANSACTION) for listed in found]
    else:
        gone = [
            (listed, kind)
            for listed in case.segments()
            for kind in set(IndexType) - set(case.storage.fetch_all_indexes(listed))
        ]
    for listed, kind in gone:
        expect_error(
            lambda listed=listed, kind=kind: case.storage.fetch_index(listed, kind),  # type: ignore[misc]
            NotFoundError,
            f"{listed} has no {kind} index, and fetch_index",
        )
        found_all = case.storage.fetch_indexes(listed, [kind])
        require(not found_all, f"fetch_indexes found {kind} of {listed}.")


@rule(Capability.SINGLE_REQUEST_INDEXES)
def check_indexes_cost_one_request(case: Case) -> None:
    """With SINGLE_REQUEST_INDEXES all indexes of a listed segment cost one request."""
    case.segments()
    watched = WatchedStore.over(case.store, READS)
    storage = case.another(watched)
    for partition in storage.list_partitions():
        for listed in storage.list_segments(partition):
            watched.calls = 0
            storage.fetch_all_indexes(listed)
            require(watched.calls == 1, f"Those of {listed} cost {watched.calls}.")
