"""Nothing is stored once a gate is shut, whoever still holds the store."""

from threading import Event, Thread

import pytest

from tieredfs import ObjectStore, StorageUnavailableError
from tieredfs.objects import RequestPolicy
from tieredfs.testing.faults import FaultyStore
from tieredfs.testing.gate import Gate
from tieredfs.testing.stores import scratch_store


def test_a_store_behind_an_open_gate_is_the_same() -> None:
    with scratch_store() as store:
        behind = Gate().before(store)
        behind.put("a", b"1", overwrite=True)
        assert bytes(store.get("a")) == b"1"
        assert behind.url == store.url


def test_a_shut_gate_lets_deletions_pass_alone() -> None:
    gate = Gate()
    with scratch_store() as store:
        behind = gate.before(store)
        store.put("a", b"1", overwrite=True)
        gate.shut(1.0)
        views: list[ObjectStore] = [
            behind,
            behind.with_policy(RequestPolicy(deadline=5.0)),
            FaultyStore.over(behind),
        ]
        for view in views:
            with pytest.raises(StorageUnavailableError, match="the test has ended"):
                view.put("b", b"1", overwrite=True)
        behind.delete(["a"])
        assert not list(store.list())


def test_a_gate_is_shut_when_those_who_have_passed_are_through() -> None:
    gate, has_passed, may_end, is_shut = Gate(), Event(), Event(), Event()

    def request() -> None:
        with gate.passing("put", "a"):
            has_passed.set()
            may_end.wait(60)

    def shut() -> None:
        gate.shut(60.0)
        is_shut.set()

    threads = [Thread(target=request, daemon=True), Thread(target=shut, daemon=True)]
    threads[0].start()
    has_passed.wait(60)
    threads[1].start()
    assert not is_shut.wait(0.05)
    may_end.set()
    assert is_shut.wait(60)


def test_a_gate_does_not_wait_for_ever() -> None:
    gate = Gate()
    with gate.passing("put", "a"):
        gate.shut(0.01)
        with (
            pytest.raises(StorageUnavailableError, match="put b: the test has ended"),
            gate.passing("put", "b"),
        ):
            pass
