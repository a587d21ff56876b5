"""SFTP, on the server of asyncssh and on that of OpenSSH."""

import pickle
import sys
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import NamedTuple

import asyncssh
import pytest
from fsspec.config import conf
from typing_extensions import override

from servers import Bucket, Fleet, Relay, Sftp
from support.deadlines import assert_all_end_by, assert_all_end_by_the_deadline
from support.prerequisites import server_of
from support.stores import files_of
from tieredfs import (
    AlreadyExistsError,
    NotFoundError,
    ObjectStore,
    PermissionDeniedError,
    PluginNotInstalledError,
    RequestPolicy,
    StorageUnavailableError,
    UnsupportedOperationError,
)
from tieredfs.objects import StoreCapability

CONTENT = bytes(range(256)) * 8192
QUICK = RequestPolicy(backoff=0.001, max_backoff=0.01)

VERBS: dict[str, Callable[[ObjectStore], object]] = {
    "get": lambda store: store.get("key"),
    "get_range": lambda store: store.get_range("key", 10, 1_000_000),
    "head": lambda store: store.head("key"),
    "put": lambda store: store.put("key", CONTENT, overwrite=True),
    "create": lambda store: store.put("new", CONTENT, overwrite=False),
    "copy": lambda store: store.copy("key", "copy"),
    "list": lambda store: [entry.key for entry in store.list()],
    "delete": lambda store: store.delete(["other"]),
}


class Relayed(NamedTuple):
    """A folder on a server, reached through a relay."""

    place: Bucket
    relay: Relay
    folder: Path

    def store(self, policy: RequestPolicy = QUICK) -> ObjectStore:
        return ObjectStore(*self.place, policy=policy)


@pytest.fixture(params=["sftp", "sftp-openssh"])
def relayed(request: pytest.FixtureRequest, fleet: Fleet) -> Iterator[Relayed]:
    server = server_of(request.param, fleet)
    assert isinstance(server, Sftp)
    with Relay(server.port) as relay:
        place = fleet.place(request.param, relay.url)
        path = place.url.split(f":{relay.port}{server.above}/")[1]
        yield Relayed(place, relay, server.root / path)


def test_it_is_declared_what_it_can_do(relayed: Relayed) -> None:
    assert relayed.store().probe_capabilities() == {
        StoreCapability.WRITE,
        StoreCapability.WHOLE_OBJECTS,
        StoreCapability.EXCLUSIVE_CREATE,
        StoreCapability.RANGE_READ,
    }


def test_exactly_one_of_sixteen_wins_on_connections_of_their_own(
    relayed: Relayed,
) -> None:
    stores = [relayed.store() for _ in range(4)]
    ready = Barrier(16)

    def create(number: int) -> int | None:
        ready.wait()
        try:
            stores[number % 4].put(key, bytes([number]) * 999, overwrite=False)
        except AlreadyExistsError:
            return None
        return number

    with ThreadPoolExecutor(16) as pool:
        for key in (f"k/{number}" for number in range(10)):
            won = [each for each in pool.map(create, range(16)) if each is not None]
            assert len(won) == 1
            assert stores[0].get(key) == bytes(won) * 999
    assert len(files_of(relayed.folder)) == 10


def test_a_range_moves_its_own_bytes_only(relayed: Relayed) -> None:
    store = relayed.store()
    store.put("key", CONTENT, overwrite=True)
    before = relayed.relay.moved
    assert store.get_range("key", 1_000_000, 1_001_000) == CONTENT[1_000_000:1_001_000]
    assert relayed.relay.moved - before < 5_000


def test_sixteen_threads_share_a_connection(relayed: Relayed) -> None:
    store = relayed.store()
    store.put("key", CONTENT, overwrite=True)

    def work(number: int) -> None:
        start = number * 1000
        assert store.get_range("key", start, start + 999) == CONTENT[start:][:999]
        store.put(f"own/{number}", bytes([number]), overwrite=False)
        assert store.get(f"own/{number}") == bytes([number])

    with ThreadPoolExecutor(16) as pool:
        assert len(list(pool.map(work, range(64)))) == 64
    assert relayed.relay.connections == 1


