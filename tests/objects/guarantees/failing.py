"""Failures: one tree of errors, one owner of retries and time."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from logs import CLOUDS, SECOND
from objects.guarantees.model import guarantee
from objects.subject import Subject
from tieredfs import (
    DeadlineExceededError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    StorageUnavailableError,
)
from tieredfs.objects import StoreCapability
from timing import assert_all_end_by

CONTENT = bytes(range(256)) * 40
FILES = {"key": CONTENT}
PROXIED = (*CLOUDS, *SECOND, "webhdfs")
DEADLINE = 1.0

CALLS: Mapping[str, Callable[[ObjectStore], Any]] = {
    "get": lambda store: bytes(store.get("key")),
    "get_range": lambda store: bytes(store.get_range("key", 10, 9_000)),
    "head": lambda store: store.head("key").size,
    "put": lambda store: store.put("key", CONTENT, overwrite=True),
    "copy": lambda store: store.copy("key", "copy"),
    "list": lambda store: [entry.key for entry in store.list("k")],
    "delete": lambda store: store.delete(["other"]),
}


@guarantee("a call is one request", places=(*CLOUDS, *SECOND), given=FILES)
def one_request(subject: Subject) -> None:
    """`get`, `get_range`, `head`, `put` of a small object, `copy`, `delete` of one
    key and a page of a listing are one request on the wire, and one in the events.
    """
    with subject.proxied() as (store, proxy):
        for verb, call in CALLS.items():
            proxy.clear()
            subject.events.clear()
            call(store)
            asked = [f"{each.method} {each.target}" for each in proxy.requests()]
            assert (verb, len(asked)) == (verb, 1), asked
            assert subject.events.by_verb() == {verb: 1}


@guarantee("a thousand keys are one request", places=CLOUDS)
def a_page_a_request(subject: Subject) -> None:
    """Listing N keys takes ⌈N/1000⌉ requests."""
    keys = [f"many/{number:04d}" for number in range(1001)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda k: subject.store.put(k, b"", overwrite=True), keys))
    with subject.proxied() as (store, proxy):
        assert [entry.key for entry in store.list("many/")] == keys
        assert len(proxy.requests()) == 2


@guarantee("what fails for a moment comes right", places=PROXIED, given=FILES)
def comes_right(subject: Subject) -> None:
    """After a 503, a 429 or a lost connection the call is made again, by the policy
    and by nobody else.
    """
    with subject.proxied() as (store, proxy):
        for fault in ({"status": 503}, {"status": 429}, {"cut_before": True}):
            for call in CALLS.values():
                expected = call(store)
                proxy.clear()
                proxy.add(times=2, **fault)
                assert call(store) == expected


@guarantee("what fails for ever is unavailable", places=PROXIED, given=FILES)
def unavailable(subject: Subject) -> None:
    """When the attempts are used up, the error is a `StorageUnavailableError`."""
    with subject.proxied() as (store, proxy):
        few = store.with_policy(RequestPolicy(attempts=2, backoff=0.01))
        for fault in ({"status": 500}, {"status": 503}, {"cut_before": True}):
            proxy.clear()
            proxy.add(**fault)
            for verb, call in CALLS.items():
                with pytest.raises(StorageUnavailableError) as caught:
                    call(few)
                assert caught.value.retryable, verb


@guarantee("a refusal is permission denied", places=PROXIED, given=FILES)
def permission_denied(subject: Subject) -> None:
    """A 403 is a `PermissionDeniedError`, and is not tried again."""
    with subject.proxied() as (store, proxy):
        proxy.add(status=403)
        for verb, call in CALLS.items():
            subject.events.clear()
            with pytest.raises(PermissionDeniedError):
                call(store)
            assert subject.events.by_verb() == {verb: 1}


@guarantee("every call ends by its deadline", places=PROXIED, given=FILES)
def deadlines(subject: Subject) -> None:
    """A server that accepts and never answers costs the deadline of the policy and
    ten per cent, and is a `DeadlineExceededError`; the store works again afterwards.
    """
    with subject.proxied() as (store, proxy):
        hasty = store.with_policy(RequestPolicy(deadline=DEADLINE))
        assert CALLS["get"](hasty) == CONTENT
        proxy.add(hang=60)

        def fail(call: Callable[[ObjectStore], Any]) -> None:
            with pytest.raises(DeadlineExceededError):
                call(hasty)

        assert_all_end_by(DEADLINE, [partial(fail, call) for call in CALLS.values()])
        proxy.clear()
        assert CALLS["get"](store) == CONTENT


@guarantee(
    "a lost reply to a create is no loss",
    places=PROXIED,
    needs=StoreCapability.EXCLUSIVE_CREATE,
)
def lost_reply(subject: Subject) -> None:
    """When the answer to a create is lost, what lies there is compared with what was
    to be put: ours is success, another's is `AlreadyExistsError`.
    """
    with subject.proxied() as (store, proxy):
        proxy.add(lose_reply=True, times=1)
        store.put("a", b"mine", overwrite=False)
        assert store.get("a") == b"mine"
        subject.store.put("b", b"their", overwrite=True)
        proxy.add(lose_reply=True, times=1)
        with pytest.raises(FileExistsError):
            store.put("b", b"mine!", overwrite=False)
        assert store.get("b") == b"their"


@guarantee("no secret is shown")
def no_secret(subject: Subject) -> None:
    """Neither errors nor the store's own text show a password, key or token."""
    with pytest.raises(NotFoundError) as caught:
        subject.store.get("missing")
    shown = f"{caught.value!r} {caught.value} {subject.store!r} {subject.store.url}"
    for name, value in subject.place.storage_options.items():
        if name in {"secret", "password", "connection_string"}:
            assert str(value) not in shown
    assert "tieredfs-secret" not in shown
