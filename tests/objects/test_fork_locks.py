"""A lock that another thread holds is free in a forked child."""

import threading
from typing import TYPE_CHECKING

import pytest

from objects.forking import forked
from tieredfs import ObjectStore, RequestCounter
from tieredfs.objects.backends import memory
from tieredfs.objects.concurrency.fork_locks import make_lock, make_rlock

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize("make", [make_lock, make_rlock])
def test_a_lock_that_a_thread_holds_is_free_in_a_child_and_held_in_its_parent(
    make: "Callable[[], threading.Lock | threading.RLock]",
) -> None:
    lock, held, done = make(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait(90)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        assert held.wait(30)
        assert forked(lambda: b"free" if lock.acquire(timeout=30) else b"held") == (
            b"free"
        )
        assert not lock.acquire(blocking=False)
    finally:
        done.set()
        thread.join()


def test_a_fork_while_a_thread_writes_to_memory_does_not_hang_the_child() -> None:
    store = ObjectStore("memory://forked", observer=RequestCounter())

    def work() -> bytes:
        store.put("key", b"content", overwrite=False)
        return bytes(store.get("key"))

    with memory._create:
        assert forked(work) == b"content"