@pytest.mark.parametrize("verb", VERBS)
def test_a_connection_that_was_dropped_is_made_again(
    relayed: Relayed, verb: str
) -> None:
    store = relayed.store()
    store.put("key", CONTENT, overwrite=True)
    expected = VERBS["get"](store)
    relayed.relay.drop()
    VERBS[verb](store)
    assert relayed.relay.connections == 2
    assert store.get("key") == expected


def test_a_connection_that_stops_answering_is_given_up_and_made_anew_in_time(
    relayed: Relayed,
) -> None:
    store = relayed.store()
    store.put("key", CONTENT, overwrite=True)
    assert StoreCapability.EXCLUSIVE_CREATE in store.probe_capabilities()
    patient = store.with_policy(RequestPolicy(deadline=6))
    relayed.relay.hang()
    assert_all_end_by(6, [partial(call, patient) for call in VERBS.values()])
    assert store.get("key") == CONTENT
    assert relayed.relay.connections == 2


def test_a_server_that_never_answers_is_given_up_by_the_deadline_by_each_thread(
    relayed: Relayed,
) -> None:
    relayed.relay.stall = True
    assert_all_end_by_the_deadline(relayed.store(), [*VERBS.values()] * 2)


def test_a_client_that_cannot_be_stopped_while_it_connects_is_left_behind(
    relayed: Relayed, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = Event()
    monkeypatch.setattr("sshfs.SSHFileSystem.__init__", lambda *_, **__: rest.wait(60))
    assert_all_end_by_the_deadline(relayed.store(), VERBS.values())
    rest.set()


def test_a_reader_of_a_connection_that_is_cut_never_gets_part_of_an_object(
    relayed: Relayed,
) -> None:
    store = relayed.store()
    store.put("key", CONTENT, overwrite=True)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            reads = [pool.submit(store.get, "key") for _ in range(4)]
            relayed.relay.drop()
            assert all(read.result() == CONTENT for read in reads)


def test_only_the_object_is_left_of_a_put(relayed: Relayed) -> None:
    store = relayed.store()
    store.put("a/b", b"1", overwrite=False)
    store.put("a/b", b"2", overwrite=True)
    with pytest.raises(AlreadyExistsError):
        store.put("a/b", b"3", overwrite=False)
    store.copy("a/b", "c")
    assert files_of(relayed.folder) == {"a/b": b"2", "c": b"2"}


def test_there_is_no_object_where_a_folder_is_nor_below_an_object(
    relayed: Relayed,
) -> None:
    store = relayed.store()
    store.put("folder/a", b"1", overwrite=False)
    for key in ("folder", "folder/a/b", "folder/a/b/c"):
        for overwrite in (False, True):
            with pytest.raises(AlreadyExistsError, match=key):
                store.put(key, b"2", overwrite=overwrite)
        for verb in (store.get, store.head):
            with pytest.raises(NotFoundError, match=key):
                verb(key)
        store.delete([key])
    assert list(store.list("folder/a/")) == []
    assert files_of(relayed.folder) == {"folder/a": b"1"}


def test_folders_that_hold_no_object_are_not_listed(relayed: Relayed) -> None:
    store = relayed.store()
    for key in ("full/er/a", "gone/b"):
        store.put(key, b"1", overwrite=True)
    store.delete(["gone/b"])
    (relayed.folder / "gone" / f".{0:016x}.tieredfs-tmp").touch()
    assert [entry.key for entry in store.list(delimiter="/")] == ["full/"]
    assert [entry.key for entry in store.list()] == ["full/er/a"]


def test_only_regular_files_are_listed(relayed: Relayed) -> None:
    store = relayed.store()
    store.put("a", b"1", overwrite=True)
    (relayed.folder / "link").symlink_to("/etc/passwd")
    (relayed.folder / "folder").symlink_to("/etc")
    assert [entry.key for entry in store.list()] == ["a"]
    assert [entry.key for entry in store.list(delimiter="/")] == ["a"]


def test_a_name_that_is_not_utf_8_is_a_key_too(relayed: Relayed) -> None:
    relayed.folder.mkdir(parents=True)
    (relayed.folder / "caf\udce9").write_bytes(b"1")
    store = relayed.store()
    assert [store.get(entry.key) for entry in store.list()] == [b"1"]


def test_what_a_writer_that_died_has_left_can_be_removed(relayed: Relayed) -> None:
    store = relayed.store()
    store.put("a/b", b"1", overwrite=True)
    left = f".{1:016x}.tieredfs-tmp"
    (relayed.folder / "a" / left).write_bytes(b"half")
    assert store.abort_uploads() == []
    assert store.abort_uploads(timedelta(seconds=-9)) == [f"a/{left}"]
    assert files_of(relayed.folder) == {"a/b": b"1"}


def test_a_store_goes_to_another_process_without_its_connection(
    relayed: Relayed,
) -> None:
    store = relayed.store()
    store.put("key", b"1", overwrite=True)
    again = pickle.loads(pickle.dumps(store))  # noqa: S301 - our own
    assert again.get("key") == b"1"


@pytest.mark.parametrize("verb", VERBS)
def test_a_wrong_password_is_permission_denied_and_not_shown(
    relayed: Relayed, verb: str
) -> None:
    options = relayed.place.storage_options | {"password": "wrong-secret-0123"}
    store = ObjectStore(relayed.place.url, options)
    with pytest.raises(PermissionDeniedError) as caught:
        VERBS[verb](store)
    assert "wrong-secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("verb", VERBS)
def test_a_server_that_is_not_there_is_unavailable(verb: str) -> None:
    policy = RequestPolicy(attempts=2, backoff=0.001)
    store = ObjectStore("sftp://127.0.0.1:9/x", {"username": "a"}, policy=policy)
    with pytest.raises(StorageUnavailableError, match="sftp://127"):
        VERBS[verb](store)


def test_without_sshfs_the_error_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "sshfs", None)
    with pytest.raises(PluginNotInstalledError, match=r"tieredfs\[sftp\]"):
        ObjectStore("sftp://host/x").get("a")


