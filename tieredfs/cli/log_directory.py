"""Open the log directory to push, or report what to give instead."""

import re
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

from tieredfs.errors import InvalidArgumentError, NotFoundError, TieredFSError
from tieredfs.objects import MAX_PAGE_KEYS, ObjectStore
from tieredfs.objects.redact import redact_url
from tieredfs.storage import (
    RemoteStorageManager,
    detect_layout,
    open_storage,
    split_plugin_url,
)

__all__ = [
    "LAYOUT",
    "check_is_broker",
    "check_is_directory",
    "log_directory_url",
    "open_log_directory",
]

LAYOUT: Final = "kafka-log"
_OF_A_BROKER: Final = "meta.properties"
"""What a broker writes before it has a partition."""

_WANTED: Final = "the broker's log directory (log.dirs), with folders such as orders-0"
_LOG: Final = re.compile(r"\d{20}\.log", re.ASCII)
_PARTITION: Final = re.compile(r"(.+)-(?:0|[1-9]\d{0,9})", re.ASCII)


def log_directory_url(given: str) -> str:
    """Return the URL or path of a log directory, without the prefix of its layout.

    Raises:
        InvalidArgumentError: The prefix names another layout.
    """
    name, url = split_plugin_url(given)
    if name not in {None, LAYOUT}:
        raise InvalidArgumentError(
            f"{redact_url(given)}: the layout of a log directory is {LAYOUT}, not "
            f"{name}: give {redact_url(url)}"
        )
    return url


def open_log_directory(store: ObjectStore) -> RemoteStorageManager:
    """Open a broker's log directory.

    Raises:
        NotFoundError: There is no partition in it; the message describes what was
            found, and what to give instead.
    """
    storage = open_storage(store, LAYOUT)
    if not storage.list_partitions():
        raise NotFoundError(f"not found: {_explanation(store)}")
    return storage


def check_is_broker(storage: RemoteStorageManager) -> None:
    """Check that a directory is a broker's, which may not have a partition yet.

    Raises:
        NotFoundError: It is not; as from ``open_log_directory``.
    """
    store = storage.store
    place = store.local_path
    if place is None or not (place / _OF_A_BROKER).exists():
        open_log_directory(store)


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
    keys = [entry.key for entry in islice(store.list(delimiter="/"), MAX_PAGE_KEYS)]
    if any(_LOG.fullmatch(key) for key in keys):
        match = _PARTITION.fullmatch(name)
        topic = f" with --topic {match[1]}" if match else ""
        return f"a topic in {url}, which is one partition: give {parent or '/'}{topic}"
    with suppress(TieredFSError):  # nothing is stored there, or nothing that is known
        layout = detect_layout(store)
        if layout != LAYOUT:
            return (
                f"a log directory in {url}, which is a tier of the layout {layout}: "
                "move it to another place with tieredfs migrate"
            )
    return f"a topic in {url}: give {_WANTED}"
