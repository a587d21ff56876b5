"""Requests that wait for each other, and what ends the waiting."""

from functools import partial
from threading import get_ident

import pytest

from tieredfs import NotFoundError, ObjectStore
from tieredfs.testing import rendezvous
from tieredfs.testing.rendezvous import Rendezvous


def test_a_read_waits_until_the_other_thread_has_sent_one(memory: ObjectStore) -> None:
    memory.put("one", b"1", overwrite=True)
    together = Rendezvous(2)
    store = together.before_reads(memory)
    last: list[int] = []

    def read() -> bool:
        last[:] = [get_ident()]
        store.get("one")
        return last == [get_ident()]

    for _ in range(20):
        together = Rendezvous(2)
        store = together.before_reads(memory)
        assert sorted(together.run([read, read])) == [False, True]


def test_only_the_first_writes_wait(memory: ObjectStore) -> None:
    together = Rendezvous(2)
    stores = [together.before_first_write(memory) for _ in range(2)]
    looks = [partial(looks_and_writes, store) for store in stores]
    assert together.run(looks) == [0, 0]


def looks_and_writes(store: ObjectStore) -> int:
    """Return how many objects there were before this one was written."""
    found = len(list(store.list()))
    store.put_new("made/", b"")
    store.put_new("made/", b"")
    return found


def test_what_is_sent_before_the_threads_begin_does_not_wait(
    memory: ObjectStore,
) -> None:
    store = Rendezvous(2).before_reads(memory)
    assert not list(store.list())


def test_nobody_waits_for_a_thread_that_has_ended(memory: ObjectStore) -> None:
    together = Rendezvous(2)
    store = together.before_reads(memory)
    calls = [lambda: len(list(store.list())), lambda: -1]
    assert together.run(calls) == [0, -1]


def test_nobody_waits_long_for_a_thread_that_a_lock_holds_back(
    memory: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "_PATIENCE_SECONDS", 0.01)
    store = (together := Rendezvous(2)).before_reads(memory)
    with pytest.raises(NotFoundError):
        together.run([partial(store.get, "missing")])
