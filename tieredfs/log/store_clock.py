"""The time by the clock of a store, which gives its objects their times.

The clock of this machine may be wrong by hours: after a night asleep, or in a container
whose host was moved.
"""

import secrets

from tieredfs.format.segment.key_scheme import MANAGER_FOLDER
from tieredfs.objects import ObjectStore

__all__ = ["store_time", "written_at"]


def store_time(store: ObjectStore) -> int | None:
    """Return the time in ms since 1970 UTC; None if the store does not report it.

    A small object is written, looked up and deleted.
    """
    # The key is unique: another process could delete the object before it is looked up.
    key = f"{MANAGER_FOLDER}clock/{secrets.token_hex(16)}"
    try:
        return written_at(store, key, b"now")
    finally:
        store.delete([key])


def written_at(store: ObjectStore, key: str, data: bytes) -> int | None:
    """Write an object, replacing any; return when, in ms since 1970 UTC.

    Returns:
        The time by the clock of the store; None if it does not report it.
    """
    store.put(key, data, overwrite=True)
    return store.head(key).modified
