"""Rules of which logs are stored."""

from dataclasses import replace
from functools import partial
from itertools import product

from tieredfs.errors import CorruptDataError
from tieredfs.model import IndexType
from tieredfs.storage import Capability
from tieredfs.testing.copies import COPIES, append_log_segment
from tieredfs.testing.rule import Case, rule
from tieredfs.testing.samples import PARTITIONS, sample

__all__ = ["check_malformed_log_is_refused"]

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
    ways = (*COPIES, append_log_segment) if case.can_append() else COPIES
    for copy, (said, data) in product(ways, cases.items()):
        case.require_refusal(
            partial(copy, case.storage, one.metadata, data),
            CorruptDataError,
            f"{copy.__name__} of a log {said}",
        )
