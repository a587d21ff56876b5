"""Rules for how a storage is created, pickled, shared and closed."""

import pickle
from contextlib import suppress
from functools import partial
from itertools import pairwise
from threading import Barrier

from tieredfs.errors import NotFoundError
from tieredfs.model import SegmentMetadata
from tieredfs.objects import RequestCounter, RequestPolicy
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.copies import COPIES
from tieredfs.testing.reads import every_read
from tieredfs.testing.rendezvous import Rendezvous
from tieredfs.testing.rule import Asked, Case, NotApplicableError, require, rule
from tieredfs.testing.samples import MISSING, PARTITIONS, Sample, sample
from tieredfs.testing.stores import READS, WRITES, WatchedStore

__all__ = [
    "check_close_leaves_the_store",
    "check_concurrent_fetches_stay_apart",
    "check_construction_sends_no_request",
    "check_observer_is_notified",
    "check_policy_is_that_of_the_view",
    "check_storage_pickles",
    "check_threads_share_it",
]

_THREADS = 8
_ROUNDS = 3


@rule(Capability.WRITE)
def check_construction_sends_no_request(case: Case) -> None:
    """No request is sent while a storage is created.

    Source: the plugin contract, Terms.
    """
    watched = WatchedStore.over(case.store, READS | WRITES)
    storage = case.another(watched)
    storage.with_policy(RequestPolicy(attempts=1))
    repr(storage)
    require(watched.calls == 0, f"It made {watched.calls} calls.")


@rule()
def check_storage_pickles(case: Case) -> None:
    """A storage that was pickled reads the same, used before or not.

    It lists and writes as before, and has the same policy and identity.

    Source: the plugin contract, Terms.
    """
    fresh = pickle.dumps(case.another())
    segments = case.segments()
    expected = _read(case.storage, segments)
    for pickled in (fresh, pickle.dumps(case.storage)):
        copied = pickle.loads(pickled)  # noqa: S301 - what was made above
        require(
            type(copied) is type(case.storage),
            f"It came back as {type(copied).__name__}.",
        )
        require(
            copied.capabilities == case.storage.capabilities,
            f"It came back with the capabilities {sorted(copied.capabilities)}.",
        )
        for said, came, wanted in (
            ("identity", copied.identity, case.storage.identity),
            ("policy", copied.store.policy, case.storage.store.policy),
        ):
            require(came == wanted, f"It came back with the {said} {came!r}.")
        listed = case.all_listed(copied)
        require(listed == segments, f"What came back listed {listed}, not {segments}.")
        require(_read(copied, segments) == expected, "What came back read other bytes.")
        if case.can(Capability.WRITE):
            made = sample(PARTITIONS[1], 10, "pickled")
            require(
                _copied_and_deleted(copied, made),
                "What came back read other bytes than it had copied.",
            )


@rule()
def check_threads_share_it(case: Case) -> None:
    """Many threads may use one storage concurrently.

    Source: the plugin contract, Terms.
    """
    segments = case.segments()
    expected = _read(case.storage, segments)
    together = Barrier(_THREADS)

    def work(number: int) -> str:
        together.wait()
        for turn in range(_ROUNDS):
            if _read(case.storage, segments) != expected:
                return f"Thread {number} read other bytes than were read alone."
            if case.can(Capability.WRITE):
                made = sample(PARTITIONS[1], 10 + turn, f"thread {number}")
                if not _copied_and_deleted(case.storage, made):
                    return f"Thread {number} read other bytes than it had copied."
        return ""

    with DaemonExecutor(_THREADS) as pool:
        wrong = [said for said in pool.map(work, range(_THREADS)) if said]
    require(not wrong, " ".join(wrong))
    require(
        _read(case.storage, segments) == expected,
        "Afterwards alone it read other bytes.",
    )


@rule()
def check_concurrent_fetches_stay_apart(case: Case) -> None:
    """What is fetched concurrently is of the segment that each call has named.

    What is listed or described is so, too. Each request of one thread waits for one of
    the other.

    Source: the plugin contract, Terms.
    """
    segments = case.segments()[:_THREADS]
    if len(segments) == 1:
        raise NotApplicableError("there is only one segment")
    alone = {str(segment): _read(case.another(), [segment]) for segment in segments}
    listings = {one.partition: _listings(case.another(), one) for one in segments}
    described = [case.another().describe(segment) for segment in segments]
    pairs = list(pairwise([*segments, segments[0]]))
    for pair in pairs * _ROUNDS:
        together = Rendezvous(2)
        storage = case.another(together.before_reads(case.store))
        reads = [partial(_read, storage, [segment]) for segment in pair]
        found = together.run(reads)
        found += [_read(storage, [segment]) for segment in pair]
        for segment, read in zip(pair * 2, found, strict=True):
            require(
                read == alone[str(segment)],
                f"{pair[0]} and {pair[1]} were read concurrently, and {segment} had "
                "other bytes than alone.",
            )
        together = Rendezvous(2)
        storage = case.another(together.before_reads(case.store))
        listed = together.run([partial(_listings, storage, one) for one in pair])
        for segment, found_there in zip(pair, listed, strict=True):
            for said, listing in listings[segment.partition].items():
                require(
                    found_there[said] == listing,
                    f"{pair[0]} and {pair[1]} were looked for concurrently, and {said} "
                    f"of {segment.partition} returned {found_there[said]}, not "
                    f"{listing}.",
                )
        together = Rendezvous(2)
        storage = case.another(together.before_reads(case.store))
        facts = together.run([partial(storage.describe, one) for one in pair])
        for segment, one in zip(pair, facts, strict=True):
            require(
                one in described,
                f"{pair[0]} and {pair[1]} were described concurrently, and {segment} "
                f"as {one}.",
            )


