"""Rules for how a storage is created, pickled, shared and closed."""

import pickle
from functools import partial
from itertools import pairwise
from threading import Barrier

from tieredfs.model import SegmentMetadata
from tieredfs.objects import RequestPolicy
from tieredfs.objects.concurrency.daemon_executor import DaemonExecutor
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.rendezvous import Rendezvous
from tieredfs.testing.rule import Case, NotApplicableError, require, rule
from tieredfs.testing.samples import PARTITIONS, Sample, sample
from tieredfs.testing.stores import READS, WRITES, WatchedStore

__all__ = [
    "check_close_leaves_the_store",
    "check_concurrent_fetches_stay_apart",
    "check_construction_sends_no_request",
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
        require(_read(copied, segments) == expected, "What came back read other bytes.")


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

    Each request of one thread waits for one of the other.

    Source: the plugin contract, Terms.
    """
    segments = case.segments()[:_THREADS]
    if len(segments) == 1:
        raise NotApplicableError("there is only one segment")
    alone = {str(segment): _read(case.another(), [segment]) for segment in segments}
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
    watched = WatchedStore.over(case.store, READS)
    storage = case.another(watched)
    view = storage.with_policy(policy)
    for said, one, wanted in (
        ("the view", view, policy),
        ("the storage itself", storage, watched.policy),
    ):
        watched.policies.clear()
        one.list_partitions()
        for partition in {segment.partition for segment in segments}:
            one.list_segments(partition)
        _read(one, segments)
        others = watched.policies - {wanted}
        require(not others, f"A request of {said} was sent under {others}.")


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
