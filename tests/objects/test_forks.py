"""Processes that fork: neither waits for a connection of the other.

A forked child shares the parent's sockets and the epoll they wait in. A connection that
is closed there is taken out of the parent's epoll, and the parent's next request
stalls for 15 s (seen with s3fs).
"""

import gc
import threading
from functools import partial
from pathlib import Path

import fsspec
import pytest
from fsspec.asyn import get_lock
from fsspec.core import url_to_fs

from objects.forking import forked, soon
from servers import Bucket
from support.stores import CLOUDS, make_place, open_store
from tieredfs import ObjectStore

CONTENT = b"content"


@pytest.fixture(params=CLOUDS)
def filled(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """A place with one object, ``a``."""
    place = make_place(request.param, request, tmp_path)
    open_store(place).put("a", CONTENT, overwrite=True)
    return place


def fresh(place: Bucket) -> bytes:
    """Read the object through a store made for it."""
    return bytes(open_store(place).get("a"))


def plain(place: Bucket) -> bytes:
    """Read the object through fsspec, as users do, and through its cache."""
    filesystem, root = url_to_fs(place.url, **place.storage_options)
    content: bytes = filesystem.cat_file(f"{root}/a")
    return content


def test_a_store_made_in_a_child_does_not_stall_the_parents(filled: Bucket) -> None:
    store = open_store(filled)
    assert store.get("a") == CONTENT

    def work() -> bytes:
        content = fresh(filled)
        gc.collect()
        return content

    for _ in range(2):
        assert forked(work) == CONTENT
        assert soon(lambda: bytes(store.get("a"))) == CONTENT
        assert soon(lambda: fresh(filled)) == CONTENT


def test_a_filesystem_made_in_a_child_does_not_stall_the_parents(
    filled: Bucket,
) -> None:
    store = open_store(filled)
    assert store.get("a") == CONTENT

    def work() -> bytes:
        content = plain(filled)
        gc.collect()
        return content

    assert forked(work) == CONTENT
    assert soon(lambda: bytes(store.get("a"))) == CONTENT


def test_a_store_made_in_a_child_does_not_stall_what_fsspec_keeps_for_its_user(
    filled: Bucket,
) -> None:
    assert plain(filled) == CONTENT  # only fsspec's cache has it from here on
    try:
        for work in (fresh, plain):
            assert forked(partial(work, filled)) == CONTENT
            assert soon(lambda: plain(filled)) == CONTENT
    finally:
        fsspec.get_filesystem_class(filled.url.partition(":")[0]).clear_instance_cache()


def test_a_store_that_was_dropped_in_a_child_does_not_stall_the_parents(
    filled: Bucket,
) -> None:
    stores = [open_store(filled)]
    assert stores[0].get("a") == CONTENT
    kept = stores[0]

    def work() -> bytes:
        nonlocal kept
        kept = ObjectStore("memory://nothing")
        stores.clear()
        gc.collect()
        return fresh(filled)

    assert forked(work) == CONTENT
    assert soon(lambda: bytes(kept.get("a"))) == CONTENT


def test_a_fork_while_a_thread_holds_fsspecs_lock_does_not_hang_the_child(
    filled: Bucket,
) -> None:
    store = open_store(filled)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with get_lock():
            held.set()
            done.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    try:
        assert forked(lambda: fresh(filled)) == CONTENT
        assert forked(lambda: bytes(store.get("a"))) == CONTENT
    finally:
        done.set()
        thread.join()


def test_a_fork_while_a_thread_connects_does_not_hang_the_child(
    filled: Bucket,
) -> None:
    store = open_store(filled)
    connection = store._requests.connection
    with connection._lock, connection.probe_lock:
        assert forked(lambda: bytes(store.get("a"))) == CONTENT
    assert store.get("a") == CONTENT
