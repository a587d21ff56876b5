"""The default directory of the index cache."""

from pathlib import Path

import pytest

from tieredfs.cache import default_directory


def test_it_is_the_directory_that_the_setting_names() -> None:
    assert default_directory({"TIEREDFS_CACHE_DIR": "/a/b"}) == Path("/a/b")


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