@rule()
def check_policy_is_that_of_the_view(case: Case) -> None:
    """``with_policy`` returns a storage with that policy; the first one keeps its own.

    That holds when the returned storage is closed, too.

    Source: the plugin contract, What a user calls, ``with_policy``.
    """
    segments = case.segments()
    expected = _read(case.storage, segments)
    before = case.storage.store.policy
    policy = RequestPolicy(attempts=1, deadline=before.deadline / 2)
    view = case.storage.with_policy(policy)
    require(view.store.policy == policy, f"The view's policy is {view.store.policy}.")
    require(
        view.identity == case.storage.identity,
        f"The view's identity is {view.identity!r}, not {case.storage.identity!r}.",
    )
    after = case.storage.store.policy
    require(after == before, f"The policy of the storage itself became {after}.")
    require(
        (type(view), view.capabilities)
        == (type(case.storage), case.storage.capabilities),
        f"The view is another kind of storage: {view!r}.",
    )
    require(_read(view, segments) == expected, "The view reads other bytes.")
    view.close()
    _require_policies(case, segments, policy)
    require(
        _read(case.storage, segments) == expected,
        "When the view was closed, the storage itself read other bytes.",
    )


@rule()
def check_observer_is_notified(case: Case) -> None:
    """``with_observer`` returns a storage none of whose requests the observer misses.

    Source: the plugin contract, What a user calls, ``with_observer``.
    """
    segments = case.segments()
    watched = WatchedStore.over(case.store, READS | WRITES)
    observer = RequestCounter()
    storage = case.another(watched)
    view = storage.with_observer(observer)
    for one, is_observed in ((view, True), (storage, False)):
        calls = every_read(one, segments[0])
        if case.can(Capability.WRITE):
            calls |= _writes(one, sample(MISSING, 0))
        for said, call in calls.items():
            watched.calls, before = 0, observer.requests
            with suppress(NotFoundError):
                call()
            seen = observer.requests - before
            require(
                (not watched.calls or seen > 0) if is_observed else not seen,
                f"{said} of {'the view' if is_observed else 'the storage itself'} sent "
                f"{watched.calls} requests, and the view's observer saw {seen}.",
            )


@rule()
def check_close_leaves_the_store(case: Case) -> None:
    """``close`` may be called twice, and leaves the store open.

    Source: the plugin contract, What a user calls, ``close``.
    """
    segments = case.segments()
    expected = _read(case.storage, segments)
    view = case.another()
    with view:
        found = _read(view, segments)
        require(found == expected, "In a with block it read other bytes.")
    view.close()
    require(
        _read(case.another(), segments) == expected,
        "When one storage was closed, another read other bytes.",
    )


def _require_policies(
    case: Case, segments: list[SegmentMetadata], policy: RequestPolicy
) -> None:
    """Require that a view and its storage send each request under their own policy."""
    watched = WatchedStore.over(case.store, READS | WRITES)
    storage = case.another(watched)
    view = storage.with_policy(policy)
    for said, one, wanted in (
        ("the view", view, policy),
        ("the storage itself", storage, watched.policy),
    ):
        calls = {
            f"{name} of {segment}": call
            for segment in segments[:2]
            for name, call in every_read(one, segment).items()
        }
        if case.can(Capability.WRITE):
            calls |= _writes(one, sample(MISSING, 0))
        for name, call in calls.items():
            watched.policies.clear()
            with suppress(NotFoundError):
                call()
            others = watched.policies - {wanted}
            require(
                not others, f"A request of {said}, by {name}, was sent under {others}."
            )


def _writes(storage: RemoteStorageManager, one: Sample) -> Asked:
    """Return every call that writes, in an order in which each finds something."""
    metadata, partition = one.metadata, one.metadata.partition

    def listed() -> SegmentMetadata:
        return storage.list_segments(partition)[0]

    return {
        **{
            copy.__name__: partial(copy, storage, metadata, one.data) for copy in COPIES
        },
        "delete_log_segment": lambda: storage.delete_log_segment(listed()),
        "copy_with_indexes": lambda: storage.copy_with_indexes(metadata, one.data),
        "cancel_copying": lambda: storage.cancel_copying(partition),
        "delete_partition": lambda: storage.delete_partition(partition),
    }


def _listings(
    storage: RemoteStorageManager, segment: SegmentMetadata
) -> dict[str, list[object]]:
    """List a segment's topic and partition, in every way."""
    partition = segment.partition
    return {
        "list_partitions": [*storage.list_partitions(partition.topic)],
        "list_segments": [*storage.list_segments(partition)],
        "list_segments_lazily": [*storage.list_segments_lazily(partition)],
        "seek": [*storage.seek(partition, 0)],
        "survey": [
            one for one in storage.survey(partition) if isinstance(one, SegmentMetadata)
        ],
    }


def _copied_and_deleted(storage: RemoteStorageManager, made: Sample) -> bool:
    storage.copy_log_segment(made.metadata, made.data)
    found = storage.list_segments(made.metadata.partition)
    (mine,) = [s for s in found if (s.start_offset, s.id) == made.identity]
    read = bytes(storage.fetch_log_segment(mine))
    storage.delete_log_segment(mine)
    return read == made.log


def _read(
    storage: RemoteStorageManager, segments: list[SegmentMetadata]
) -> dict[str, tuple[bytes, dict[str, bytes]]]:
    """Read all of some segments."""
    return {
        str(segment): (
            bytes(storage.fetch_log_segment(segment)),
            {
                kind: bytes(found)
                for kind, found in storage.fetch_all_indexes(segment).items()
            },
        )
        for segment in segments
    }
