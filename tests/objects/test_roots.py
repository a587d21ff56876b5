"""No key leads out of the store."""

import os
import pickle
import re
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from servers import Bucket
from support.stores import open_store
from tieredfs import (
    AlreadyExistsError,
    InvalidArgumentError,
    NotFoundError,
    ObjectStore,
    RequestCounter,
    TieredFSError,
    TieredFSWarning,
)

OUTSIDE = [
    "",
    ".",
    "..",
    "/",
    "/x",
    "../x",
    "a/../x",
    "a/../../x",
    "a/..",
    "./x",
    "a/./x",
    "a//b",
    "a/",
    "//",
    "a\0b",
    "a\\b",
    "..\\x",
]


@pytest.mark.parametrize("key", OUTSIDE)
@pytest.mark.parametrize(
    "verb",
    ["get", "get_range", "put", "put_file", "copy", "copy to", "head", "delete"],
)
def test_a_key_that_would_leave_the_root_is_refused(
    tmp_path: Path, verb: str, key: str
) -> None:
    outside = tmp_path / "x"
    outside.write_bytes(b"outside")
    store = ObjectStore(str(tmp_path / "root"))
    store.put("a/b", b"inside", overwrite=True)
    calls: dict[str, Any] = {
        "get": lambda: store.get(key),
        "get_range": lambda: store.get_range(key, 0, 1),
        "put": lambda: store.put(key, b"1", overwrite=True),
        "put_file": lambda: store.put_file(key, outside, overwrite=True),
        "copy": lambda: store.copy(key, "c"),
        "copy to": lambda: store.copy("a/b", key),
        "head": lambda: store.head(key),
        "delete": lambda: store.delete(["a/b", key]),
    }
    told = f"invalid key {key!r}: a key is relative, without empty"
    with pytest.raises(InvalidArgumentError, match=re.escape(told)):
        calls[verb]()
    assert [entry.key for entry in store.list()] == ["a/b"]
    assert outside.read_bytes() == b"outside"


@pytest.mark.parametrize("key", ["../x", "/x", "a//b", "", "."])
def test_such_a_key_is_refused_everywhere(place: Bucket, key: str) -> None:
    with pytest.raises(InvalidArgumentError):
        open_store(place).get(key)


