"""A listing of a million keys: pages when they are needed, and never all of them."""

import sys
from itertools import islice

import pytest

from support.events import Events
from tieredfs import ObjectStore, RequestPolicy, StorageUnavailableError
from tieredfs.objects.backends import Backend, Listing, ObjectInfo, Page
from tieredfs.objects.capabilities import StoreCapability

KEYS = 1_000_000
PAGE = 1000


class Pages(Backend):
    """Makes pages up, as a bucket of a million keys would give them."""

    capabilities = frozenset(StoreCapability)

    def __init__(self) -> None:
        """Have nothing behind it."""
        self.asked: list[int] = []
        self.failing: dict[int, int] = {}

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Return the thousand keys from number ``at`` on."""
        del listing, timeout
        start = at if isinstance(at, int) else 0
        self.asked.append(start)
        if self.asked.count(start) <= self.failing.get(start, 0):
            raise ConnectionResetError("gone")
        keys = (f"topic/{number:08d}.log" for number in range(start, start + PAGE))
        entries = [ObjectInfo(key, 1, "version") for key in keys]
        end = start + PAGE
        return Page(entries, end if end < KEYS else None)


def opened(pages: Pages, events: Events) -> ObjectStore:
    policy = RequestPolicy(attempts=3, backoff=0.001)
    store = ObjectStore("memory://nothing", policy=policy, observer=events)
    store._requests.connection._made = pages
    return store


def test_a_million_keys_need_the_memory_of_a_page() -> None:
    pages, events = Pages(), Events()
    store = opened(pages, events)
    held: list[int] = []
    last, count = "", 0
    for entry in store.list():
        assert last < entry.key
        last, count = entry.key, count + 1
        if count % (100 * PAGE) == 1:
            held.append(sys.getallocatedblocks() - 20 * len(events))
    assert count == KEYS
    assert pages.asked == list(range(0, KEYS, PAGE))
    assert len(events) == KEYS // PAGE
    # A page is some 4000 blocks; a hundred of them lie between two looks.
    assert max(held) - held[0] < 100 * PAGE, held


def test_a_page_is_asked_for_when_it_is_needed() -> None:
    pages = Pages()
    found = opened(pages, Events()).list()
    assert pages.asked == []
    assert [entry.key for entry in islice(found, PAGE)][-1] == "topic/00000999.log"
    assert pages.asked == [0]
    assert next(found).key == "topic/00001000.log"
    assert pages.asked == [0, PAGE]


def test_a_page_that_fails_is_asked_for_again_where_it_was() -> None:
    pages = Pages()
    pages.failing = {2 * PAGE: 2}
    found = list(islice(opened(pages, Events()).list(), 4 * PAGE))
    assert len({entry.key for entry in found}) == 4 * PAGE
    assert pages.asked == [0, PAGE, *(2 * PAGE,) * 3, 3 * PAGE]


class Twice(Pages):
    """Lists each key twice, and the last of a page again on the next one."""

    def page(self, listing: Listing, at: object, timeout: float) -> Page:
        """Return a page with what should not be there."""
        page = super().page(listing, at, timeout)
        twice = [entry for entry in page.entries for _ in range(2)]
        start = at if isinstance(at, int) else 0
        again = [ObjectInfo(f"topic/{start - 1:08d}.log", 1)] if start else []
        return Page([*again, *twice], page.following)


def test_a_key_that_the_store_lists_again_comes_once() -> None:
    found = opened(Twice(), Events()).list()
    keys = [entry.key for entry in islice(found, 3 * PAGE)]
    assert keys == [f"topic/{number:08d}.log" for number in range(3 * PAGE)]


def test_a_page_that_always_fails_ends_the_listing_with_an_error() -> None:
    pages = Pages()
    pages.failing = {PAGE: 3}
    found = opened(pages, Events()).list()
    assert len(list(islice(found, PAGE))) == PAGE
    with pytest.raises(StorageUnavailableError):
        next(found)
