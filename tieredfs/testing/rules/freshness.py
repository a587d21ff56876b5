"""Rules for what one storage sees of what another has done."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
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

    It is seen in whichever way a partition, or the partitions, are listed.

    Source: the plugin contract, What an author implements, ``list_segments``.
    """
    first, second = (sample(_PARTITION, number) for number in range(2))
    beside = sample(PARTITIONS[1], 0)  # of the same topic
    other = case.another()
    case.storage.copy_log_segment(first.metadata, first.data)
    for topic in (None, _PARTITION.topic):  # what it may remember
        case.storage.list_partitions(topic)
        case.storage.leftover_partitions(topic)
    listed = case.only(case.storage, _PARTITION)
    _require_listed(case.storage, [first], f"After it had copied {first.identity}")
    other.copy_log_segment(second.metadata, second.data)
    other.copy_log_segment(beside.metadata, beside.data)
    when = f"After another storage had copied {second.identity}"
    _require_listed(case.storage, [first, second], when)
    for topic in (None, _PARTITION.topic):
        for said, found in (
            ("list_partitions", case.storage.list_partitions(topic)),
            ("leftover_partitions", case.storage.leftover_partitions(topic)),
        ):
            require(
                beside.metadata.partition in found,
                f"{when}, and {beside.metadata}, {said}({topic!r}) returned {found}.",
            )
    other.delete_log_segment(listed)
    when = f"After another storage had deleted {first.identity}"
    _require_listed(case.storage, [second], when)


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
    return _identities(storage.list_segments(_PARTITION))


def _require_listed(
    storage: RemoteStorageManager, wanted: Sequence[Sample], when: str
) -> None:
    """Require that a partition has some segments, in whichever way it is listed.

    Args:
        storage: What lists it.
        wanted: The segments, by offset.
        when: What happened before, as the beginning of a sentence.
    """
    names, last = [one.identity for one in wanted], wanted[-1]
    ways: Mapping[str, Callable[[], Iterable[object]]] = {
        "list_segments": partial(storage.list_segments, _PARTITION),
        "list_segments from offset 1 on": partial(storage.list_segments, _PARTITION, 1),
        "list_segments_lazily": partial(storage.list_segments_lazily, _PARTITION),
        "survey": partial(storage.survey, _PARTITION),
    }
    for said, call in ways.items():
        found = sorted(_identities(call()))
        require(found == names, f"{when}, {said} returned {found}, not {names}.")
    sought = _identities(storage.seek(_PARTITION, last.metadata.start_offset))
    require(
        last.identity in sought and {*sought} <= {*names},
        f"{when}, seek found {sought}, and there are {names}.",
    )
    sized = [*storage.stored_sizes(_PARTITION)]
    require({*sized} <= {*names}, f"{when}, stored_sizes has {sized}, not {names}.")


def _identities(found: Iterable[object]) -> list[tuple[int, SegmentId]]:
    segments = (one for one in found if isinstance(one, SegmentMetadata))
    return [(segment.start_offset, segment.id) for segment in segments]


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
