"""Rules for segments that are deleted."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import product

from tieredfs.errors import NotFoundError, TieredFSError
from tieredfs.model import SegmentId, SegmentMetadata, TopicIdPartition
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.rendezvous import Rendezvous
from tieredfs.testing.rule import Case, expect_error, require, require_whole, rule
from tieredfs.testing.samples import MISSING, PARTITIONS, Sample, sample
from tieredfs.testing.segment_plan import build_segment
from tieredfs.testing.stores import WRITES, WatchedStore

__all__ = [
    "check_delete_is_idempotent",
    "check_delete_is_seen_whole",
    "check_delete_partition_deletes_all_of_it",
    "check_delete_removes_every_copy",
    "check_delete_spares_similar_names",
    "check_deleted_segment_is_gone",
]

_PARTITION = PARTITIONS[0]


@rule(Capability.WRITE)
def check_delete_is_idempotent(case: Case) -> None:
    """Deleting what does not exist is success, and changes nothing.

    Source: KIP-405, deleteLogSegmentData is idempotent.
    """
    gone, *kept = case.segments()
    case.storage.delete_log_segment(gone)
    never = sample(_PARTITION, 9).metadata
    for segment in (gone, never, replace(never, partition=MISSING)):
        for storage in (case.storage, case.another()):
            storage.delete_log_segment(segment)
    _require_listed(case, kept, "After deleting what is not there")


@rule(Capability.WRITE)
def check_deleted_segment_is_gone(case: Case) -> None:
    """A deleted segment is not listed, all others are, and nothing of it is left.

    Source: the plugin contract, What an author implements, ``delete_log_segment``.
    """
    case.segments()
    before = case.raw_keys()
    one = sample(_PARTITION, 7)
    custom = case.storage.copy_log_segment(one.metadata, one.data)
    kept = [s for s in case.all_listed(case.another()) if s.id != one.metadata.id]
    case.another().delete_log_segment(case.listed(one))
    _require_listed(case, kept, "After one was deleted")
    left = case.raw_keys() - before
    require(not left, f"These objects are left: {sorted(left)}.")
    case.storage.copy_log_segment(one.metadata, one.data)
    case.another().delete_log_segment(replace(one.metadata, custom_metadata=custom))
    _require_listed(case, kept, "After one was deleted by what its copy had returned")


@rule(Capability.WRITE)
def check_delete_is_seen_whole(case: Case) -> None:
    """A delete that fails anywhere leaves a whole segment or none that is listed.

    Source: the plugin contract, Crashes.
    """
    lasting = _lasting_keys(case)
    one, other = sample(_PARTITION, 1), sample(_PARTITION, 2)
    for said, delete, deleted in (
        ("delete_log_segment", _delete_segment, [one]),
        ("delete_partition", _delete_partition, [one, other]),
    ):
        for how, storage in case.interrupted():
            for copied in (one, other):
                case.storage.copy_log_segment(copied.metadata, copied.data)
            listed = {copied.identity: case.listed(copied) for copied in (one, other)}
            where = f"{said} {how}."
            try:
                delete(storage, listed[one.identity])
            except TieredFSError:
                pass
            else:
                found = case.all_listed(case.another())
                wrong = [gone for gone in deleted if listed[gone.identity] in found]
                require(not wrong, f"{where} It returned, and lists {found}.")
            for copied in (one, other):
                seen = case.seen(copied)
                if seen is not None:
                    require_whole(case.another(), seen, copied, where)
                else:
                    require(copied in deleted, f"{where} {other.metadata} is gone.")
                    _require_no_less(case, listed[copied.identity], copied, where)
            delete(case.another(), listed[one.identity])
            case.another().delete_log_segment(listed[other.identity])
            left = sorted(case.raw_keys() - lasting)
            require(not left, f"{where} Deleting again left {left}.")


@rule(Capability.WRITE)
def check_delete_partition_deletes_all_of_it(case: Case) -> None:
    """``delete_partition`` leaves nothing of one partition, and all of the others.

    Source: the plugin contract, What a user calls, ``delete_partition``.
    """
    lasting = _lasting_keys(case)
    segments = case.segments()
    one = sample(_PARTITION, 8)
    dying = WatchedStore.over(case.store, WRITES, limit=1)
    with suppress(TieredFSError):  # what it leaves has to go as well
        case.another(dying).copy_log_segment(one.metadata, one.data)
    case.storage.delete_partition(MISSING)
    _require_partitions(case, {s.partition for s in segments})
    for storage in (case.storage, case.another()):
        storage.delete_partition(_PARTITION)
        for seen in (case.storage, case.another()):
            expect_error(
                partial(seen.list_segments, _PARTITION),
                NotFoundError,
                "After its partition was deleted, list_segments",
            )
        left = [leftover.key for leftover in storage.scrub(_PARTITION)]
        require(not left, f"It left {left}.")
    kept = [segment for segment in segments if segment.partition != _PARTITION]
    _require_listed(case, kept, "After one partition was deleted")
    for segment in kept:
        case.another().fetch_log_segment(segment)
    for partition in PARTITIONS[1:]:
        case.storage.delete_partition(partition)
    left = sorted(case.raw_keys() - lasting)
    require(not left, f"With all partitions deleted, these objects are left: {left}.")


@rule(Capability.WRITE)
def check_delete_spares_similar_names(case: Case) -> None:
    """What has a name like that of what is deleted stays: offsets 1 and 10, a-1, a-10.

    It stays where the start offset is the same and the id is not, too, and where a
    topic of the same name was created anew.

    Source: the plugin contract, What a user calls, ``delete_partition``.
    """
    tens = replace(PARTITIONS[1], partition=10)
    again = replace(PARTITIONS[1], topic_id=PARTITIONS[2].topic_id)
    alike = [*PARTITIONS, tens, again]
    starts = [1, 1, 10, 100]
    ones = [
        build_segment(partition, SegmentId.from_bytes(bytes([number] * 16)), start)
        for number, (partition, start) in enumerate(product(alike, starts), 2)
    ]
    for one in ones:
        case.storage.copy_log_segment(one.metadata, one.data)
    gone, *rest = (one for one in ones if one.metadata.partition == PARTITIONS[1])
    case.another().delete_log_segment(case.stored(gone))
    kept = [one for one in ones if one is not gone]
    _require_kept(case, kept, f"{gone.metadata} was deleted.")
    case.another().delete_partition(PARTITIONS[1])
    kept = [one for one in kept if one not in rest]
    _require_kept(case, kept, f"{PARTITIONS[1]} was deleted.")


@rule(Capability.WRITE)
def check_delete_removes_every_copy(case: Case) -> None:
    """A segment that two writers copied concurrently is deleted by one delete.

    Source: the plugin contract, What an author implements, ``delete_log_segment``.
    """
    lasting = _lasting_keys(case)
    one = sample(_PARTITION, 1)
    for by_listing in (True, False):
        together = Rendezvous(2)
        writers = [
            case.another(together.before_first_write(case.store)) for _ in range(2)
        ]
        copies = [
            partial(storage.copy_log_segment, one.metadata, one.data)
            for storage in writers
        ]
        custom, _ = together.run(copies)
        listed = case.stored(one)
        found = case.another().list_segments(_PARTITION)
        require(len(found) == 1, f"Two writers copied it, and it listed {found}.")
        require_whole(case.another(), listed, one)
        if by_listing:
            case.another().delete_log_segment(listed)
        else:
            known = replace(one.metadata, custom_metadata=custom)
            writers[0].delete_log_segment(known)
        for storage in (*writers, case.another()):
            found = case.all_listed(storage)
            require(not found, f"Two copied it, one deleted it, and it listed {found}.")
        left = sorted(case.raw_keys() - lasting)
        require(not left, f"Two copied it, one deleted it, and it left {left}.")


def _delete_segment(storage: RemoteStorageManager, listed: SegmentMetadata) -> None:
    storage.delete_log_segment(listed)


def _delete_partition(storage: RemoteStorageManager, listed: SegmentMetadata) -> None:
    storage.delete_partition(listed.partition)


def _require_no_less(
    case: Case, listed: SegmentMetadata, one: Sample, where: str
) -> None:
    """Require that what was listed before is not read without some of its indexes."""
    try:
        indexes = case.another().fetch_all_indexes(listed)
    except NotFoundError:
        return
    missing = sorted(one.data.indexes.keys() - indexes.keys())
    require(
        not missing or not indexes,
        f"{where} fetch_all_indexes of what had been listed returned some of its "
        f"indexes, without {missing}.",
    )


def _lasting_keys(case: Case) -> set[str]:
    """Return what a layout keeps for good, such as a marker of its version."""
    one = sample(MISSING, 0)
    case.storage.copy_log_segment(one.metadata, one.data)
    case.storage.delete_partition(MISSING)
    return case.raw_keys()


def _require_kept(case: Case, kept: Sequence[Sample], where: str) -> None:
    for one in kept:
        require_whole(case.another(), case.stored(one, where), one, where)


def _require_listed(case: Case, kept: list[SegmentMetadata], when: str) -> None:
    for storage in (case.storage, case.another()):
        found = case.all_listed(storage)
        require(found == kept, f"{when} it listed {found}, not {kept}.")


def _require_partitions(case: Case, expected: set[TopicIdPartition]) -> None:
    storage = case.another()
    found = storage.list_partitions()
    require(
        expected <= set(found),
        f"After a partition that is not there was deleted, there are {found}.",
    )
    for empty in set(found) - expected:  # a store may list the folder of its segments
        expect_error(
            partial(storage.list_segments, empty),
            NotFoundError,
            f"After a partition that is not there was deleted, it listed {empty}, and "
            "list_segments of it",
        )
