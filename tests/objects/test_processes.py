"""Threads share a store, processes make their own."""

import pickle
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from operator import methodcaller
from pathlib import Path

import pytest

from objects.forking import forked
from servers import Bucket, ProxiedBucket
from support.stores import make_place, open_store
from tieredfs import (
    NotFoundError,
    ObjectStore,
    RequestCounter,
    RequestPolicy,
    StorageUnavailableError,
)
from tieredfs.testing.stores import WatchedStore


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("kind", ["local", "s3", "azure"])
def test_a_forked_child_makes_its_own_connections(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = open_store(make_place(kind, request, tmp_path))
    store.put("a", b"from the parent", overwrite=True)

    def work() -> bytes:
        store.put("b", b"from the child", overwrite=True)
        return bytes(store.get("a"))

    assert forked(work) == b"from the parent"
    assert store.get("b") == b"from the child"
    assert store.get("a") == b"from the parent"


def test_a_fork_of_memory_sees_what_was_there_and_keeps_its_own(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = open_store(make_place("memory", request, tmp_path))
    store.put("a", b"before", overwrite=True)

    def work() -> bytes:
        store.put("a", b"in the child", overwrite=True)
        return bytes(store.get("a"))

    assert forked(work) == b"in the child"
    assert store.get("a") == b"before"


@pytest.mark.parametrize("kind", ["s3", "azure"])
def test_a_spawned_process_makes_its_own(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    store = open_store(make_place(kind, request, tmp_path))
    store.put("a", b"content", overwrite=True)
    with get_context("spawn").Pool(1) as pool:
        # A function of this file could not be imported there.
        assert pool.apply(methodcaller("head", "a"), (store,)).size == 7
        with pytest.raises(NotFoundError, match="missing"):
            pool.apply(methodcaller("head", "missing"), (store,))


def test_a_pickled_store_is_the_same_place_under_the_same_policy(
    place: Bucket,
) -> None:
    counter = RequestCounter()
    policy = RequestPolicy(attempts=2, deadline=7)
    store = ObjectStore(
        place.url, place.storage_options, policy=policy, observer=counter
    )
    store.put("a", b"1", overwrite=True)
    before = counter.requests
    again = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own
    assert again.get("a") == b"1"
    assert (again.url, again.policy) == (store.url, policy)
    assert counter.requests == before  # the observer stays at home


def test_a_store_that_was_never_used_can_be_pickled(place: Bucket) -> None:
    store = open_store(place)
    again = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own
    again.put("a", b"1", overwrite=True)
    assert store.get("a") == b"1"


def test_a_view_with_another_policy_shares_the_connections(
    proxied: ProxiedBucket,
) -> None:
    counter = RequestCounter()
    store = ObjectStore(proxied.url, proxied.storage_options, observer=counter)
    store.put("a", b"1", overwrite=True)
    hasty = store.with_policy(RequestPolicy(attempts=1))
    assert hasty._requests.connection is store._requests.connection
    assert hasty.url == store.url
    proxied.proxy.add(status=503, times=1)
    with pytest.raises(StorageUnavailableError):
        hasty.get("a")
    assert store.policy == RequestPolicy()
    assert hasty.get("a") == b"1"
    assert counter.by_verb() == {"put": 1, "get": 2}


def test_a_view_is_of_its_stores_class_and_has_what_that_keeps(place: Bucket) -> None:
    class Labelled(ObjectStore):
        """A store with something of its own."""

        label = ""

    store = Labelled(place.url, place.storage_options)
    store.label = "mine"
    view = store.with_policy(RequestPolicy(attempts=1)).with_policy(RequestPolicy())
    assert type(view) is Labelled
    assert view.label == "mine"
    view.put("a", b"1", overwrite=True)
    assert store.get("a") == b"1"


def test_a_view_of_a_watched_store_is_watched_with_it(place: Bucket) -> None:
    watched = WatchedStore.over(open_store(place), ["put"])
    view = watched.with_policy(RequestPolicy(attempts=1))
    view.put("a", b"1", overwrite=True)
    assert watched.calls == 1
    watched.limit = 1
    with pytest.raises(StorageUnavailableError, match="a fault was injected"):
        view.put("b", b"1", overwrite=True)
    assert watched.calls == 2


def test_a_view_of_an_unused_store_makes_them_for_both(place: Bucket) -> None:
    store = open_store(place)
    view = store.with_policy(RequestPolicy(attempts=1))
    view.put("a", b"1", overwrite=True)
    assert view._requests.backend("", "") is store._requests.backend("", "")
    assert store.get("a") == b"1"


def test_leaving_a_with_block_leaves_the_connections(place: Bucket) -> None:
    with open_store(place) as store:
        view = store.with_policy(RequestPolicy())
        store.put("a", b"1", overwrite=True)
    assert view.get("a") == b"1"


def test_threads_share_a_store(place: Bucket) -> None:
    counter = RequestCounter()
    store = ObjectStore(place.url, place.storage_options, observer=counter)
    start = threading.Barrier(8)

    def work(number: int) -> bool:
        start.wait()  # all of them want the first connection
        good = True
        for turn in range(10):
            key = f"{number}/{turn}"
            content = key.encode() * 1000
            store.put(key, content, overwrite=False)
            good &= store.get(key) == content
            good &= store.get_range(key, 3, 1003) == content[3:1003]
        return good

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))
    assert len({id(store._requests.backend("", "")) for _ in range(3)}) == 1
    tries = ("s3:", "gs:", "sftp:")
    tried = {"put": 2, "delete": 1} if place.url.startswith(tries) else {}
    made = Counter({"put": 80, "get": 80, "get_range": 80}) + Counter(tried)
    assert counter.by_verb() == made
    assert sum(1 for _ in store.list()) == 80
