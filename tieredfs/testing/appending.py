"""Rules for segments that are appended to a log.

A layout that cannot be appended to refuses with an UnsupportedOperationError, and
stores nothing: then the rules hold.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.objects import ObjectStore
from tieredfs.storage import Capability
from tieredfs.testing.faults import (
    CRASHES,
    CrashError,
    FaultPlan,
    FaultyStore,
    StoreFault,
)
from tieredfs.testing.rendezvous import Rendezvous
from tieredfs.testing.rule import Case, require, require_whole, rule
from tieredfs.testing.samples import PARTITIONS, Sample, sample

__all__ = [
    "check_append_has_one_winner",
    "check_append_survives_a_cleaner",
    "check_append_that_died_blocks_no_other",
]

_PARTITION = PARTITIONS[0]
_MAX_WRITES: Final = 100
_WRITERS: Final = 4


@rule(Capability.WRITE)
def check_append_has_one_winner(case: Case) -> None:
    """Of writers that append at one offset exactly one succeeds; the others fail.

    None of them writes before all have seen that the offset is free.
    """
    ones = [sample(_PARTITION, 0, f"writer {number}") for number in range(_WRITERS)]
    together = Rendezvous(_WRITERS)
    appends = [
        partial(_append, case, one, together.before_first_write(case.store))
        for one in ones
    ]
    ends = sorted(together.run(appends))
    if ends == ["cannot"] * _WRITERS:
        found = case.all_listed(case.another())
        require(not found, f"None could append, and it lists {found}.")
        return
    require(ends == ["lost"] * (_WRITERS - 1) + ["won"], f"They ended so: {ends}.")
    listed = case.another().list_segments(_PARTITION)
    require(len(listed) == 1, f"Afterwards it listed {listed}.")


@rule(Capability.WRITE)
def check_append_survives_a_cleaner(case: Case) -> None:
    """An append that returns has stored its segment, though ``cancel_copying`` ran."""
    for at in range(_MAX_WRITES):
        one = sample(replace(_PARTITION, partition=at), 0)
        cancel = partial(case.another().cancel_copying, one.metadata.partition)
        plan = FaultPlan((StoreFault("delay", at, of_writes=True),))
        store = FaultyStore.over(case.store, plan, sleep=_calling(cancel))
        where = f"It ran before write {at + 1}, and the append returned."
        try:
            if _append(case, one, store) == "cannot":
                return
        except TieredFSError:
            continue
        require_whole(case.another(), case.stored(one, where), one, where)
        if not any(request.effect for request in store.requests):
            break


@rule(Capability.WRITE)
def check_append_that_died_blocks_no_other(case: Case) -> None:
    """What a dead append left is completed by the next writer, or never visible."""
    for number, effect in enumerate(CRASHES):
        for at in range(_MAX_WRITES):
            partition = replace(_PARTITION, partition=at * len(CRASHES) + number)
            dead, other = (sample(partition, 0, name) for name in ("dead", "other"))
            plan = FaultPlan((StoreFault(effect, at, of_writes=True),))
            try:
                _append(case, dead, FaultyStore.over(case.store, plan))
            except CrashError:
                pass
            else:
                break
            end = _append(case, other, case.store)
            where = f"An append died at write {at + 1}, and another one {end}."
            right = other if end == "won" else dead
            require_whole(case.another(), case.stored(right, where), right, where)
            listed = case.another().list_segments(partition)
            require(len(listed) == 1, f"{where} Afterwards it listed {listed}.")


def _append(case: Case, one: Sample, store: ObjectStore) -> str:
    """Append as a process of its own, and return how that ended."""
    try:
        case.another(store).append_log_segment(one.metadata, one.data)
    except AlreadyExistsError:
        return "lost"
    except UnsupportedOperationError:
        return "cannot"
    return "won"


def _calling(call: Callable[[], object]) -> Callable[[float], object]:
    """Return what makes a call instead of waiting."""

    def wait(seconds: float) -> None:
        del seconds
        call()

    return wait
