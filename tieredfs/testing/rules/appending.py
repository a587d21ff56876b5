"""Rules for segments that are appended to a log.

A layout that cannot be appended to refuses with an UnsupportedOperationError, and
stores nothing: then the rules say nothing about it.
"""

from dataclasses import replace
from enum import Enum
from functools import partial
from typing import Final

from tieredfs.errors import (
    AlreadyExistsError,
    TieredFSError,
)
from tieredfs.model import TopicIdPartition
from tieredfs.storage import Capability, RemoteStorageManager
from tieredfs.testing.faults import CRASHES, CrashError, Effect
from tieredfs.testing.rendezvous import Rendezvous
from tieredfs.testing.rule import (
    Case,
    NotApplicableError,
    expect_error,
    require,
    require_whole,
    rule,
)
from tieredfs.testing.samples import PARTITIONS, Sample, sample

__all__ = [
    "check_append_has_one_winner",
    "check_append_survives_a_cleaner",
    "check_append_that_died_blocks_no_other",
    "check_append_that_leaves_a_gap_is_refused",
]

_PARTITION = PARTITIONS[0]
_WRITERS: Final = 4


class _End(Enum):
    """How an append ended; its value says it of the writer."""

    WON = "succeeded"
    LOST = "was refused"


@rule(Capability.WRITE)
def check_append_has_one_winner(case: Case) -> None:
    """Of writers that append at one offset exactly one succeeds; the others fail.

    None of them writes before all have seen that the offset is free.

    Source: the plugin contract, What a user calls, ``append_log_segment``.
    """
    _require_appends(case)
    ones = [sample(_PARTITION, 0, f"writer {number}") for number in range(_WRITERS)]
    together = Rendezvous(_WRITERS)
    appends = [
        partial(_append, case.another(together.before_first_write(case.store)), one)
        for one in ones
    ]
    winners = together.run(appends).count(_End.WON)
    require(winners == 1, f"Of {_WRITERS} writers {winners} succeeded.")
    listed = case.another().list_segments(_PARTITION)
    require(len(listed) == 1, f"Afterwards it listed {listed}.")


@rule(Capability.WRITE)
def check_append_survives_a_cleaner(case: Case) -> None:
    """An append that returns has stored its segment, even if ``cancel_copying`` ran.

    Source: the plugin contract, What a user calls, ``append_log_segment``.
    """
    _require_appends(case)

    def cancel(at: int) -> None:
        case.another().cancel_copying(_numbered(at))

    for at, storage in case.failing_writes(Effect.DELAY, cancel):
        one = sample(_numbered(at), 0)
        where = f"It ran before write {at + 1}, and the append returned."
        try:
            _append(storage, one)
        except TieredFSError:
            continue
        require_whole(case.another(), case.stored(one, where), one, where)


@rule(Capability.WRITE)
def check_append_that_died_blocks_no_other(case: Case) -> None:
    """What a dead append left is completed by the next writer, or never visible.

    Source: the plugin contract, What a user calls, ``append_log_segment``.
    """
    _require_appends(case)
    for number, effect in enumerate(CRASHES):
        for at, storage in case.failing_writes(effect):
            partition = _numbered(at * len(CRASHES) + number)
            dead, other = (sample(partition, 0, name) for name in ("dead", "other"))
            try:
                _append(storage, dead)
            except CrashError:
                pass
            else:
                continue
            end = _append(case.another(), other)
            where = f"An append died at write {at + 1}, and another one {end.value}."
            right = other if end is _End.WON else dead
            require_whole(case.another(), case.stored(right, where), right, where)
            listed = case.another().list_segments(partition)
            require(len(listed) == 1, f"{where} Afterwards it listed {listed}.")


@rule(Capability.WRITE)
def check_append_that_leaves_a_gap_is_refused(case: Case) -> None:
    """An append that does not begin where the log ends raises AlreadyExistsError.

    Source: the plugin contract, What a user calls, ``append_log_segment``.
    """
    _require_appends(case)
    first, second, third = (sample(_PARTITION, number) for number in range(3))
    case.another().append_log_segment(first.metadata, first.data)
    before = case.all_listed(case.another())
    for one, where in (
        (third, "after a gap"),
        (sample(_PARTITION, 0, "again"), "before the end"),
    ):
        expect_error(
            partial(case.another().append_log_segment, one.metadata, one.data),
            AlreadyExistsError,
            f"An append {where} of the log, at {one.metadata.start_offset},",
        )
        found = case.all_listed(case.another())
        require(found == before, f"An append {where} was refused, and is listed.")
    case.another().append_log_segment(second.metadata, second.data)
    require_whole(case.another(), case.stored(second), second)


def _require_appends(case: Case) -> None:
    """Require that a layout can be appended to.

    Raises:
        NotApplicableError: It cannot be appended to.
    """
    if not case.can_append():
        raise NotApplicableError("the layout cannot be appended to")


def _append(storage: RemoteStorageManager, one: Sample) -> _End:
    try:
        storage.append_log_segment(one.metadata, one.data)
    except AlreadyExistsError:
        return _End.LOST
    return _End.WON


def _numbered(number: int) -> TopicIdPartition:
    """Return a partition that nothing was appended to."""
    return replace(_PARTITION, partition=number + len(PARTITIONS))
