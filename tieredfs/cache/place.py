"""The default directory of the index cache."""

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

__all__ = ["CACHE_SETTING", "default_directory"]

CACHE_SETTING: Final = "TIEREDFS_CACHE_DIR"
"""The environment variable that names the directory; empty for no cache."""


def default_directory(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the default directory of this user's index cache; None for no cache.

    It is the value of TIEREDFS_CACHE_DIR, with no cache if that is empty; if unset, a
    folder in the user's cache directory. A user without a home directory has no cache.
    """
    setting = environment.get(CACHE_SETTING)
    if setting is not None:
        return Path(setting) if setting else None
    # The system may not know the user of a container: then platformdirs raises, or, in
    # older releases, returns "~/.cache" unexpanded.
    with suppress(RuntimeError):
        place = user_cache_path("tieredfs", appauthor=False) / "indexes"
        if place.is_absolute():
            return place
    return None
