"""Choose the entries to evict when the cache is full: a segmented LRU.

An entry that was used once is on probation; one that was used again is hot. Entries on
probation are evicted first, as long as they take more than a fifth of the room. So a
scan that uses each entry once does not evict hot entries, and new entries always have
some room in which to become hot. ``directory`` evicts what is planned here, and
``entries`` counts it.
"""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Candidate", "plan_evictions"]

_PROBATION_SHARE = 5
"""Entries on probation may take one part in this many of the room."""

_SPARE = 50
"""One entry in this many is evicted beyond what is necessary."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry on disk.

    Attributes:
        name: Name of its file.
        size: Bytes of its file.
        used: Time of the last use, seconds since 1970.
        is_hot: Whether it was used more than once.
    """

    name: str
    size: int
    used: float
    is_hot: bool


def plan_evictions(candidates: Iterable[Candidate], room: int) -> list[Candidate]:
    """Return the entries to evict, in order.

    If there are many entries, one in fifty more is evicted than necessary: planning
    requires a scan of all files, which the next writes then do not need.

    Args:
        candidates: All entries.
        room: Maximum bytes of the entries that stay.
    """
    aged = sorted(candidates, key=lambda candidate: candidate.used, reverse=True)
    waiting = [candidate for candidate in aged if not candidate.is_hot]
    hot = [candidate for candidate in aged if candidate.is_hot]
    probation = sum(candidate.size for candidate in waiting)
    total = probation + sum(candidate.size for candidate in hot)
    gone: list[Candidate] = []
    spare = len(aged) // _SPARE
    while waiting or hot:
        if total <= room:
            if not gone or not spare:
                break
            spare -= 1
        if waiting and (not hot or probation * _PROBATION_SHARE > room):
            gone.append(waiting.pop())
            probation -= gone[-1].size
        else:
            gone.append(hot.pop())
        total -= gone[-1].size
    return gone
