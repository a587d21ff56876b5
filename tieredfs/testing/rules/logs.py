"""Rules of which logs are stored, and how they are given."""

from dataclasses import replace
from functools import partial

from tieredfs.errors import CorruptDataError
from tieredfs.model import IndexType
from tieredfs.storage import Capability
from tieredfs.storage.segment_log.source import log_in_memory
from tieredfs.testing.rule import Case, expect_error, require, require_whole, rule
from tieredfs.testing.samples import PARTITIONS, sample

__all__ = ["check_malformed_log_is_refused", "check_open_log_is_stored_alike"]

_PARTITION = PARTITIONS[0]


@rule(Capability.WRITE)
def check_malformed_log_is_refused(case: Case) -> None:
    """A log that is damaged, or another segment's, is refused; nothing is stored.

    Source: the plugin contract, Indexes.
    """
    one, other = sample(_PARTITION, 1), sample(_PARTITION, 2)
    middle = len(one.log) // 2
    flipped = bytes([one.log[middle] ^ 1])
    logs = {
        "with a wrong bit": one.log[:middle] + flipped + one.log[middle + 1 :],
        "that is cut": one.log[:middle],
        "of another segment": other.log,
    }
    indexes: dict[IndexType, bytes] = {
        kind: index
        for kind, index in one.data.indexes.items()
        if kind is not IndexType.TRANSACTION
    }
    cases = {said: replace(one.data, log=log) for said, log in logs.items()}
    aborted = replace(one.data, indexes=indexes)
    cases["with an aborted transaction that no index has"] = aborted
    for said, data in cases.items():
        copy = partial(case.storage.copy_log_segment, one.metadata, data)
        expect_error(copy, CorruptDataError, f"Copying a log {said}")
        found = case.all_listed(case.another())
        require(not found, f"After the copy of a log {said} it listed {found}.")


@rule(Capability.WRITE)
def check_open_log_is_stored_alike(case: Case) -> None:
    """``copy_open_log`` stores the segment as ``copy_log_segment``, indexes included.

    Source: the plugin contract, What a user calls, ``copy_open_log``.
    """
    one = sample(_PARTITION, 1)
    log = log_in_memory(one.log, str(one.metadata))
    case.storage.copy_open_log(one.metadata, log, one.data.indexes)
    require_whole(case.another(), case.listed(one), one)
