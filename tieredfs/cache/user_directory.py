"""The directory of the index cache: the default one, or what a user gave."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from tieredfs.arguments import to_path
from tieredfs.errors import InvalidArgumentError
from tieredfs.objects.redact import redact_url

__all__ = ["CACHE_SETTING", "default_directory", "given_directory"]

CACHE_SETTING: Final = "TIEREDFS_CACHE_DIR"
"""The environment variable that names the directory; empty for no cache."""


def default_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the default directory of this user's index cache; None for no cache.

    It is the value of TIEREDFS_CACHE_DIR, with no cache if that is empty; if unset, a
    folder in the user's cache directory. A user without a home directory has no cache.

    Raises:
        InvalidArgumentError: The value is a URL.
    """
    setting = environment.get(CACHE_SETTING)
    if setting is not None:
        return given_directory(setting) if setting else None
    # The system may not know the user of a container: then platformdirs raises, or, in
    # older releases, returns "~/.cache" unexpanded.
    with suppress(RuntimeError):
        path = user_cache_path("tieredfs", appauthor=False) / "indexes"
        if path.is_absolute():
            return path
    return None


def given_directory(path: str | os.PathLike[str]) -> Path:
    """Return the path of a directory, with ``~`` expanded as a shell does.

    Raises:
        InvalidArgumentError: It is a URL, as the cache is on this machine, or not a
            path.
    """
    text = to_path(path, "cache directory")
    if "://" in text:
        msg = f"cache directory {redact_url(text)}: give a path on this machine"
        raise InvalidArgumentError(msg)
    with suppress(RuntimeError):  # the system does not know the user
        return Path(text).expanduser()
    return Path(text)
