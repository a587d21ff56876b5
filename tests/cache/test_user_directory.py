"""The default directory of the index cache."""

from pathlib import Path
from typing import Any

import pytest

from tieredfs import InvalidArgumentError, ObjectStore
from tieredfs.cache import RemoteIndexCache, default_directory, with_index_cache
from tieredfs.storage.layouts.single_object.layout import SingleObject


def test_it_is_the_directory_that_the_setting_names() -> None:
    assert default_directory({"TIEREDFS_CACHE_DIR": "/a/b"}) == Path("/a/b")


def test_a_home_directory_is_expanded(
    monkeypatch: pytest.MonkeyPatch, memory: ObjectStore, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_directory({"TIEREDFS_CACHE_DIR": "~/a"}) == tmp_path / "a"
    assert default_directory({"TIEREDFS_CACHE_DIR": "~no-such-user/a"}) == Path(
        "~no-such-user/a"
    )
    with RemoteIndexCache(SingleObject(memory), "~/b") as cache:
        assert cache.directory == tmp_path / "b"


@pytest.mark.parametrize("place", ["s3://key:secret@b/c", "file:///tmp/c", "x://"])
def test_a_url_is_no_directory(memory: ObjectStore, place: str) -> None:
    with pytest.raises(InvalidArgumentError, match="on this machine") as caught:
        default_directory({"TIEREDFS_CACHE_DIR": place})
    assert "secret" not in str(caught.value)
    with pytest.raises(InvalidArgumentError, match="on this machine"):
        with_index_cache(SingleObject(memory), place)


def test_an_empty_setting_is_nowhere() -> None:
    assert default_directory({"TIEREDFS_CACHE_DIR": ""}) is None


def test_without_a_setting_it_is_in_the_users_cache_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_directory({}) == tmp_path / "tieredfs" / "indexes"


def test_a_user_without_a_home_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    # No account has this number, as in containers that make one up.
    monkeypatch.setattr("os.getuid", lambda: 2**31 - 5)
    assert default_directory({}) is None


@pytest.mark.parametrize(
    "limits",
    [{"max_bytes": 64e6}, {"max_bytes": "1G"}, {"ttl": "5"}, {"ttl": 0}, {"ttl": -1}],
    ids=repr,
)
def test_a_limit_that_is_not_a_number_is_refused_before_the_directory_is_made(
    memory: ObjectStore, tmp_path: Path, limits: dict[str, Any]
) -> None:
    with pytest.raises(InvalidArgumentError, match=r"max_bytes|ttl"):
        RemoteIndexCache(SingleObject(memory), tmp_path / "cache", **limits)
    assert not (tmp_path / "cache").exists()
