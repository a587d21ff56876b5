"""Rules for a store whose requests fail."""

from collections.abc import Callable

from tieredfs.errors import (
    NotFoundError,
    StorageUnavailableError,
)
from tieredfs.storage import Capability
from tieredfs.testing.faults import FAILURES, STORE_ERRORS, Effect
from tieredfs.testing.reads import every_read
from tieredfs.testing.rule import Case, NotApplicableError, require, rule
from tieredfs.testing.samples import PARTITIONS, sample
from tieredfs.testing.stores import READS, WatchedStore

__all__ = [
    "check_store_errors_pass_through",
    "check_transient_errors_are_raised",
]

_OF_PARTITIONS = ("list_partitions", "leftover_partitions")


@rule()
def check_store_errors_pass_through(case: Case) -> None:
    """An error of the store is raised, and never passes for an answer.

    Source: the plugin contract, Truth.
    """
    listed = case.segments()[0]
    failing = WatchedStore.over(case.store, READS)
    storage = case.another(failing)
    failing.limit = failing.calls = 0  # a read-only plugin looks whether it is empty
    for said, call in every_read(storage, listed).items():
        before = failing.calls
        try:
            answer = _answer(call)
        except StorageUnavailableError:
            continue
        require(
            failing.calls == before,
            f"The store could not be reached, and {said} returned {answer!r}.",
        )
    if not failing.calls:
        raise NotApplicableError("the layout reads nothing through the given store")


@rule()
def check_transient_errors_are_raised(case: Case) -> None:
    """An error of any one request is raised, never taken for not found or for less.

    Source: the plugin contract, Truth.
    """
    listed = case.segments()[0]
    if case.can(Capability.WRITE):
        listed = case.listed(sample(PARTITIONS[0], 1))  # it has every index
    raised = 0
    for said in every_read(case.storage, listed):
        expected = _answer(every_read(case.another(), listed)[said])
        for effect in FAILURES:
            for at, storage in case.failing_requests(effect):
                try:
                    answer = _answer(every_read(storage, listed)[said])
                except STORE_ERRORS:
                    raised += 1
                    continue
                if effect is Effect.DENIED and said.startswith(_OF_PARTITIONS):
                    # One that may not be looked into is reported where it is listed.
                    answer, wanted = _names(answer), _names(expected)
                else:
                    wanted = expected
                require(
                    answer == wanted,
                    f"Request {at + 1} of {said} failed ({effect}), and it ended with "
                    f"{answer!r}; without that with {wanted!r}.",
                )
    if not raised:
        raise NotApplicableError("the layout reads nothing through the given store")


def _answer(call: Callable[[], object]) -> object:
    """Return what a call returns, or that it found nothing."""
    try:
        return call()
    except NotFoundError:
        return NotFoundError


def _names(listed: object) -> object:
    """Return the names of partitions, without the ids of their topics."""
    if not isinstance(listed, list):
        return listed
    return [(one.topic, one.partition) for one in listed]
