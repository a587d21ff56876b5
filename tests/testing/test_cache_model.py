"""What the model of a cache objects to, and what it leaves to the cache."""

from dataclasses import replace

import pytest

from tieredfs.cache import CacheStats
from tieredfs.testing.cache_machine.counted import Counted
from tieredfs.testing.cache_machine.entries import Entries
from tieredfs.testing.cache_machine.model import CacheModel
from tieredfs.testing.cache_machine.pool import POOL, indexes_of
from tieredfs.testing.cache_machine.stored_segments import StoredSegments

ONE, OTHER = POOL[:2]
NONE = Entries()
WHOLE = Entries({ONE: 700})
DAMAGED = Entries({}, {ONE: 700})
LIMIT = 1 << 20
COUNTED = CacheStats(
    hits=5, misses=4, loads=3, load_seconds=0.0, evictions=2, corruptions=1, size=0
)


def stored() -> StoredSegments:
    made = StoredSegments()
    made.indexes = {segment: indexes_of(segment) for segment in POOL}
    return made


def opened(limit: int = LIMIT, ttl: float | None = None) -> CacheModel:
    """Return a model in which two handles are open, and have nothing in memory."""
    model = CacheModel(stored(), ttl)
    model.open(0, limit)
    model.open(1, None)
    return model


def check_fetches(
    model: CacheModel,
    fetches: int,
    before: Entries = NONE,
    handles: tuple[int, ...] = (0,),
    now: float = 0.0,
) -> None:
    model.check_fetches("get", handles, ONE, before, now, fetches)


class TestLimit:
    def test_a_new_directory_has_none(self) -> None:
        assert CacheModel(stored()).limit is None

    def test_it_is_what_was_set_last_by_any_handle(self) -> None:
        model = opened(100)
        assert model.limit == model.largest_limit == 100
        model.open(1, 50)
        assert model.limit == model.largest_limit == 50
        model.resize(0, 20)
        assert model.limit == model.largest_limit == 20

    def test_a_handle_that_is_opened_without_one_leaves_it_as_it_is(self) -> None:
        model = opened(100)
        model.open(1, None)
        assert model.limit == 100

    def test_once_it_is_lost_it_may_be_the_largest_that_a_handle_knows(self) -> None:
        model = opened(100)
        model.resize(0, 20)
        model.lose_limit()
        assert model.limit is None
        assert model.largest_limit == 100  # handle 1 was opened when it was that
        model.resize(1, 30)
        model.lose_limit()
        assert model.largest_limit == 30

    def test_a_handle_that_sets_it_ends_the_loss(self) -> None:
        model = opened(100)
        model.lose_limit()
        model.open(0, 30)
        assert model.limit == model.largest_limit == 30

    def test_there_is_room_for_an_entry_that_is_not_larger_for_certain(self) -> None:
        size = stored().most_bytes(ONE)
        assert opened(size).have_room([ONE])
        assert not opened(size - 1).have_room([ONE])
        assert not opened(size).have_room([ONE, OTHER])
        assert not opened(size).have_room([ONE], 1)

    def test_without_one_there_is_no_certain_room(self) -> None:
        model = opened()
        model.lose_limit()
        assert not model.have_room([ONE])


