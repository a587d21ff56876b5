"""Which entries go when there is no room: a segmented LRU, as a plan.

An entry that was used once is on probation; one that was used again is hot. Room is
made among those on probation first, as long as they have more than their fifth: so what
streams past once pushes out nothing that is used again, and what is new always has some
room to show that it is.
"""

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Candidate", "plan_evictions"]

_PROBATION_SHARE = 5
_SPARE = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry on disk.

    Attributes:
        name: Its file's.
        size: Bytes of it.
        used: When it was used last, seconds since 1970.
        is_hot: Whether it was used more than once.
    """

    name: str
    size: int
    used: float
    is_hot: bool


def plan_evictions(candidates: Iterable[Candidate], room: int) -> list[Candidate]:
    """Choose what has to go, the first to go first.

    Where there are many, one in fifty more goes than has to: finding out costs a look
    at each file, which is then not needed every time.

    Args:
        candidates: All entries.
        room: Bytes that those may have that stay.
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
