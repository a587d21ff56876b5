"""HDFS over HTTP, seen from behind a proxy."""

import json
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from objects.watched import CALLS, CONTENT, quick
from servers import FaultProxy, Fleet, ProxiedBucket, WebHDFS, webhdfs
from servers.faults import Faults
from support.deadlines import assert_all_end_by_the_deadline
from support.events import Events
from support.prerequisites import server_of
from support.stores import files_of
from tieredfs import (
    AlreadyExistsError,
    DeadlineExceededError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    RequestPolicy,
    StorageFullError,
    StorageUnavailableError,
    TieredFSError,
    UnsupportedOperationError,
)
from tieredfs.objects import StoreCapability

ON_THE_WIRE = {
    "get": 2,  # the name node, and the data node it names
    "get_range": 2,
    "head": 1,
    "put": 3,  # to both nodes, and a rename
    "create": 3,
    "copy": 5,
    "list": 1,
    "delete": 2,  # of what is not there, as it is asked
}


@pytest.fixture
def proxied(fleet: Fleet) -> Iterator[ProxiedBucket]:
    """A folder reached through a proxy of this test's own."""
    with FaultProxy(server_of("webhdfs", fleet).port) as proxy:
        yield ProxiedBucket(*fleet.place("webhdfs", proxy.url), proxy)


@pytest.fixture
def folder(proxied: ProxiedBucket, fleet: Fleet) -> Path:
    """Where the server keeps the objects of the place."""
    server = server_of("webhdfs", fleet)
    assert isinstance(server, WebHDFS)
    return server.root / urlsplit(proxied.url).path.strip("/")


@pytest.mark.parametrize("verb", CALLS)
def test_a_call_takes_as_few_requests_as_the_protocol_allows(
    proxied: ProxiedBucket, verb: str
) -> None:
    events = Events()
    CALLS[verb](quick(proxied, events))
    assert [event.attempts for event in events] == [1]
    assert len(proxied.proxy.requests()) == ON_THE_WIRE[verb]


@pytest.mark.parametrize(
    "fault", [{"status": 503, "times": 2}, {"cut_before": True, "times": 2}], ids=str
)
@pytest.mark.parametrize("verb", CALLS)
def test_what_fails_twice_comes_right(
    proxied: ProxiedBucket, verb: str, fault: Faults
) -> None:
    events = Events()
    store = quick(proxied, events)
    proxied.proxy.add(**fault)
    CALLS[verb](store)
    assert store.get("key") == CONTENT
    assert events[0].attempts in {2, 3}  # taking back a try may fail in its place


@pytest.mark.parametrize("verb", ["put", "create", "delete", "copy"])
def test_a_reply_that_is_lost_does_no_harm(
    proxied: ProxiedBucket, verb: str, folder: Path
) -> None:
    store = quick(proxied, Events())
    for operation in ("op=RENAME", "op=CREATE", "op=DELETE"):
        store.delete(["new"])
        proxied.proxy.add(path=operation, lose_reply=True, times=1)
        CALLS[verb](store)
        assert store.get("key") == CONTENT
    kept = {key: data for key, data in files_of(folder).items() if key[0] != "."}
    assert set(kept.values()) == {CONTENT}


@pytest.mark.parametrize("verb", ["put", "create", "copy"])
def test_nothing_appears_any_more_when_time_is_up(
    proxied: ProxiedBucket, verb: str
) -> None:
    store = quick(proxied, Events(), deadline=2.0)
    # Nor is what the put would have made there already.
    store.put("key", b"before", overwrite=True)
    proxied.proxy.clear()
    proxied.proxy.add(path="op=CREATE", delay=1.4)  # two requests
    with pytest.raises(DeadlineExceededError):
        CALLS[verb](store)
    end = time.monotonic() + 10
    while not proxied.proxy.requests("DELETE"):  # what was half written
        assert time.monotonic() < end
        threading.Event().wait(0.01)
    assert not [r for r in proxied.proxy.requests() if "op=RENAME" in r.target]


