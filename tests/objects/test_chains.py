"""Chained URLs, and filesystems without a backend of their own."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fsspec import AbstractFileSystem, register_implementation
from fsspec.registry import _registry
from typing_extensions import override

from support.deadlines import assert_all_end_by_the_deadline
from support.events import Events
from support.stores import make_place, open_store
from tieredfs import (
    AlreadyExistsError,
    InvalidArgumentError,
    ObjectStore,
    RequestPolicy,
    StorageUnavailableError,
    TieredFSWarning,
)
from tieredfs.objects.backends.chain import (
    ResolvedUrl,
    absolute,
    first_protocol,
    undo_wrappers,
)

CACHES = ("simplecache", "filecache", "blockcache", "cached")


@pytest.mark.parametrize(
    ("url", "undone"),
    [
        ("s3://b/x", "s3://b/x"),
        ("/a/path", "/a/path"),
        ("dir://x::s3://b", "s3://b/x"),
        ("dir://x/y/::s3://b/z/", "s3://b/z/x/y"),
        ("dir::s3://b", "s3://b"),
        ("dir://x::/data/a", "/data/a/x"),
        ("dir://x::memory://", "memory://x"),
        ("dir://x::dir://y::memory://z", "memory://z/y/x"),
        ("dir://x::zip::file:///a.zip", "zip://x::file:///a.zip"),
        ("dir://x::zip://y::file:///a.zip", "zip://y/x::file:///a.zip"),
        ("simplecache::s3://b/x", "s3://b/x"),
        ("filecache://::s3://b/x", "s3://b/x"),
        ("dir://x::simplecache::s3://b", "s3://b/x"),
        ("simplecache::zip://x::s3://b/a.zip", "zip://x::s3://b/a.zip"),
        ("zip::simplecache::s3://b/a.zip", "zip::simplecache::s3://b/a.zip"),
    ],
)
def test_a_link_that_only_wraps_is_undone(url: str, undone: str) -> None:
    assert undo_wrappers(url, {}).url == undone


def test_the_options_of_what_is_left_stay() -> None:
    options = {
        "cache_storage": "/tmp/cache",  # noqa: S108 - never made
        "dir": {"asynchronous": False},
        "zip": {"mode": "r"},
        "s3": {"key": "k"},
    }
    url = "simplecache::dir://x::zip::s3://b/a.zip"
    place = undo_wrappers(url, options)
    assert place == ResolvedUrl(
        "zip://x::s3://b/a.zip", {"mode": "r", "s3": {"key": "k"}}, ("simplecache",)
    )


@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("rel", "{}/rel"),
        ("zip", "{}/zip"),
        ("./rel/", "{}/rel"),
        (".", "{}"),
        ("a b/#x?", "{}/a b/#x?"),
        ("C:/a", "{}/C:/a"),
        ("file:rel", "{}/rel"),
        ("file://rel/x", "file://{}/rel/x"),
        ("local://rel", "local://{}/rel"),
        ("~/x", "/home/kafka/x"),
        ("zip::a.zip", "zip::{}/a.zip"),
        ("zip://x::file://a.zip", "zip://x::file://{}/a.zip"),
        ("dir://x::data/a", "dir://x::{}/data/a"),
    ],
)
def test_a_relative_path_begins_where_the_process_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, whole: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/kafka")
    assert absolute(url) == whole.format(tmp_path)


@pytest.mark.parametrize(
    "url",
    [
        *("/", "/a/../b/", "file:///a/", "local:///a", "memory://x", "memory://"),
        *("s3://b/x", "http://host/a", "zip::s3://b/a.zip", "zip::/a.zip", "zip::a"),
        *("simplecache::memory://x", "zip::file", "zip::", "no-such://x"),
    ],
)
def test_any_other_url_stays_as_it_is(url: str) -> None:
    assert absolute(url) == url


def test_a_folder_that_looks_like_a_chain_is_still_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a::b").mkdir()
    monkeypatch.chdir(tmp_path / "a::b")
    ObjectStore("rel").put("x", b"1", overwrite=False)
    assert (tmp_path / "a::b" / "rel" / "x").read_bytes() == b"1"


@pytest.mark.parametrize(
    ("url", "protocol"),
    [
        ("s3://b", "s3"),
        ("zip::s3://b", "zip"),
        ("zip", "file"),
        ("/a/b", "file"),
        ("C:/a", "file"),
        ("a/b::s3://b", "file"),
    ],
)
def test_the_first_link_gives_the_protocol(url: str, protocol: str) -> None:
    assert first_protocol(url) == protocol


@pytest.mark.parametrize("kind", ["local", "memory", "s3", "sftp"])
def test_a_folder_in_front_changes_nothing(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    place = make_place(kind, request, tmp_path)
    protocol = place.url.partition("://")[0] if kind != "local" else "file"
    options = {protocol: place.storage_options}
    events = Events()
    store = ObjectStore(f"dir://x/y::{place.url}", options, observer=events)
    assert store.probe_capabilities() == open_store(place).probe_capabilities()
    events.clear()
    store.put("a/b", b"1", overwrite=False)
    with pytest.raises(AlreadyExistsError):
        store.put("a/b", b"2", overwrite=False)
    assert store.get_range("a/b", 0, 1) == b"1"
    assert [entry.key for entry in store.list()] == ["a/b"]
    assert {event.attempts for event in events} == {1}
    assert [entry.key for entry in open_store(place).list()] == ["x/y/a/b"]


@pytest.mark.parametrize("cache", CACHES)
def test_a_cache_is_ignored_with_a_warning(
    request: pytest.FixtureRequest, tmp_path: Path, cache: str
) -> None:
    place = make_place("memory", request, tmp_path)
    store = ObjectStore(f"{cache}::{place.url}", {"cache_storage": str(tmp_path)})
    with pytest.warns(TieredFSWarning, match=f"{cache} is ignored"):
        store.put("a", b"1", overwrite=True)
    assert store.get("a") == b"1"
    open_store(place).put("a", b"2", overwrite=True)
    assert store.get("a") == b"2"
    assert list(tmp_path.iterdir()) == []


def test_a_cache_with_a_path_of_its_own_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="simplecache"):
        ObjectStore("simplecache://x::memory://y").get("a")


def test_a_path_that_would_be_taken_for_a_chain_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="a path cannot hold '::'"):
        ObjectStore(f"{tmp_path}/a::b").put("a", b"1", overwrite=True)
    assert list(tmp_path.iterdir()) == []


class Stubborn(AbstractFileSystem):  # type: ignore[misc] # it has no types
    """Blocks on request, and is unusable after an error; a new one works again."""

    protocol = "stubborn"
    made: ClassVar[list["Stubborn"]]
    files: ClassVar[dict[str, bytes]]
    connects: threading.Event

    def __init__(self, **options: object) -> None:
        super().__init__(**options)
        self.connects.wait()
        self.works = threading.Event()
        self.works.set()
        self.dead = False
        self.made.append(self)

    def _work(self) -> None:
        self.works.wait()
        if self.dead:
            raise ConnectionResetError("and it stays so")

    @override
    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: object
    ) -> bytes:
        self._work()
        if path not in self.files:
            raise FileNotFoundError(path)
        return self.files[path][start:end]

    @override
    def pipe_file(self, path: str, value: bytes, mode: str = "", **_: object) -> None:
        self._work()
        self.files[path] = value

    @override
    def rm_file(self, path: str) -> None:
        self._work()
        self.files.pop(path, None)

    @override
    def cp_file(self, path1: str, path2: str, **_: object) -> None:
        self._work()
        self.files[path2] = self.files[path1]

    @override
    def ls(self, path: str, detail: bool = True, **_: object) -> list[Any]:
        self._work()
        return [
            {"name": name, "size": len(content), "type": "file"}
            for name, content in self.files.items()
            if name.startswith(f"{path}/")
        ]

    @override
    def info(self, path: str, **_: object) -> dict[str, Any]:
        self._work()
        if path not in self.files:
            raise FileNotFoundError(path)
        return {"name": path, "size": len(self.files[path]), "type": "file"}


VERBS: dict[str, Callable[[ObjectStore], Any]] = {
    "get": lambda store: store.get("key"),
    "get_range": lambda store: store.get_range("key", 1, 2),
    "head": lambda store: store.head("key"),
    "put": lambda store: store.put("key", b"123", overwrite=True),
    "copy": lambda store: store.copy("key", "copy"),
    "list": lambda store: [entry.key for entry in store.list()],
    "delete": lambda store: store.delete(["other"]),
}


@pytest.fixture
def stubborn() -> Iterator[type[Stubborn]]:
    class Own(Stubborn):
        """This test's: a thread that an earlier one left behind has another."""

        made: ClassVar[list[Stubborn]] = []
        files: ClassVar[dict[str, bytes]] = {"root/key": b"123"}
        connects = threading.Event()

    register_implementation("stubborn", Own)
    Own.connects.set()
    yield Own
    Own.connects.set()
    for each in Own.made:
        each.works.set()
    _registry.pop("stubborn")


