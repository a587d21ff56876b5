"""How long is waited between tries: jitter, and what the server asks for."""

import time

import pytest

from servers import ProxiedBucket
from support.events import Events
from support.stores import CLOUDS
from tieredfs import (
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSError,
)

CONTENT = b"content"

on_every_cloud = pytest.mark.parametrize("proxied", CLOUDS, indirect=True)


def opened(proxied: ProxiedBucket, policy: RequestPolicy) -> ObjectStore:
    """Return a store with one object, connected, whose proxy has seen nothing."""
    store = ObjectStore(proxied.url, proxied.storage_options, observer=Events())
    store.put("key", CONTENT, overwrite=True)
    proxied.proxy.clear()
    return store.with_policy(policy)


@on_every_cloud
@pytest.mark.parametrize("status", [429, 503])
def test_what_the_server_asks_for_is_waited(
    proxied: ProxiedBucket, waits: list[float], status: int
) -> None:
    store = opened(proxied, RequestPolicy(attempts=4, backoff=0.1, max_backoff=0.2))
    proxied.proxy.add(status=status, headers={"Retry-After": "7"}, times=2)
    proxied.proxy.add(status=status, times=1)
    assert store.get("key") == CONTENT
    assert waits[:2] == [7, 7]
    assert 0 <= waits[2] <= 0.2  # what was asked for once is not waited again


@on_every_cloud
def test_a_requested_wait_beyond_the_deadline_ends_the_call_immediately(
    proxied: ProxiedBucket,
) -> None:
    store = opened(proxied, RequestPolicy(deadline=20))
    proxied.proxy.add(status=429, headers={"Retry-After": "3600"})
    for call in (
        lambda: store.get("key"),
        lambda: list(store.list()),
        lambda: store.put("key", b"other", overwrite=True),
        lambda: store.delete(["key"]),
    ):
        proxied.proxy.log.clear()
        begun = time.monotonic()
        with pytest.raises(TieredFSError) as caught:
            call()
        assert time.monotonic() - begun < 10
        assert type(caught.value) is StorageUnavailableError
        assert len(proxied.proxy.requests()) == 1


@pytest.mark.parametrize("asked", ["soon", "-1", "1.5", ""])
def test_a_wait_that_is_not_a_number_of_seconds_is_ignored(
    proxied: ProxiedBucket, waits: list[float], asked: str
) -> None:
    store = opened(proxied, RequestPolicy(backoff=0.1))
    proxied.proxy.add(status=503, headers={"Retry-After": asked}, times=1)
    assert store.get("key") == CONTENT
    assert len(waits) == 1
    assert 0 <= waits[0] <= 0.1


def test_waits_are_drawn_below_bounds_that_double(
    proxied: ProxiedBucket, waits: list[float]
) -> None:
    store = opened(proxied, RequestPolicy(attempts=7, backoff=0.5, max_backoff=4))
    proxied.proxy.add(status=503)
    for _ in range(5):
        with pytest.raises(StorageUnavailableError):
            store.get("key")
    bounds = [0.5, 1, 2, 4, 4, 4] * 5
    assert len(waits) == len(bounds)
    assert all(0 <= wait <= bound for wait, bound in zip(waits, bounds, strict=True))
    assert len(set(waits)) == len(waits)  # jitter: no two clients come together
