"""One owner of retries and time: the store's policy, seen from behind a proxy."""

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from objects.watched import CALLS, CONTENT, quick
from servers import ProxiedBucket
from servers.faults import Request
from support.deadlines import assert_all_end_by
from support.events import Events
from tieredfs import (
    ByteRange,
    DeadlineExceededError,
    ErrorKind,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestCounter,
    RequestPolicy,
    StorageUnavailableError,
)

pytestmark = pytest.mark.parametrize("proxied", ["s3", "gcs"], indirect=True)

VERBS = ("get", "get_range", "head", "put", "list", "delete")
READS = ("get", "get_range")

REQUESTS: dict[str, dict[str, tuple[str, str]]] = {
    "s3": {
        "get": ("GET", "/key"),
        "head": ("HEAD", "/key"),
        "put": ("PUT", "/key"),
        "list": ("GET", "list-type"),
        "delete": ("DELETE", "/other"),
    },
    "gs": {
        "get": ("GET", "alt=media"),
        "head": ("GET", "/o/.*key"),
        "put": ("POST", "/upload/"),
        "list": ("GET", "/o[?]"),
        "delete": ("DELETE", "other"),
    },
}
"""How the proxy distinguishes each call: by its method and its target."""


@pytest.mark.parametrize("verb", VERBS)
def test_a_call_is_one_request(proxied: ProxiedBucket, verb: str) -> None:
    events = Events()
    store = quick(proxied, events)
    CALLS[verb](store)
    assert [(event.verb, event.attempts) for event in events] == [(verb, 1)]
    assert len(proxied.proxy.requests()) == 1
    assert events[0].outcome is None
    assert events[0].key in {"key", "other"}
    moved = {"get": len(CONTENT), "put": len(CONTENT), "get_range": 90_000 - 10}
    assert events[0].size == moved.get(verb, 0)


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_throttled_twice_comes_right(proxied: ProxiedBucket, verb: str) -> None:
    events = Events()
    store = quick(proxied, events)
    expected = CALLS[verb](store)
    proxied.proxy.clear()
    events.clear()
    proxied.proxy.add(status=503, times=2)
    assert CALLS[verb](store) == expected
    assert sum(event.attempts for event in events) == 3
    assert len(proxied.proxy.requests()) == 3
    assert events[0].outcome is None


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("verb", VERBS)
def test_a_lasting_failure_is_unavailable_after_the_attempts(
    proxied: ProxiedBucket, verb: str, status: int
) -> None:
    events = Events()
    store = quick(proxied, events, attempts=3)
    proxied.proxy.add(status=status)
    with pytest.raises(StorageUnavailableError) as caught:
        CALLS[verb](store)
    assert caught.value.retryable
    assert store.url in str(caught.value)
    tries = [(verb, 3, ErrorKind.STORAGE_UNAVAILABLE)]
    if verb == "put":  # which may have been done: one look
        tries.append(("head", 1, ErrorKind.STORAGE_UNAVAILABLE))
    assert [(e.verb, e.attempts, e.outcome) for e in events] == tries
    assert len(proxied.proxy.requests()) == events.requests


def test_what_is_throttled_by_429_is_tried_again(proxied: ProxiedBucket) -> None:
    store = quick(proxied, Events())
    proxied.proxy.add(status=429, times=2)
    assert store.get("key") == CONTENT


def test_a_policy_of_one_attempt_makes_one(proxied: ProxiedBucket) -> None:
    store = quick(proxied, Events(), attempts=1)
    proxied.proxy.add(status=503)
    with pytest.raises(StorageUnavailableError):
        store.get("key")
    assert len(proxied.proxy.requests()) == 1


@pytest.mark.parametrize(
    ("verb", "status", "error"),
    [
        *((verb, 403, PermissionDeniedError) for verb in VERBS),
        # That what is to be deleted is not found is success, but for S3's bucket.
        *((verb, 404, NotFoundError) for verb in VERBS if verb != "delete"),
    ],
)
def test_a_refusal_is_not_tried_again(
    proxied: ProxiedBucket, verb: str, status: int, error: type[Exception]
) -> None:
    events = Events()
    store = quick(proxied, events)
    proxied.proxy.add(status=status)
    with pytest.raises(error):
        CALLS[verb](store)
    assert len(proxied.proxy.requests()) == 1
    assert len(events) == 1


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("verb", READS)
def test_a_body_that_is_cut_is_fetched_again(
    proxied: ProxiedBucket, verb: str, reset: bool
) -> None:
    events = Events()
    store = quick(proxied, events)
    proxied.proxy.add("GET", cut_after=50_000, reset=reset, times=2)
    content = CONTENT if verb == "get" else CONTENT[10:90_000]
    assert CALLS[verb](store) == content
    assert len(proxied.proxy.requests()) == 3
    assert events[0].attempts == 3


