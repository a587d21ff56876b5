"""Where indexes are kept when nobody says where."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

__all__ = ["CACHE_SETTING", "default_directory"]

CACHE_SETTING: Final = "TIEREDFS_CACHE_DIR"
"""The environment variable that names the directory; empty for none."""


def default_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the directory in which this user's indexes are kept; None for no cache.

    It is what TIEREDFS_CACHE_DIR says, nothing if that is empty, else a folder in the
    user's cache directory, as the system has it. A user who has no home has none.
    """
    told = environment.get(CACHE_SETTING)
    if told is not None:
        return Path(told) if told else None
    # A container may have a user whom the system does not know: then platformdirs
    # raises, or, in older releases, gives "~/.cache" as it stands.
    with suppress(RuntimeError):
        place = user_cache_path("tieredfs", appauthor=False) / "indexes"
        if place.is_absolute():
            return place
    return None
