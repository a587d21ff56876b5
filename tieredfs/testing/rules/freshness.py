"""Rules for what one storage sees of what another has done."""

from concurrent.futures import Future, wait
from contextlib import suppress
from typing import Final

from tieredfs.errors import NotFoundError
from tieredfs.model import IndexType, SegmentId, SegmentMetadata
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.faults import Effect
from tieredfs.testing.rule import Asked, Case, require, rule
from tieredfs.testing.samples import PARTITIONS, Sample, sample

__all__ = [
    "check_copies_of_two_processes_stay",
    "check_emptiness_is_not_remembered",
    "check_listing_goes_on_beside_a_delete",
    "check_listing_is_never_stale",
    "check_other_processes_are_seen",
]

_PARTITION: Final = PARTITIONS[0]
_LOCK_SECONDS: Final = 0.2


@rule(Capability.WRITE)
def check_emptiness_is_not_remembered(case: Case) -> None:
    """What was not there is found once another storage has copied it.

    Source: the plugin contract, What an author implements, ``list_segments``.
    """
    one = sample(_PARTITION, 1)
    for _ in range(2):  # an empty store, and one that has become empty
        for call in _finding(case.storage, one.metadata).values():
            with suppress(NotFoundError):
                call()
        case.another().copy_log_segment(one.metadata, one.data)
        for said, call in _finding(case.storage, case.stored(one)).items():
            try:
                found = call()
            except NotFoundError as error:
                raise AssertionError(
                    f"After another storage had copied it, {said} raised {error!r}."
                ) from error
            require(
                bool(found),
                f"After another storage had copied it, {said} returned {found!r}.",
            )
        case.another().delete_log_segment(case.stored(one))


@rule(Capability.WRITE)
def check_listing_is_never_stale(case: Case) -> None:
    """What another storage has copied or deleted is seen immediately.

    Source: the plugin contract, What an author implements, ``list_segments``.
    """
    first, second = (sample(_PARTITION, number) for number in range(2))
    other = case.another()
    case.storage.copy_log_segment(first.metadata, first.data)
    case.storage.list_partitions()
    listed = case.only(case.storage, _PARTITION)
    other.copy_log_segment(second.metadata, second.data)
    found = _listed(case.storage)
    require(
        found == [first.identity, second.identity],
        f"After another storage had copied {second.identity}, it listed {found}.",
    )
    other.delete_log_segment(listed)
    found = _listed(case.storage)
    require(
        found == [second.identity],
        f"After another storage had deleted {first.identity}, it listed {found}.",
    )


@rule(Capability.WRITE)
def check_other_processes_are_seen(case: Case) -> None:
    """What a process has stored or removed that shares no memory is seen immediately.

    The objects of one segment come and go behind the plugin's back, so that what its
    class or module remembers does not change.

    Source: the plugin contract, Terms.
    """
    first, second = (sample(_PARTITION, number) for number in range(2))
    case.storage.copy_log_segment(first.metadata, first.data)
    one = case.raw_objects()
    case.storage.copy_log_segment(second.metadata, second.data)
    both = case.raw_objects()
    case.storage.delete_log_segment(case.listed(second))
    without = case.raw_objects()
    for objects, wanted in (
        (without, [first.identity]),
        (both, [first.identity, second.identity]),
        (one, [first.identity]),
    ):
        case.raw_restore(objects)
        for storage in (case.storage, case.another()):
            found = _listed(storage)
            require(
                found == wanted,
                f"Another process has changed what is stored, and it listed {found}, "
                f"not {wanted}.",
            )


@rule(Capability.WRITE)
def check_listing_goes_on_beside_a_delete(case: Case) -> None:
    """A listing during which another process deletes a segment has all the others.

    Source: the plugin contract, What an author implements, ``list_segments``.
    """
    kept = sample(_PARTITION, 0)
    case.storage.copy_log_segment(kept.metadata, kept.data)

    def delete(at: int) -> None:
        gone = case.seen(_passing(at))
        if gone is not None:
            case.another().delete_log_segment(gone)

    def copy(at: int) -> None:
        one = _passing(at)
        case.another().copy_log_segment(one.metadata, one.data)

    copy(0)
    for at, storage in case.failing_requests(Effect.DELAY, delete):
        try:
            found = _listed(storage)
        except NotFoundError as error:
            raise AssertionError(
                f"Before request {at + 1} of list_segments another segment was "
                f"deleted, and it raised {error!r}."
            ) from error
        require(
            kept.identity in found,
            f"Before request {at + 1} of list_segments another segment was deleted, "
            f"and it returned {found}, without {kept.identity}.",
        )
        copy(at + 1)


def _passing(at: int) -> Sample:
    """Return a segment that is deleted during a request."""
    return sample(_PARTITION, 1, f"passing {at}")


def _listed(storage: RemoteStorageManager) -> list[tuple[int, SegmentId]]:
    found = storage.list_segments(_PARTITION)
    return [(segment.start_offset, segment.id) for segment in found]


def _finding(storage: RemoteStorageManager, segment: SegmentMetadata) -> Asked:
    """Return the calls that find a segment, or its partition."""
    partition = segment.partition
    return {
        "list_partitions": storage.list_partitions,
        "list_partitions of its topic": lambda: storage.list_partitions(
            partition.topic
        ),
        "list_segments": lambda: storage.list_segments(partition),
        "seek": lambda: storage.seek(partition, segment.start_offset),
        "survey": lambda: list(storage.survey(partition)),
        "fetch_log_segment": lambda: storage.fetch_log_segment(segment),
        "fetch_index": lambda: storage.fetch_index(segment, IndexType.OFFSET),
        "fetch_all_indexes": lambda: storage.fetch_all_indexes(segment),
    }


@rule(Capability.WRITE)
def check_copies_of_two_processes_stay(case: Case) -> None:
    """Of two copies that two processes make concurrently, neither is lost.

    Source: the plugin contract, What an author implements, ``list_segments``.
    """
    begun: dict[int, Future[bytes]] = {}
    other = case.another()
    with DaemonExecutor(1) as pool:

        def copy_beside(at: int) -> None:
            _, second = _pair(at)
            copy = other.copy_log_segment
            begun[at] = pool.submit(copy, second.metadata, second.data)
            # One that waits for a lock of the process goes on when the call has ended.
            wait([begun[at]], timeout=_LOCK_SECONDS)

        for at, storage in case.failing_writes(Effect.DELAY, copy_beside):
            first, second = _pair(at)
            storage.copy_log_segment(first.metadata, first.data)
            if at not in begun:
                continue
            begun[at].result()
            found = _listed(case.storage)
            for one in (first, second):
                require(
                    one.identity in found,
                    f"{second.metadata} was copied before write {at + 1} of the copy "
                    f"of {first.metadata}; both returned, and {found} is listed.",
                )


def _pair(number: int) -> tuple[Sample, Sample]:
    """Return two segments that no other number has."""
    return sample(_PARTITION, 2 * number), sample(_PARTITION, 2 * number + 1)
