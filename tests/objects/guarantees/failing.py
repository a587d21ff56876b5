"""Failures: one tree of errors, and one place for retries and deadlines."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from objects.guarantees.model import guarantee
from objects.subject import Subject
from support.deadlines import assert_all_end_by
from support.stores import CLOUDS, SECOND
from tieredfs import (
    DeadlineExceededError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    StorageUnavailableError,
)
from tieredfs.objects import StoreCapability

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
    """`get`, `get_range`, `head`, `put` of a small object, `copy`, `delete` of one key
    and a page of a listing are each one request on the wire, and one event.
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


@guarantee("a transient failure is retried", places=PROXIED, given=FILES)
def comes_right(subject: Subject) -> None:
    """After a 503, a 429 or a lost connection the call is retried, by the policy and by
    no other code.
    """
    with subject.proxied() as (store, proxy):
        for fault in ({"status": 503}, {"status": 429}, {"cut_before": True}):
            for call in CALLS.values():
                expected = call(store)
                proxy.clear()
                proxy.add(times=2, **fault)
                assert call(store) == expected


@guarantee("a lasting failure is unavailable", places=PROXIED, given=FILES)
def unavailable(subject: Subject) -> None:
    """After the last attempt, the error is a `StorageUnavailableError`."""
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
    """A 403 is a `PermissionDeniedError`, and is not retried."""
    with subject.proxied() as (store, proxy):
        proxy.add(status=403)
        for verb, call in CALLS.items():
            subject.events.clear()
            with pytest.raises(PermissionDeniedError):
                call(store)
            assert subject.events.by_verb() == {verb: 1}


@guarantee("every call ends by its deadline", places=PROXIED, given=FILES)
def deadlines(subject: Subject) -> None:
    """If a server accepts a request and never answers, the call ends within 110 per
    cent of the policy's deadline with a `DeadlineExceededError`; the store works again
    afterwards.
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
    "a lost reply to a create is resolved",
    places=PROXIED,
    needs=StoreCapability.EXCLUSIVE_CREATE,
)
def lost_reply(subject: Subject) -> None:
    """If the answer to a create is lost, the stored object is compared with the content
    to be put: an equal one is success, another one is `AlreadyExistsError`.
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
    """Neither an error nor the `repr` or URL of a store shows a password, key or
    token.
    """
    with pytest.raises(NotFoundError) as caught:
        subject.store.get("missing")
    shown = f"{caught.value!r} {caught.value} {subject.store!r} {subject.store.url}"
    for name, value in subject.place.storage_options.items():
        if name in {"secret", "password", "connection_string"}:
            assert str(value) not in shown
    assert "tieredfs-secret" not in shown
