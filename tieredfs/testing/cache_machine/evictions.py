"""Which entries may go when a cache is full.

Every check raises AssertionError with one sentence: the promise that is broken, and how
it was seen.
"""

from collections.abc import Collection, Iterable
from typing import Final

from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.rule import require

__all__ = ["check_evictions"]

_EARLIEST_USE: Final = 1_200_000_000.0
"""A file that says an earlier time is of an entry that was used once."""

_PROBATION_SHARE: Final = 5
"""Entries that were used once may take one part in this many of the limit."""

_SPARE: Final = 50
"""One entry in this many may go beyond what is necessary."""


def check_evictions(
    said: str,
    before: Entries,
    after: Entries,
    evicted: Collection[CachedSegment],
    fetched: Collection[CachedSegment],
    limit: int | None,
) -> None:
    """Require that no more was evicted than necessary, and what was used long ago.

    Args:
        said: What was called.
        before: The entries when it was called.
        after: The entries now.
        evicted: The segments whose entries went to make room.
        fetched: The segments for which room was made.
        limit: Maximum bytes on disk; None if it is not known.
    """
    if not evicted:
        return
    gone = sorted(map(str, evicted))
    sizes, used = before.sizes, before.used
    kept = {*before.sizes} & {*after.sizes} - {*fetched}
    for one in evicted:
        for other in kept:
            require(
                used[one] <= used[other] or _is_hot(used[one]) > _is_hot(used[other]),
                f"what was not used for longest is evicted first: after {said} that of "
                f"{one} is gone, and that of {other} is there",
            )
    if limit is None:
        return
    spare = 1 + len(sizes) // _SPARE
    largest = sorted((sizes[one] for one in evicted), reverse=True)[:spare]
    require(
        after.size + sum(largest) > limit,
        f"no more is evicted than has to be: after {said} those of {gone} are gone, "
        f"and the others have {after.size} of {limit} bytes",
    )
    once = _total(before, (one for one in kept if not _is_hot(used[one])))
    require(
        once * _PROBATION_SHARE <= limit or not any(_is_hot(used[o]) for o in evicted),
        f"what was used once is evicted first: after {said} those of {gone} are gone, "
        f"and entries that were used once have {once} of {limit} bytes",
    )


def _is_hot(used: float) -> bool:
    return used > _EARLIEST_USE


def _total(entries: Entries, segments: Iterable[CachedSegment]) -> int:
    return sum(entries.sizes[one] for one in segments)