@pytest.mark.parametrize("verb", READS)
def test_a_body_that_is_always_cut_is_unavailable(
    proxied: ProxiedBucket, verb: str
) -> None:
    store = quick(proxied, Events(), attempts=2)
    proxied.proxy.add("GET", cut_after=50_000)
    with pytest.raises(StorageUnavailableError, match="key"):
        CALLS[verb](store)


def test_a_connection_that_was_dropped_is_made_again(proxied: ProxiedBucket) -> None:
    store = quick(proxied, Events())
    proxied.proxy.drop_connections()
    assert store.get("key") == CONTENT


@pytest.mark.parametrize("verb", VERBS)
def test_every_request_is_counted_when_connections_are_reset(
    proxied: ProxiedBucket, verb: str
) -> None:
    events = Events()
    store = quick(proxied, events, attempts=3)
    proxied.proxy.add(cut_before=True)
    with pytest.raises(StorageUnavailableError):
        CALLS[verb](store)
    assert len(proxied.proxy.requests()) == sum(event.attempts for event in events)


def test_several_keys_are_counted_as_the_requests_they_take(
    proxied: ProxiedBucket, tmp_path: Path
) -> None:
    counter = RequestCounter()
    store = ObjectStore(proxied.url, proxied.storage_options, observer=counter)
    source = tmp_path / "source"
    source.write_bytes(CONTENT)
    store.put_file("a", source, overwrite=True)
    assert counter.requests == len(proxied.proxy.requests())
    store.copy("a", "b")
    assert counter.requests == len(proxied.proxy.requests())
    store.delete(["a", "b", "c"])
    assert counter.requests == len(proxied.proxy.requests())


@pytest.mark.parametrize("stall", [{"hang": 60}, {"hang_after": 40}], ids=str)
@pytest.mark.parametrize("verb", VERBS)
def test_a_connection_that_stalls_is_tried_again_within_the_deadline(
    proxied: ProxiedBucket, verb: str, stall: dict[str, int]
) -> None:
    events = Events()
    store = quick(proxied, events, deadline=2.5)
    expected = CALLS[verb](store)
    events.clear()
    proxied.proxy.add(times=1, **stall)  # type: ignore[arg-type] # not "when"
    assert CALLS[verb](store) == expected
    assert [(event.verb, event.attempts) for event in events] == [(verb, 2)]


def test_what_stalls_in_every_attempt_is_over_at_the_deadline_and_not_before(
    proxied: ProxiedBucket,
) -> None:
    events = Events()
    store = quick(proxied, events, deadline=5, attempts=3)
    proxied.proxy.add(hang=60)

    def fail() -> None:
        with pytest.raises(DeadlineExceededError, match="not done in 5 s") as caught:
            store.get("key")
        assert not caught.value.retryable

    assert min(assert_all_end_by(5, [fail])) >= 5
    assert [event.attempts for event in events] == [3]  # of 2.5, 1.25 and 1.25 seconds


def test_an_attempt_that_used_up_its_share_is_worth_another_call(
    proxied: ProxiedBucket,
) -> None:
    # No second one fits in: the wait before it is longer than what is left.
    store = quick(proxied, Events(), deadline=2.5, backoff=1e9, max_backoff=1e9)
    proxied.proxy.add(hang=60)
    with pytest.raises(StorageUnavailableError, match="one attempt was not") as caught:
        store.get("key")
    assert caught.value.retryable


def test_when_one_range_of_several_fails_no_other_sleeps_on(
    proxied: ProxiedBucket,
) -> None:
    events = Events()
    store = quick(proxied, events)
    store.put("key", bytes(2_000_000), overwrite=True)
    proxied.proxy.clear()
    events.clear()
    asked = {"Retry-After": "30"}
    proxied.proxy.add(when=begins_at(0), status=503, headers=asked, times=1)
    proxied.proxy.add(when=begins_at(1_000_000), status=403, delay=0.5)
    begun = time.monotonic()
    with pytest.raises(PermissionDeniedError, match="1000000"):
        store.get_ranges("key", [ByteRange(0, 9), ByteRange(1_000_000, 1_000_009)])
    while len(events) < 2:
        assert time.monotonic() - begun < 20, "one sleeps on"
        threading.Event().wait(0.01)
    assert [event.attempts for event in events] == [1, 1]
    assert {event.outcome for event in events} == {
        ErrorKind.PERMISSION_DENIED,
        ErrorKind.DEADLINE_EXCEEDED,
    }


