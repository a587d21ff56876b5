"""Open the log directory to push, or report what to give instead."""

import re
from itertools import islice
from pathlib import Path
from typing import Final

from tieredfs.errors import InvalidArgumentError, NotFoundError
from tieredfs.objects import ObjectStore
from tieredfs.storage import RemoteStorageManager, open_storage

__all__ = ["check_is_directory", "open_log_directory"]

_LAYOUT: Final = "kafka-log"
_WANTED: Final = "the broker's log directory (log.dirs), with folders such as orders-0"
_LOG: Final = re.compile(r"\d{20}\.log", re.ASCII)
_PARTITION: Final = re.compile(r"(.+)-(?:0|[1-9]\d{0,9})", re.ASCII)
_MAX_PAGE_KEYS: Final = 1000


def open_log_directory(store: ObjectStore) -> RemoteStorageManager:
    """Open a broker's log directory.

    Raises:
        NotFoundError: There is no partition in it; the message describes what was
            found, and what to give instead.
    """
    storage = open_storage(store, _LAYOUT)
    if not storage.list_partitions():
        raise NotFoundError(f"not found: {_explanation(store)}")
    return storage


def check_is_directory(store: ObjectStore) -> None:
    """Check that a store on this machine's disks is a directory, or may become one.

    Raises:
        InvalidArgumentError: It is a file, or is below one.
    """
    place = store.local_path
    for part in () if place is None else (place, *place.parents):
        if part.exists() and not part.is_dir():
            raise InvalidArgumentError(f"{part} is a file: give a directory")


def _explanation(store: ObjectStore) -> str:
    """Describe what was found instead of partitions, and what to give."""
    url = store.url
    parent, _, name = url.rstrip("/").rpartition("/")
    if "://" not in url and not Path(url).is_dir():
        what = "is a file" if Path(url).exists() else "does not exist"
        return f"{url} {what}: give {_WANTED}"
    keys = [entry.key for entry in islice(store.list(delimiter="/"), _MAX_PAGE_KEYS)]
    if any(_LOG.fullmatch(key) for key in keys):
        match = _PARTITION.fullmatch(name)
        topic = f" with --topic {match[1]}" if match else ""
        return f"a topic in {url}, which is one partition: give {parent or '/'}{topic}"
    return f"a topic in {url}: give {_WANTED}"