def test_a_rename_that_was_given_up_does_not_land_after_a_later_put(
    proxied: ProxiedBucket,
) -> None:
    store = quick(proxied, Events(), deadline=20.0)
    store.put("key", b"first", overwrite=True)
    proxied.proxy.clear()
    proxied.proxy.add(path="op=RENAME", hang=1.5, times=1)
    hasty = store.with_policy(RequestPolicy(attempts=1, deadline=0.7))
    with pytest.raises(DeadlineExceededError):
        hasty.put("key", b"late", overwrite=True)
    store.put("key", b"later", overwrite=True)
    renames = [r for r in proxied.proxy.requests() if "op=RENAME" in r.target]
    end = time.monotonic() + 10
    while not renames[0].status:  # the server has seen it by then
        assert time.monotonic() < end
        threading.Event().wait(0.01)
    assert store.get("key") == b"later"


@pytest.mark.parametrize("verb", CALLS)
def test_a_lasting_failure_is_unavailable(proxied: ProxiedBucket, verb: str) -> None:
    events = Events()
    store = quick(proxied, events, attempts=3)
    proxied.proxy.add(status=500)
    with pytest.raises(StorageUnavailableError, match="webhdfs://"):
        CALLS[verb](store)
    assert events[0].attempts == 3


@pytest.mark.parametrize("verb", ["get", "get_range"])
@pytest.mark.parametrize("reset", [False, True])
def test_a_body_that_is_cut_is_fetched_again(
    proxied: ProxiedBucket, verb: str, reset: bool
) -> None:
    store = quick(proxied, Events())
    proxied.proxy.add("GET", "datanode", cut_after=50_000, reset=reset, times=2)
    content = CONTENT if verb == "get" else CONTENT[10:90_000]
    assert CALLS[verb](store) == content


@pytest.mark.parametrize("name", ["DSQuotaExceeded", "NSQuotaExceeded"])
def test_a_used_up_quota_is_raised_immediately(
    proxied: ProxiedBucket, name: str
) -> None:
    events = Events()
    store = quick(proxied, events)
    remote = {"exception": f"{name}Exception", "message": "The quota is exceeded"}
    body = json.dumps({"RemoteException": remote})
    headers = {"Content-Type": "application/json"}
    proxied.proxy.add("PUT", "op=CREATE", status=403, headers=headers, body=body)
    with pytest.raises(StorageFullError, match="The quota is exceeded"):
        CALLS["put"](store)
    assert [event.attempts for event in events] == [1]


def test_what_hangs_ends_by_the_deadline(proxied: ProxiedBucket) -> None:
    store = quick(proxied, Events())
    proxied.proxy.add(hang=60)
    assert_all_end_by_the_deadline(store, CALLS.values())
    proxied.proxy.clear()
    assert store.get("key") == CONTENT


def test_a_slow_body_is_a_hang_too(proxied: ProxiedBucket) -> None:
    store = quick(proxied, Events())
    proxied.proxy.bandwidth = 1000
    assert_all_end_by_the_deadline(store, [CALLS["get"], CALLS["get_range"]])


@pytest.mark.parametrize(
    ("status", "error"), [(401, PermissionDeniedError), (403, PermissionDeniedError)]
)
@pytest.mark.parametrize("verb", CALLS)
def test_a_refusal_is_not_tried_again(
    proxied: ProxiedBucket, verb: str, status: int, error: type[Exception]
) -> None:
    events = Events()
    store = quick(proxied, events)
    proxied.proxy.add(status=status)
    with pytest.raises(error):
        CALLS[verb](store)
    assert events[0].attempts == 1


def test_a_password_is_not_shown(proxied: ProxiedBucket) -> None:
    options = proxied.storage_options | {"password": "hunter2-secret"}
    store = ObjectStore(proxied.url, options)
    proxied.proxy.add(status=401)
    with pytest.raises(PermissionDeniedError) as caught:
        store.get("a")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_delegation_token_is_not_shown() -> None:
    options = {"token": "hunter2-secret"}
    policy = RequestPolicy(attempts=1)
    store = ObjectStore("webhdfs://127.0.0.1:9/x", options, policy=policy)
    with pytest.raises(StorageUnavailableError) as caught:
        store.get("a")
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_only_the_object_is_left_of_a_put(proxied: ProxiedBucket, folder: Path) -> None:
    store = ObjectStore(proxied.url, proxied.storage_options)
    store.put("a/b", b"1", overwrite=False)
    store.put("a/b", b"2", overwrite=True)
    with pytest.raises(AlreadyExistsError):
        store.put("a/b", b"3", overwrite=False)
    store.copy("a/b", "c")
    assert files_of(folder) == {"a/b": b"2", "c": b"2"}