class NoLinks(asyncssh.SFTPServer):
    """As with many servers other than OpenSSH."""

    @override
    def link(self, oldpath: bytes, newpath: bytes) -> None:
        raise asyncssh.SFTPOpUnsupported("no hard links")


class NoRename(asyncssh.SFTPServer):
    """Knows the rename of the third version only."""

    @override
    def posix_rename(self, oldpath: bytes, newpath: bytes) -> None:
        raise asyncssh.SFTPOpUnsupported("no such extension")


def test_a_server_without_hard_links_cannot_tell_who_is_first(tmp_path: Path) -> None:
    with Sftp(tmp_path, NoLinks) as server:
        server.make_bucket("b")
        store = ObjectStore(*server.bucket("b"))
        assert StoreCapability.EXCLUSIVE_CREATE not in store.probe_capabilities()
        with pytest.raises(UnsupportedOperationError, match="exclusive"):
            store.put("a", b"1", overwrite=False)
        store.put("a", b"1", overwrite=True)
        assert store.get("a") == b"1"
    assert files_of(tmp_path) == {"b/a": b"1"}


def test_a_server_that_cannot_replace_a_file_is_an_error(tmp_path: Path) -> None:
    with Sftp(tmp_path, NoRename) as server:
        server.make_bucket("b")
        store = ObjectStore(*server.bucket("b"))
        with pytest.raises(UnsupportedOperationError, match="/b/a"):
            store.put("a", b"1", overwrite=True)
    assert files_of(tmp_path) == {}


@pytest.mark.parametrize("name", ["sftp", "ssh"])
def test_options_come_from_the_configuration_of_fsspec_too(
    relayed: Relayed, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    url, options = relayed.place
    monkeypatch.setitem(conf, name, {**options, "port": 1})
    store = ObjectStore(url)
    store.put("key", CONTENT, overwrite=True)
    assert relayed.store().get("key") == CONTENT
    monkeypatch.setitem(conf, name, {"username": "other", "password": "wrong"})
    assert ObjectStore(url, options).get("key") == CONTENT


@pytest.mark.parametrize("name", ["a?b", "a#b", "a?b#c?d", "a%3Fb"])
def test_a_folder_may_have_any_name(relayed: Relayed, name: str) -> None:
    url, options = relayed.place
    store = ObjectStore(f"{url}/{name}", options)
    store.put("key", CONTENT, overwrite=False)
    assert files_of(relayed.folder) == {f"{name}/key": CONTENT}