class TestFetches:
    def test_an_entry_that_is_whole_is_not_fetched(self) -> None:
        check_fetches(opened(), 0, WHOLE)
        with pytest.raises(AssertionError, match="held is not fetched again: get sent"):
            check_fetches(opened(), 1, WHOLE)

    def test_a_segment_without_an_entry_is_fetched_once(self) -> None:
        check_fetches(opened(), 1)
        with pytest.raises(AssertionError, match=r"is not served: .* it was missing"):
            check_fetches(opened(), 0)
        with pytest.raises(AssertionError, match=r"in one operation.* sent 2 "):
            check_fetches(opened(), 2)

    def test_a_damaged_entry_is_fetched_once(self) -> None:
        check_fetches(opened(), 1, DAMAGED)
        with pytest.raises(AssertionError, match=r"not served: .* entry was damaged"):
            check_fetches(opened(), 0, DAMAGED)
        with pytest.raises(AssertionError, match=r"one operation.* entry was damaged"):
            check_fetches(opened(), 2, DAMAGED)

    def test_the_entry_of_another_segment_does_not_serve(self) -> None:
        with pytest.raises(AssertionError, match="is not served"):
            check_fetches(opened(), 0, Entries({OTHER: 700}))

    def test_what_a_handle_has_in_memory_it_may_serve_without_an_entry(self) -> None:
        model = opened()
        model.use(0, ONE, 0.0)
        check_fetches(model, 0)
        check_fetches(model, 1)
        check_fetches(model, 0, handles=(0, 1))

    def test_another_handle_does_not_have_it_in_memory(self) -> None:
        model = opened()
        model.use(0, ONE, 0.0)
        with pytest.raises(AssertionError, match="is not served"):
            check_fetches(model, 0, handles=(1,))

    def test_an_entry_whose_layout_was_asked_for_is_in_memory(self) -> None:
        model = opened()
        model.map(0, ONE)
        check_fetches(model, 0)
        with pytest.raises(AssertionError, match="is not served"):
            check_fetches(model, 0, handles=(1,))

    def test_what_a_handle_has_removed_it_does_not_serve(self) -> None:
        model = opened()
        model.use(0, ONE, 0.0)
        model.remove(0, [ONE, OTHER])
        with pytest.raises(AssertionError, match="is not served"):
            check_fetches(model, 0)

    def test_a_removal_is_of_one_handle_and_of_the_segments_it_names(self) -> None:
        model = opened()
        model.use(0, ONE, 0.0)
        model.remove(1, [ONE])
        model.remove(0, [OTHER])
        check_fetches(model, 0)

    def test_a_handle_that_is_opened_again_has_nothing_in_memory(self) -> None:
        model = opened()
        model.use(0, ONE, 0.0)
        model.open(0, None)
        with pytest.raises(AssertionError, match="is not served"):
            check_fetches(model, 0)


class TestExpiry:
    def test_what_has_expired_is_fetched_whoever_has_it(self) -> None:
        model = opened(ttl=100.0)
        model.use(0, ONE, 0.0)
        check_fetches(model, 1, WHOLE, now=100.1)
        with pytest.raises(AssertionError, match="has expired is not served"):
            check_fetches(model, 0, WHOLE, now=100.1)

    def test_what_was_used_lately_is_not_fetched(self) -> None:
        model = opened(ttl=100.0)
        model.use(0, ONE, 0.0)
        with pytest.raises(AssertionError, match="what is held is not fetched again"):
            check_fetches(model, 1, WHOLE, now=75.0)

    def test_in_the_last_quarter_of_its_time_it_may_be_fetched(self) -> None:
        model = opened(ttl=100.0)
        model.use(0, ONE, 0.0)
        for now in (75.1, 100.0):
            for fetches in (0, 1):
                check_fetches(model, fetches, WHOLE, (1,), now)

    def test_each_use_begins_its_time_again(self) -> None:
        model = opened(ttl=100.0)
        model.use(0, ONE, 0.0)
        model.use(1, ONE, 90.0)
        with pytest.raises(AssertionError, match="what is held is not fetched again"):
            check_fetches(model, 1, WHOLE, now=150.0)

    def test_asking_for_the_layout_is_not_a_use(self) -> None:
        model = opened(ttl=100.0)
        model.use(0, ONE, 0.0)
        model.map(0, ONE)
        with pytest.raises(AssertionError, match="has expired is not served"):
            check_fetches(model, 0, WHOLE, now=150.0)


