"""Which entries go: those that stream past once, before those that are used again."""

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from cache.made import Clock, entry_size, made_segment, open_cache
from tieredfs.cache import RemoteIndexCache
from tieredfs.cache.eviction import Candidate, plan_evictions

CANDIDATES = st.lists(
    st.builds(
        Candidate,
        st.uuids().map(str),
        st.integers(0, 1000),
        st.floats(0, 1e9),
        st.booleans(),
    ),
    max_size=60,
)
ROOMS = st.integers(0, 20_000)


def size_of(entries: list[Candidate]) -> int:
    return sum(entry.size for entry in entries)


@given(CANDIDATES, ROOMS)
def test_what_stays_fits(entries: list[Candidate], room: int) -> None:
    gone = plan_evictions(entries, room)
    assert len(set(gone)) == len(gone)
    assert size_of([entry for entry in entries if entry not in gone]) <= room


@given(CANDIDATES, ROOMS)
def test_no_more_goes_than_has_to_but_one_in_fifty(
    entries: list[Candidate], room: int
) -> None:
    gone = plan_evictions(entries, room)
    if size_of(entries) <= room:
        assert gone == []
    spare = len(entries) // 50
    kept = size_of(entries) - size_of(gone[: max(0, len(gone) - spare - 1)])
    assert not gone or kept > room


@pytest.mark.parametrize(("count", "more"), [(49, 0), (50, 1), (149, 2), (150, 3)])
def test_one_in_fifty_more_goes_than_has_to(count: int, more: int) -> None:
    entries = [Candidate(str(n), 1, n, is_hot=False) for n in range(count)]
    assert plan_evictions(entries, count - 1) == entries[: 1 + more]


@given(CANDIDATES, ROOMS)
def test_the_oldest_goes_first_among_the_hot_and_among_the_others(
    entries: list[Candidate], room: int
) -> None:
    gone = plan_evictions(entries, room)
    for is_hot in (True, False):
        went = [entry.used for entry in gone if entry.is_hot is is_hot]
        assert went == sorted(went)
        stayed = [e.used for e in entries if e.is_hot is is_hot and e not in gone]
        assert not went or not stayed or went[-1] <= min(stayed)


@given(CANDIDATES, ROOMS)
def test_none_that_is_hot_goes_while_the_others_have_more_than_their_fifth(
    entries: list[Candidate], room: int
) -> None:
    gone = plan_evictions(entries, room)
    waiting = [entry for entry in entries if not entry.is_hot]
    for entry in gone:
        if entry.is_hot:
            assert size_of(waiting) * 5 <= room or not waiting
        else:
            waiting.remove(entry)


@given(CANDIDATES.filter(bool), st.data())
def test_what_is_new_has_its_fifth_however_hot_the_rest_is(
    entries: list[Candidate], data: st.DataObject
) -> None:
    room = data.draw(st.integers(size_of(entries), 2 * size_of(entries) + 5))
    new = Candidate("new", room // 5, 1e10, is_hot=False)
    hot = [e for e in entries if e.is_hot]
    assert new not in plan_evictions([*hot, new], room)


def test_a_hundred_hot_entries_survive_ten_thousand_that_stream_past() -> None:
    room, now = 130, 0.0
    kept = {
        name: Candidate(name, 1, 0, is_hot=True)
        for name in map("hot{}".format, range(100))
    }
    for number in range(10_000):
        now += 1
        for gone in plan_evictions(kept.values(), room - 1):
            del kept[gone.name]
        kept[str(number)] = Candidate(str(number), 1, now, is_hot=False)
        assert len(kept) <= room
    assert sum(entry.is_hot for entry in kept.values()) == 100


def test_what_was_hot_long_ago_gives_way_to_what_is_used_again_now() -> None:
    room = 100
    names = [f"old{number}" for number in range(100)]
    kept = {name: Candidate(name, 1, 0, is_hot=True) for name in names}
    for number in range(200):  # each is used twice
        for gone in plan_evictions(kept.values(), room - 1):
            del kept[gone.name]
        kept[str(number)] = Candidate(str(number), 1, number + 1, is_hot=True)
    assert not [name for name in kept if name.startswith("old")]


def test_entries_that_are_used_again_survive_a_scan_on_disk(tmp_path: Path) -> None:
    clock = Clock()
    made, cache = open_cache(tmp_path, max_bytes=20 * entry_size(), clock=clock)
    hot = [made_segment(number) for number in range(10)]

    def use(cache: RemoteIndexCache, *numbers: int) -> None:
        for number in numbers:
            clock.now += 1
            cache.get(made_segment(number))

    use(cache, *range(10), *range(10))
    use(cache, *range(10, 160))
    assert cache.stats.size <= 20 * entry_size()
    assert cache.stats.evictions >= 140
    before = made.fetches
    cache.close()
    _, again = open_cache(tmp_path, max_bytes=20 * entry_size(), clock=clock)
    for segment in hot:
        again.get(segment)
    assert made.fetches == before == 160
