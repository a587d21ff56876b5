"""The layout of the plugin beside this package, which is not installed here."""

import sys
from importlib import import_module
from pathlib import Path

from tieredfs import ObjectStore, RemoteStorageManager

__all__ = ["kafscale"]

_FOLDER = Path(__file__).parents[2] / "plugins" / "tieredfs-kafscale"


def kafscale(store: ObjectStore) -> RemoteStorageManager:
    """Return a storage of KafScale's layout."""
    if str(_FOLDER) not in sys.path:
        sys.path.append(str(_FOLDER))
    storage: RemoteStorageManager = import_module("tieredfs_kafscale").KafScale(store)
    return storage