def begins_at(start: int) -> Callable[[Request], bool]:
    """Return what identifies the request for a range."""
    return lambda request: request.range.startswith(f"bytes={start}-")


class TestDeadline:
    LIMIT = 2.5

    def fail(self, store: ObjectStore, verb: str) -> None:
        with pytest.raises(DeadlineExceededError) as caught:
            CALLS[verb](store)
        assert isinstance(caught.value, TimeoutError)
        assert store.url in str(caught.value)

    def test_what_hangs_ends_by_the_deadline(self, proxied: ProxiedBucket) -> None:
        events = Events()
        store = quick(proxied, events, deadline=self.LIMIT)
        proxied.proxy.add(hang=60)
        calls = [partial(self.fail, store, verb) for verb in VERBS]
        assert min(assert_all_end_by(self.LIMIT, calls)) >= self.LIMIT
        assert {event.outcome for event in events} == {ErrorKind.DEADLINE_EXCEEDED}

    def test_the_deadline_covers_all_tries_together(
        self, proxied: ProxiedBucket
    ) -> None:
        store = quick(proxied, Events(), deadline=self.LIMIT)
        for verb in VERBS:
            if verb == "get_range":
                continue  # differs from "get" only by its range header
            method, path = REQUESTS[proxied.url.partition(":")[0]][verb]
            proxied.proxy.add(method, path, status=503, delay=1.0, times=1)
            proxied.proxy.add(method, path, hang=60)
        verbs = [verb for verb in VERBS if verb != "get_range"]
        assert_all_end_by(
            self.LIMIT, [partial(self.fail, store, verb) for verb in verbs]
        )

    def test_failing_again_and_again_ends_by_the_deadline(
        self, proxied: ProxiedBucket
    ) -> None:
        store = quick(proxied, Events(), attempts=10_000, deadline=0.5)
        proxied.proxy.add(status=503)

        def fail() -> None:
            with pytest.raises((StorageUnavailableError, DeadlineExceededError)):
                store.get("key")

        assert_all_end_by(0.5, [fail])

    def test_it_covers_all_parts_of_a_call(self, proxied: ProxiedBucket) -> None:
        store = quick(proxied, Events(), deadline=0.8)
        backend = store._requests.backend("", "")
        # One part after the other, so that few of them take long.
        backend.concurrency = backend.max_delete_keys = 1  # type: ignore[misc]
        backend.max_gap_bytes = 0  # type: ignore[misc]
        proxied.proxy.latency = 0.3
        parts = [ByteRange(n, n + 9) for n in range(0, 50, 10)]
        calls = (
            partial(store.get_ranges, "key", parts),
            partial(store.delete, ["a", "b", "c", "d", "e"]),
        )

        def fail(call: partial[Any]) -> None:
            with pytest.raises(DeadlineExceededError):
                call()

        for call in calls:
            assert_all_end_by(0.8, [partial(fail, call)])

    def test_a_slow_body_is_a_hang_too(self, proxied: ProxiedBucket) -> None:
        store = quick(proxied, Events(), deadline=0.5)
        proxied.proxy.bandwidth = 1000
        self.fail(store, "get")

    def test_the_store_is_as_good_as_before_when_a_hang_is_over(
        self, proxied: ProxiedBucket
    ) -> None:
        url, options, proxy = proxied
        store = ObjectStore(url, options)
        hasty = store.with_policy(RequestPolicy(deadline=0.2))
        proxy.add(hang=60)  # even the request that connects
        with pytest.raises(DeadlineExceededError):
            hasty.get("key")
        proxy.clear()
        store.put("key", CONTENT, overwrite=True)
        assert store.get("key") == CONTENT

    def test_an_object_that_takes_longer_than_its_share_is_not_cut_short(
        self, proxied: ProxiedBucket
    ) -> None:
        store = quick(proxied, Events(), deadline=30)
        proxied.proxy.latency = 0.2
        assert store.get("key") == CONTENT


def test_the_wait_grows_between_tries(
    proxied: ProxiedBucket, waits: list[float]
) -> None:
    store = quick(proxied, Events(), attempts=6, backoff=0.5, max_backoff=2.0)
    proxied.proxy.add(status=503)
    with pytest.raises(StorageUnavailableError):
        store.get("key")
    assert len(waits) == 5  # before the second try too
    bounds = [0.5, 1.0, 2.0, 2.0, 2.0]
    assert all(wait <= bound for wait, bound in zip(waits, bounds, strict=True))
