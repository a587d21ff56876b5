"""Which evictions the machine for caches objects to."""

import pytest

from tieredfs.testing.cache_machine.cached_segment import CachedSegment
from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.cache_machine.evictions import check_evictions
from tieredfs.testing.cache_machine.pool import POOL

OLD, NEW, FETCHED = POOL[:3]
YEAR = 365 * 86_400.0
NOW = 1_795_000_000.0
ONCE = NOW - 40 * YEAR
"""What a file says that was used once, now."""


def check(
    before: dict[CachedSegment, tuple[int, float]],
    after: dict[CachedSegment, int],
    limit: int | None,
) -> None:
    """Check what went between two moments, the first with the times of use."""
    check_evictions(
        "get",
        Entries(
            {one: size for one, (size, _) in before.items()},
            used={one: used for one, (_, used) in before.items()},
        ),
        Entries(after),
        {*before} - {*after},
        {*after} - {*before},
        limit,
    )


@pytest.mark.parametrize("used", [NOW, ONCE])
def test_what_was_used_longest_ago_may_go(used: float) -> None:
    before = {OLD: (700, used - 9), NEW: (700, used)}
    check(before, {NEW: 700, FETCHED: 700}, 2000)
    with pytest.raises(AssertionError, match=r"not used for longest .* evicted first"):
        check(before, {OLD: 700, FETCHED: 700}, 2000)


def test_what_was_used_at_the_same_time_may_go() -> None:
    check({OLD: (700, NOW), NEW: (700, NOW)}, {OLD: 700, FETCHED: 700}, 2000)


def test_no_more_goes_than_has_to() -> None:
    before = {OLD: (700, NOW - 9), NEW: (700, NOW)}
    check(before, {FETCHED: 700}, 1399)
    with pytest.raises(AssertionError, match=r"no more is evicted .* 700 of 1400"):
        check(before, {FETCHED: 700}, 1400)


def test_without_a_limit_any_may_go_that_is_the_oldest() -> None:
    before = {OLD: (700, NOW - 9), NEW: (700, NOW)}
    check(before, {FETCHED: 700}, None)
    with pytest.raises(AssertionError, match=r"not used for longest .* evicted first"):
        check(before, {OLD: 700, FETCHED: 700}, None)


def test_what_was_used_once_goes_before_what_was_used_again() -> None:
    before = {OLD: (700, NOW - 9), NEW: (300, ONCE)}
    check(before, {OLD: 700, FETCHED: 700}, 1500)
    with pytest.raises(AssertionError, match="what was used once is evicted first"):
        check(before, {NEW: 300, FETCHED: 700}, 1499)


def test_a_fifth_of_the_room_is_for_what_was_used_once() -> None:
    before = {OLD: (700, NOW - 9), NEW: (300, ONCE)}
    check(before, {NEW: 300, FETCHED: 1200}, 1500)


def test_where_nothing_was_evicted_there_is_nothing_to_object_to() -> None:
    check({OLD: (700, NOW)}, {OLD: 700, FETCHED: 700}, 1)
