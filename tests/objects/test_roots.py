"""No key leads out of the store."""

from pathlib import Path

import pytest

from logs import open_store
from servers import Bucket
from tieredfs import InvalidArgumentError, NotFoundError, ObjectStore, TieredFSError

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
    calls = {
        "get": lambda: store.get(key),
        "get_range": lambda: store.get_range(key, 0, 1),
        "put": lambda: store.put(key, b"1", overwrite=True),
        "put_file": lambda: store.put_file(key, outside, overwrite=True),
        "copy": lambda: store.copy(key, "c"),
        "copy to": lambda: store.copy("a/b", key),
        "head": lambda: store.head(key),
        "delete": lambda: store.delete(["a/b", key]),
    }
    with pytest.raises(InvalidArgumentError):
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
        assert [entry.key for entry in linked.list()] == ["inside"]
        assert [entry.key for entry in linked.list(delimiter="/")] == ["inside"]

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

    def test_the_root_itself_may_be_one(self, tmp_path: Path) -> None:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "real")
        store = ObjectStore(str(tmp_path / "link"))
        store.put("a/b", b"1", overwrite=False)
        assert store.get("a/b") == b"1"
        assert [entry.key for entry in store.list()] == ["a/b"]
        assert (tmp_path / "real" / "a" / "b").exists()