class TestSymbolicLinks:
    @pytest.fixture
    def linked(self, tmp_path: Path) -> ObjectStore:
        """A store with links to a file, to a folder, to nothing, and in a circle."""
        root, secret = tmp_path / "root", tmp_path / "secret"
        secret.mkdir()
        (secret / "file").write_bytes(b"outside")
        root.mkdir()
        (root / "inside").write_bytes(b"inside")
        (root / "file").symlink_to(secret / "file")
        (root / "folder").symlink_to(secret)
        (root / "broken").symlink_to(tmp_path / "nothing")
        (root / "loop").symlink_to(root)
        return ObjectStore(str(root))

    def test_none_is_listed(self, linked: ObjectStore) -> None:
        with pytest.warns(TieredFSWarning, match="symbolic links are ignored"):
            assert [entry.key for entry in linked.list()] == ["inside"]
        with pytest.warns(TieredFSWarning, match="symbolic links are ignored"):
            assert [entry.key for entry in linked.list(delimiter="/")] == ["inside"]

    def test_those_of_many_folders_are_warned_of_once(self, tmp_path: Path) -> None:
        for number in range(1100):  # more than a page has
            folder = tmp_path / f"{number:04d}"
            folder.mkdir()
            (folder / "file").write_bytes(b"1")
            if number % 100 == 7:
                (folder / "link").symlink_to(tmp_path)
        store = ObjectStore(str(tmp_path))
        with pytest.warns(TieredFSWarning) as seen:
            assert len(list(store.list())) == 1100
        (warning,) = seen
        assert "/0007/link: symbolic links are ignored" in str(warning.message)

    @pytest.mark.parametrize("prefix", ["folder/", "loop/", "loop/inside", "folder/f"])
    def test_none_is_listed_through(self, linked: ObjectStore, prefix: str) -> None:
        assert list(linked.list(prefix)) == []
        assert list(linked.list(prefix, delimiter="/")) == []

    @pytest.mark.parametrize("key", ["file", "folder/file", "broken", "loop/inside"])
    @pytest.mark.parametrize("verb", ["get", "get_range", "head", "copy"])
    def test_none_is_read_through(
        self, linked: ObjectStore, verb: str, key: str
    ) -> None:
        arguments = {"copy": ("target",), "get_range": (0, 1)}.get(verb, ())
        with pytest.raises(NotFoundError):
            getattr(linked, verb)(key, *arguments)

    def test_none_is_written_through(self, linked: ObjectStore, tmp_path: Path) -> None:
        for key in ("folder/new", "folder/file"):
            with pytest.raises(TieredFSError):
                linked.put(key, b"changed", overwrite=True)
        linked.put("file", b"changed", overwrite=True)  # the name, not what it led to
        assert (tmp_path / "secret" / "file").read_bytes() == b"outside"
        assert [path.name for path in (tmp_path / "secret").iterdir()] == ["file"]

    def test_none_is_deleted_through(self, linked: ObjectStore, tmp_path: Path) -> None:
        linked.delete(["folder/file"])
        assert (tmp_path / "secret" / "file").exists()

    def test_a_delete_does_not_remove_one(
        self, linked: ObjectStore, tmp_path: Path
    ) -> None:
        linked.delete(["file", "folder", "broken", "loop"])
        assert (tmp_path / "secret" / "file").exists()
        assert {path.name for path in (tmp_path / "root").iterdir()} == {
            *("inside", "file", "folder", "broken", "loop")
        }

    def test_the_root_itself_may_be_one(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        store = ObjectStore(str(tmp_path / "link"))
        store.put("a/b", b"1", overwrite=False)
        assert store.get("a/b") == b"1"
        assert [entry.key for entry in store.list()] == ["a/b"]
        assert (tmp_path / "real" / "a" / "b").exists()


def test_only_a_regular_file_is_an_object(tmp_path: Path) -> None:
    """Opening a pipe would block, and reading a folder would never end."""
    store = ObjectStore(str(tmp_path))
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for key in ("pipe", "folder"):
        with pytest.raises(NotFoundError):
            store.get(key)
        with pytest.raises(NotFoundError):
            store.get_range(key, 0, 1)
        with pytest.raises(NotFoundError):
            store.head(key)
        with pytest.raises(NotFoundError):
            store.copy(key, "target")
    assert list(store.list()) == []
    store.delete(["pipe", "folder"])
    assert {path.name for path in tmp_path.iterdir()} == {"pipe", "folder"}


def test_a_disk_has_no_object_where_a_folder_is_nor_below_an_object(
    tmp_path: Path,
) -> None:
    store = ObjectStore(str(tmp_path))
    store.put("folder/a", b"1", overwrite=False)
    for key in ("folder", "folder/a/b", "folder/a/b/c"):
        for overwrite in (False, True):
            with pytest.raises(AlreadyExistsError, match=key):
                store.put(key, b"2", overwrite=overwrite)
    assert store.get("folder/a") == b"1"
    assert [path.name for path in tmp_path.rglob("*")] == ["folder", "a"]


def test_the_members_of_an_archive_are_its_objects(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "a.zip", "w") as archive:
        for key in ("a", "folder/b", "folder/deeper/c", "folder-x"):
            archive.writestr(key, key)
    counter = RequestCounter()
    store = ObjectStore(f"zip::file://{tmp_path}/a.zip", observer=counter)
    keys = ["a", "folder-x", "folder/b", "folder/deeper/c"]
    assert [entry.key for entry in store.list()] == keys
    assert counter.by_verb() == {"list": 1}
    for key in keys:
        assert store.get(key) == key.encode()
        assert store.head(key).size == len(key)
    folded = [entry.key for entry in store.list(delimiter="/")]
    assert folded == ["a", "folder-x", "folder/"]
    inner = ObjectStore(f"zip://folder::file://{tmp_path}/a.zip")
    assert [entry.key for entry in inner.list()] == ["b", "deeper/c"]
    assert inner.get("deeper/c") == b"folder/deeper/c"
    with pytest.raises(NotFoundError):
        inner.head("deeper")


def test_the_memory_of_the_process_is_a_store_too(tmp_path: Path) -> None:
    name = tmp_path.name  # as good as any that no other test has
    store = ObjectStore("memory://")
    store.put(f"{name}/a", b"1", overwrite=False)
    assert [entry.key for entry in store.list(f"{name}/")] == [f"{name}/a"]
    assert ObjectStore(f"memory://{name}").get("a") == b"1"
    store.delete([f"{name}/a"])
    assert list(store.list(f"{name}/")) == []


@pytest.mark.parametrize("url", ["root", "file://root"])
def test_a_store_stays_where_it_is_when_the_process_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    store = ObjectStore(url)
    pickled = pickle.dumps(store)
    monkeypatch.chdir("elsewhere")
    store.put("a", b"1", overwrite=False)
    pickle.loads(pickled).put("b", b"2", overwrite=False)  # noqa: S301 - our own
    assert {path.name for path in (tmp_path / "root").iterdir()} == {"a", "b"}
    assert list(Path().iterdir()) == []
    assert store.url.endswith(f"{tmp_path}/root")


def test_a_relative_store_needs_a_folder_to_begin_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(InvalidArgumentError, match="root is relative to a folder"):
        ObjectStore("root")
    assert ObjectStore(str(tmp_path)).url == str(tmp_path)


@pytest.mark.parametrize(
    ("url", "meant"),
    [
        ("s3:/bucket/archive", "s3://bucket/archive"),
        ("s3:bucket", "s3://bucket"),
        ("memory:/archive", "memory://archive"),
        ("dbfs2:/archive", "dbfs2://archive"),
        ("simplecache::gs:/bucket", "gs://bucket"),
    ],
)
def test_a_url_that_lacks_a_slash_is_not_taken_for_a_folder(
    url: str, meant: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=f"give {meant} for a URL"):
        ObjectStore(url)


def test_a_secret_in_a_url_without_slashes_is_not_shown() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        ObjectStore("sftp:/user:hunter2@host/folder")
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["./s3:/bucket", "12:30", "c:/logs", "a b:/c"])
def test_a_path_with_a_colon_is_a_path(name: str) -> None:
    assert ObjectStore(name).url == os.path.abspath(name)  # noqa: PTH100 - not resolved


def test_a_file_url_needs_no_second_slash(tmp_path: Path) -> None:
    ObjectStore(f"file:{tmp_path}").put("a", b"1", overwrite=False)
    assert (tmp_path / "a").read_bytes() == b"1"
