"""The observer's events match the requests at the proxy, on every cloud."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from objects.small_parts import upload_in_parts
from servers import FaultProxy, ProxiedBucket
from servers.faults import Faults
from support.events import Events
from support.stores import CLOUDS
from tieredfs import (
    AlreadyExistsError,
    ByteRange,
    ObjectStore,
    RequestEvent,
    RequestPolicy,
    TieredFSError,
    TieredFSWarning,
)

CONTENT = os.urandom(300_000)
MIB = 1 << 20
LARGE = os.urandom(11 * MIB)
SPANS = [ByteRange(0, 10), ByteRange(290_000, 300_000)]
MANY = [f"many/{number}" for number in range(30)]

Call = Callable[[ObjectStore, Path], Any]

CALLS: Mapping[str, tuple[Call, int]] = {
    "get": (lambda store, _: store.get("key"), len(CONTENT)),
    "get_range": (lambda store, _: store.get_range("key", 5, 9000), 8995),
    "get_ranges": (lambda store, _: store.get_ranges("key", SPANS), 10_010),
    "head": (lambda store, _: store.head("key"), 0),
    "put": (lambda store, _: store.put("a", CONTENT, overwrite=True), len(CONTENT)),
    "create": (
        lambda store, _: store.put("new", CONTENT, overwrite=False),
        len(CONTENT),
    ),
    "put_file": (lambda store, p: store.put_file("a", p, overwrite=True), 1000),
    "put in parts": (
        lambda store, _: store.put("large", LARGE, overwrite=True),
        len(LARGE),
    ),
    "copy": (lambda store, _: store.copy("key", "b"), 0),
    "list": (lambda store, _: list(store.list()), 0),
    "delete": (lambda store, _: store.delete(["key"]), 0),
    "delete many": (lambda store, _: store.delete(MANY), 0),
}
"""What is called, and the bytes of content that it moves."""

FAULTS: Mapping[str, Faults] = {
    "calm": {"times": 0},
    "503 twice": {"status": 503, "times": 2},
    "lost twice": {"cut_before": True, "times": 2},
    "503 always": {"status": 503},
    "403": {"status": 403},
}


ENDING = ("503 always", "403")
"""Faults that end a call; the call waits for no other attempt, so none may run."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "file"
    path.write_bytes(bytes(1000))
    return path


def _limit(store: ObjectStore, concurrency: int) -> None:
    """Make parts small and ranges separate requests, and limit their concurrency."""
    backend = store._requests.backend("", "")
    limits = type(backend).parts
    assert limits is not None
    most = min(concurrency, limits.concurrency)  # some have an order
    upload_in_parts(store, above=5 * MIB, part_size=5 * MIB, concurrency=most)
    backend.concurrency = concurrency  # type: ignore[misc] # for this test
    backend.max_gap_bytes = 0  # type: ignore[misc] # for this test


def check(
    store: ObjectStore, events: Events, proxy: FaultProxy, source: Path, verb: str
) -> None:
    """Make every kind of trouble for one call, and compare both accounts of it."""
    call, size = CALLS[verb]
    calm = store.with_policy(RequestPolicy())
    for fault in FAULTS:
        proxy.clear()
        calm.put("key", CONTENT, overwrite=True)
        calm.delete(["new"])
        proxy.clear()
        events.clear()
        _limit(store, 1 if fault in ENDING else 8)
        proxy.add(**FAULTS[fault])
        outcome = None
        try:
            call(store, source)
        except TieredFSError as error:
            outcome = error.kind
        asked = [f"{r.method} {r.target}" for r in proxy.requests()]
        assert events.requests == len(asked), (verb, fault, events, asked)
        assert all(event.attempts and event.seconds >= 0 for event in events)
        outcomes = {event.outcome for event in events}
        assert outcome in outcomes, (verb, fault)
        if outcome is None:
            assert outcomes == {None}
            assert events.size == size, (verb, fault, events)


class MuteError(Exception):
    """One that cannot say what it is."""

    def __str__(self) -> str:
        return str(self.args[5])


class Mute:
    """An observer with two bugs."""

    def on_request(self, event: RequestEvent) -> None:
        raise MuteError(event.verb)


class Broken:
    """An observer with a bug."""

    def on_request(self, event: RequestEvent) -> None:
        raise RuntimeError(f"no place for {event.verb}")


def test_an_observer_that_fails_changes_no_outcome(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path), observer=Broken())
    with pytest.warns(TieredFSWarning, match=r"a/b failed: RuntimeError: .* put$"):
        store.put("a/b", b"1", overwrite=False)
    with pytest.warns(TieredFSWarning, match="no place for get"):
        assert store.get("a/b") == b"1"
    with (
        pytest.warns(TieredFSWarning, match="no place for put"),
        pytest.raises(AlreadyExistsError),
    ):
        store.put("a/b", b"2", overwrite=False)
    with pytest.warns(TieredFSWarning, match="no place for list"):
        assert [entry.key for entry in store.list()] == ["a/b"]


def test_an_observer_whose_error_has_no_text_changes_no_outcome(tmp_path: Path) -> None:
    store = ObjectStore(str(tmp_path), observer=Mute())
    with pytest.warns(TieredFSWarning, match=r"a/b failed: MuteError$"):
        store.put("a/b", b"1", overwrite=False)


@pytest.mark.parametrize("proxied", CLOUDS, indirect=True)
@pytest.mark.parametrize(
    "verbs", [list(CALLS)[:6], list(CALLS)[6:]], ids=["reading first", "the others"]
)
def test_events_and_the_wire_agree(
    proxied: ProxiedBucket, source: Path, verbs: list[str]
) -> None:
    events = Events()
    policy = RequestPolicy(attempts=3, backoff=0.001, max_backoff=0.01)
    url, options, proxy = proxied
    store = ObjectStore(url, options, policy=policy, observer=events)
    assert store.probe_capabilities()
    for verb in verbs:
        check(store, events, proxy, source, verb)