def test_there_is_no_object_where_a_folder_is(
    proxied: ProxiedBucket, folder: Path
) -> None:
    store = ObjectStore(proxied.url, proxied.storage_options)
    store.put("folder/a", b"1", overwrite=False)
    for overwrite in (False, True):
        with pytest.raises(AlreadyExistsError, match="folder"):
            store.put("folder", b"2", overwrite=overwrite)
    for verb in (store.get, store.head):
        with pytest.raises(NotFoundError, match="folder"):
            verb("folder")
    store.delete(["folder"])
    assert files_of(folder) == {"folder/a": b"1"}


def test_folders_that_hold_no_object_are_not_listed(proxied: ProxiedBucket) -> None:
    store = ObjectStore(proxied.url, proxied.storage_options)
    for key in ("full/er/a", "gone/b"):
        store.put(key, b"1", overwrite=True)
    store.delete(["gone/b"])
    assert [entry.key for entry in store.list(delimiter="/")] == ["full/"]
    assert [entry.key for entry in store.list()] == ["full/er/a"]


REMOTE: list[tuple[int, str, str, type[TieredFSError]]] = [
    (403, "AccessControlException", "user may not", PermissionDeniedError),
    (403, "AccessControlException", "/a (is not a directory)", NotFoundError),
    (403, "ParentNotDirectoryException", "/a is not a directory", NotFoundError),
    (403, "StandbyException", "not active", StorageUnavailableError),
    (403, "RetriableException", "in safe mode", StorageUnavailableError),
    (400, "IllegalArgumentException", "a name like that", InvalidArgumentError),
    (400, "InvalidPathException", "a:b", InvalidArgumentError),
    (400, "UnsupportedOperationException", "no", UnsupportedOperationError),
    (403, "PathComponentTooLongException", "of 255", InvalidArgumentError),
    (404, "FileNotFoundException", "gone", NotFoundError),
    (500, "RuntimeException", "null", StorageUnavailableError),
]


@pytest.mark.parametrize(("status", "name", "said", "error"), REMOTE)
def test_what_the_name_node_throws_is_what_is_raised(
    proxied: ProxiedBucket,
    status: int,
    name: str,
    said: str,
    error: type[TieredFSError],
) -> None:
    body = f'{{"RemoteException": {{"exception": "{name}", "message": "{said}"}}}}'
    proxied.proxy.add(status=status, body=body)
    policy = RequestPolicy(attempts=1)
    store = ObjectStore(proxied.url, proxied.storage_options, policy=policy)
    with pytest.raises(error):
        store.head("a")


class TestGateway:
    """An HttpFS gateway ignores the options of a rename."""

    @pytest.fixture
    def gateway(
        self, proxied: ProxiedBucket, monkeypatch: pytest.MonkeyPatch
    ) -> ObjectStore:
        monkeypatch.setattr(webhdfs, "RENAME_OPTIONS", "none that it knows")
        return ObjectStore(proxied.url, proxied.storage_options)

    def test_it_still_decides_which_writer_is_first(self, gateway: ObjectStore) -> None:
        assert StoreCapability.EXCLUSIVE_CREATE in gateway.probe_capabilities()
        gateway.put("a", b"1", overwrite=False)
        with pytest.raises(AlreadyExistsError):
            gateway.put("a", b"2", overwrite=False)
        assert gateway.get("a") == b"1"

    def test_it_does_not_replace_and_reports_that(
        self, gateway: ObjectStore, folder: Path
    ) -> None:
        gateway.put("a", b"1", overwrite=True)
        with pytest.raises(UnsupportedOperationError):
            gateway.put("a", b"2", overwrite=True)
        assert files_of(folder) == {"a": b"1"}

    def test_nothing_is_moved_into_a_folder(
        self, gateway: ObjectStore, folder: Path
    ) -> None:
        gateway.put("folder/a", b"1", overwrite=True)
        for overwrite in (False, True):
            with pytest.raises(AlreadyExistsError):
                gateway.put("folder", b"2", overwrite=overwrite)
        assert files_of(folder) == {"folder/a": b"1"}