class TestEntries:
    def test_what_was_fetched_is_there_beside_what_was_there(self) -> None:
        opened().check_entries(
            "get", WHOLE, Entries({ONE: 7, OTHER: 8}), fetched=[OTHER]
        )

    def test_they_are_not_larger_than_the_limit(self) -> None:
        opened(700).check_entries("get", WHOLE, WHOLE)
        with pytest.raises(AssertionError, match="700 bytes, allowed are 699"):
            opened(699).check_entries("get", WHOLE, WHOLE)

    def test_they_are_not_larger_than_a_lost_limit_can_have_been(self) -> None:
        model = opened(699)
        model.lose_limit()
        with pytest.raises(AssertionError, match="700 bytes, allowed are 699"):
            model.check_entries("get", WHOLE, WHOLE)

    @pytest.mark.parametrize("after", [WHOLE, DAMAGED])
    def test_none_is_left_of_what_was_removed(self, after: Entries) -> None:
        with pytest.raises(AssertionError, match="what is removed is gone: after get"):
            opened().check_entries("get", after, after, removed=[ONE, OTHER])

    def test_what_was_removed_may_go(self) -> None:
        opened().check_entries("remove", WHOLE, NONE, removed=[ONE])

    @pytest.mark.parametrize("before", [NONE, DAMAGED])
    def test_none_appears_that_was_not_fetched(self, before: Entries) -> None:
        with pytest.raises(AssertionError, match="only what was fetched whole is kept"):
            opened().check_entries("get", before, WHOLE, fetched=[OTHER])

    def test_none_goes_while_there_is_room_for_all(self) -> None:
        need = 700 + stored().most_bytes(OTHER)
        after = Entries({OTHER: 500})
        opened(need - 1).check_entries("get", WHOLE, after, fetched=[OTHER])
        with pytest.raises(AssertionError, match="an entry stays while there is room"):
            opened(need).check_entries("get", WHOLE, after, fetched=[OTHER])

    def test_a_damaged_one_takes_room_and_may_go(self) -> None:
        before = Entries({ONE: 700}, {OTHER: 300})
        opened(1000).check_entries("get", before, WHOLE)
        opened(999).check_entries("get", before, NONE)
        with pytest.raises(AssertionError, match="an entry stays while there is room"):
            opened(1000).check_entries("get", before, NONE)

    def test_what_was_fetched_is_kept_if_there_is_room(self) -> None:
        need = stored().most_bytes(ONE)
        opened(need - 1).check_entries("get", NONE, NONE, fetched=[ONE])
        with pytest.raises(AssertionError, match="what was fetched is kept: after get"):
            opened(need).check_entries("get", NONE, NONE, fetched=[ONE])

    def test_once_the_limit_is_lost_any_may_go(self) -> None:
        model = opened()
        model.lose_limit()
        model.check_entries("get", WHOLE, NONE, fetched=[OTHER])


class TestStats:
    @pytest.mark.parametrize(
        ("fetches", "evictions", "after"),
        [
            (0, 0, replace(COUNTED, hits=6)),
            (1, 0, replace(COUNTED, misses=5, loads=4)),
            (1, 2, replace(COUNTED, misses=5, loads=4, evictions=4)),
        ],
        ids=["a hit", "a load", "a load that evicts"],
    )
    def test_a_call_is_counted_as_what_it_was(
        self, fetches: int, evictions: int, after: CacheStats
    ) -> None:
        def check(found: CacheStats) -> None:
            Counted(lookups=1, fetches=fetches, evictions=evictions).check(
                "get", COUNTED, found
            )

        check(after)
        for wrong in (
            replace(after, hits=after.hits + 1),
            replace(after, misses=after.misses + 1),
            replace(after, loads=after.loads - 1),
            replace(after, evictions=after.evictions + 1),
        ):
            with pytest.raises(AssertionError, match="hits, misses, loads and evict"):
                check(wrong)

    @pytest.mark.parametrize(
        ("is_damaged", "corruptions", "is_true"),
        [
            (False, 0, True),
            (False, 1, False),
            (True, 0, True),
            (True, 1, True),
            (True, 2, False),
            (True, -1, False),
        ],
    )
    def test_a_damaged_entry_is_counted_once_at_most(
        self, is_damaged: bool, corruptions: int, is_true: bool
    ) -> None:
        after = replace(COUNTED, hits=6, corruptions=1 + corruptions)

        def check() -> None:
            Counted(lookups=1, is_damaged=is_damaged).check("get", COUNTED, after)

        if is_true:
            check()
        else:
            with pytest.raises(AssertionError, match=f"added {corruptions} corrupt"):
                check()