def test_a_call_that_blocks_is_left_behind_and_the_next_is_on_a_new_filesystem(
    stubborn: type[Stubborn],
) -> None:
    store = ObjectStore("stubborn://root")
    assert store.get("key") == b"123"
    stubborn.made[0].works.clear()
    calls = [call for verb, call in VERBS.items() if verb != "put"]
    assert_all_end_by_the_deadline(store, calls)
    assert store.get("key") == b"123"
    assert len(stubborn.made) == 2


def test_a_put_that_blocks_is_asked_about_on_a_new_filesystem(
    stubborn: type[Stubborn],
) -> None:
    store = ObjectStore("stubborn://root")
    store.put("key", b"1234", overwrite=True)
    once = store.with_policy(RequestPolicy(attempts=1, deadline=1))
    stubborn.made[0].works.clear()
    once.put("key", b"1234", overwrite=True)  # which is what is there
    assert len(stubborn.made) == 2


@pytest.mark.parametrize("verb", VERBS)
def test_one_that_is_dead_is_made_anew(stubborn: type[Stubborn], verb: str) -> None:
    events = Events()
    policy = RequestPolicy(backoff=0.001)
    store = ObjectStore("stubborn://root", policy=policy, observer=events)
    VERBS["get"](store)
    stubborn.made[0].dead = True
    VERBS[verb](store)
    assert events[1].attempts == 2
    assert len(stubborn.made) == 2


def test_one_that_answers_with_an_error_is_kept(stubborn: type[Stubborn]) -> None:
    store = ObjectStore("stubborn://root")
    for _ in range(2):
        with pytest.raises(FileNotFoundError):
            store.get("missing")
    assert len(stubborn.made) == 1


def test_one_that_never_connects_is_given_up_by_the_deadline(
    stubborn: type[Stubborn],
) -> None:
    stubborn.connects.clear()
    store = ObjectStore("stubborn://root")
    assert_all_end_by_the_deadline(store, VERBS.values())


def test_one_that_always_dies_is_unavailable_after_the_attempts(
    stubborn: type[Stubborn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stubborn, "_work", _die)
    policy = RequestPolicy(attempts=3, backoff=0.001)
    with pytest.raises(StorageUnavailableError, match="stubborn://root/key"):
        ObjectStore("stubborn://root", policy=policy).get("key")
    assert len(stubborn.made) == 3


def _die(_: Stubborn) -> None:
    raise ConnectionResetError
